"""The values of each element-wise function: its NumPy definition and its compiled tile kernel.

The names and costs are in ``penstock.machine.functions``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..machine import arith
from ..machine.functions import lookup as _entry
from ..machine.kinds import KINDS
from . import tile_kernels

__all__ = ["VALUES", "Values", "lookup", "register"]


@dataclass(frozen=True)
class Values:
    """How a function's values are computed.

    Parameters
    ----------
    reference : callable
        NumPy definition: float32 arrays of one shape in, one float32 array of that shape out.
    tile : callable
        numba kernel ``(a, out)`` or ``(a, b, out)`` over C-contiguous float32 tiles, equal to
        ``reference`` in every bit.

    """

    reference: Callable
    tile: Callable


VALUES: dict[str, Values] = {}


def register(name: str, *, reference: Callable, tile: Callable) -> Values:
    """Give the function ``name`` its values, or the kind of pipelined units ``name``.

    ``penstock.machine.functions`` or ``penstock.machine.kinds`` must list it.
    """
    if name not in KINDS:
        _entry(name)
    if name in VALUES:
        raise ValueError(f"Function '{name}' already has values; choose another name")
    return VALUES.setdefault(name, Values(reference, tile))


def lookup(name: str) -> Values:
    """The values of ``name``; an unknown name raises ``UnknownFunctionError``."""
    if name not in VALUES:
        _entry(name)
        raise LookupError(
            f"Function '{name}' has no values; add them with "
            f"penstock.model.functions.register({name!r}, reference=..., tile=...)"
        )
    return VALUES[name]


register("add", reference=arith.add, tile=tile_kernels.add_tile)
register("sub", reference=arith.sub, tile=tile_kernels.sub_tile)
register("mul", reference=arith.mul, tile=tile_kernels.mul_tile)
register("max", reference=arith.max_, tile=tile_kernels.max_tile)
register("div", reference=arith.div, tile=tile_kernels.div_tile)
register("exp", reference=arith.exp, tile=tile_kernels.exp_tile)
register("silu", reference=arith.silu, tile=tile_kernels.silu_tile)
register("cast_bf16", reference=arith.cast_bf16, tile=tile_kernels.cast_bf16_tile)
register("cast_fp32", reference=arith.cast_fp32, tile=tile_kernels.cast_fp32_tile)

BUILT_IN = frozenset(VALUES)
"""Names of those above; users may register others."""
