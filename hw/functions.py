"""The datapath of each element-wise function.

The names and stage counts are in ``penstock.machine.functions``.
"""

from collections.abc import Callable

from ..machine.functions import lookup as _entry
from .arith.add import Add, Sub
from .arith.cast import CastBf16, CastFp32
from .arith.div import Div
from .arith.exp import Exp
from .arith.lane import Lane
from .arith.maximum import Maximum
from .arith.mul import Mul
from .arith.silu import Silu

__all__ = ["DATAPATHS", "lookup", "register"]

DATAPATHS: dict[str, Callable[[], Lane]] = {}


def register(name: str, datapath: Callable[[], Lane]) -> None:
    """Give the function ``name``, which ``penstock.machine.functions`` must list, its datapath.

    Parameters
    ----------
    name : str
        Name of the function.
    datapath : callable
        Makes one lane: a :class:`~penstock.hw.arith.lane.Lane` with the arity and the stages
        listed.

    Raises
    ------
    ValueError
        If the name has a datapath already, or the lane differs from the entry.

    """
    entry = _entry(name)
    if name in DATAPATHS:
        raise ValueError(f"Function '{name}' already has a datapath; choose another name")
    lane = datapath()
    lane._MustUse__silence = True  # made to be looked at, never elaborated
    arity = 2 if "b" in lane.signature.members else 1
    if (arity, lane.STAGES) != (entry.arity, entry.stages):
        raise ValueError(
            f"Datapath of function '{name}' must have {entry.arity} operands and {entry.stages} "
            "stages, "
            f"not {arity} and {lane.STAGES}"
        )
    DATAPATHS[name] = datapath


def lookup(name: str) -> Callable[[], Lane]:
    """What makes one lane of ``name``; an unknown name raises ``UnknownFunctionError``."""
    _entry(name)
    if name not in DATAPATHS:
        raise LookupError(
            f"Function '{name}' has no datapath; add one with "
            f"penstock.hw.functions.register({name!r}, ...)"
        )
    return DATAPATHS[name]


register("add", Add)
register("sub", Sub)
register("mul", Mul)
register("max", Maximum)
register("div", Div)
register("exp", Exp)
register("silu", Silu)
register("cast_bf16", CastBf16)
register("cast_fp32", CastFp32)
