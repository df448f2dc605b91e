"""The RTL under cocotb and Verilator, and its comparison with the model.

``run`` and ``run_many`` simulate; ``check.compare`` compares; ``agents`` has streams for unit
benches; ``waves`` decodes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import run, run_many

__all__ = ["run", "run_many"]


def __getattr__(name: str):
    if name in __all__:  # the simulator's own Python imports this package too and needs none of it
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
