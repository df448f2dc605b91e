"""Built-in programs by name.

A module defines ``program(**params)`` and may define ``inputs``, ``streams`` (of its sources) and
``reference``.
"""

WORKLOADS: dict[str, str] = {
    name: f"penstock.workloads.{name}"
    for name in (
        "swiglu",
        "simple_moe",
        "moe",
        "attention",
        "published_moe",
        "published_attention",
        "published_layer",
        "operators",
    )
}


def register(name: str, module: str) -> None:
    """Add a workload: an importable module that defines ``program(**params)``."""
    WORKLOADS[name] = module
