"""Built-in programs by name. A module defines ``program(**params)`` and may define ``inputs`` and ``reference``."""

WORKLOADS: dict[str, str] = {"swiglu": "penstock.frontend.workloads.swiglu"}


def register(name: str, module: str) -> None:
    """Add a workload: an importable module that defines ``program(**params)``."""
    WORKLOADS[name] = module
