"""Imports that each worker needs, made once in the process that workers are forked from.

A small point is run, so that no worker loads code, or fills a table, that all of them have.
"""

from __future__ import annotations

import contextlib
import gc

from ..machine.errors import PenstockError
from ..model import engine, simulate
from . import many

POINT = {"batch": 2, "dim": 2, "inter": 2, "tile_b": 2, "tile_inter": 2}

if simulate.compiled():
    engine.compile_all()
    with contextlib.suppress(PenstockError):
        many.outcomes("swiglu", "small_fpga", [POINT])
gc.freeze()  # no worker looks through it for garbage
