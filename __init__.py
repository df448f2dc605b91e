"""Penstock: a cycle-exact hardware model of a spatial dataflow accelerator for Streaming Tensor
Programs.

The names a user needs are here; the command line is ``penstock`` (cli).
"""

import importlib

_NAMES = {
    "run": "penstock.runs.api",
    "sweep": "penstock.runs.api",
    "table": "penstock.runs.api",
    "timeline": "penstock.runs.api",
    "verilog": "penstock.runs.api",
    "from_torch": "penstock.layers.live",
    "Record": "penstock.machine.record",
    "load_records": "penstock.runs.api",
    "save_records": "penstock.runs.api",
    "load_config": "penstock.runs.api",
    "PenstockError": "penstock.machine.errors",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str):
    """Import on first use, so that `penstock --help` need not compile anything."""
    if name not in _NAMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)
