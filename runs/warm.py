"""Imported once, by the process that workers are forked from: what each of them needs is there."""

from __future__ import annotations

from ..model import engine, simulate
from . import worker

__all__ = ["worker"]

if simulate.compiled():
    engine.compile_all()
