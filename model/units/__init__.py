"""The units of the `machine` timing, compiled: one function per kind, each one cycle of
docs/timing.md for one unit.

`state` has the records of a run and what channels do, `tiles` and `digest` what is done with their
values, `offchip` what the ports share, `scratchpad_*` the parts of a scratchpad; each other module
the kinds of its name: their state, how it begins, and what they do. `penstock.model.engine` calls
them by their address.
"""

from . import accum, edits, ends, load, numbers, pipeline, routing, rows, scratchpad, shape, store
from .state import KINDS

__all__ = [
    "KINDS",
    "accum",
    "edits",
    "ends",
    "load",
    "numbers",
    "pipeline",
    "routing",
    "rows",
    "scratchpad",
    "shape",
    "store",
]
