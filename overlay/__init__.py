"""The token-dataflow overlay from Python: run a graph on meshes of dynamic and static PEs, and
compare (docs/overlay.md).
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runs.comparison import compare, run, table, variants

__all__ = ["compare", "run", "table", "variants"]


def __getattr__(name: str):
    """Import on first use: the help of ``penstock overlay`` needs no model."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".runs.comparison", __name__), name)
