"""Penstock: a cycle-exact hardware model of a spatial dataflow accelerator for Streaming Tensor Programs.

The names a user needs are here; the command line is ``penstock`` (penstock/cli).
"""

import importlib

_NAMES = {
    "run": "penstock.api", "sweep": "penstock.api", "table": "penstock.api", "timeline": "penstock.api", "verilog": "penstock.api",
    "Record": "penstock.machine.record", "load_records": "penstock.api", "save_records": "penstock.api",
    "load_config": "penstock.api",
    "PenstockError": "penstock.machine.errors",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str):
    """Import on first use, so that `penstock --help` need not compile anything."""
    if name not in _NAMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)
