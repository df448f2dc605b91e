"""The token-dataflow overlay from Python: run a graph on meshes of dynamic and static PEs, and compare (docs/overlay.md)."""

from .compare import compare, instances, run, table, variants

__all__ = ["compare", "instances", "run", "table", "variants"]
