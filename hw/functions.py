"""The datapath of each element-wise function.

The names and stage counts are in ``penstock.machine.functions``.
"""

from collections.abc import Callable
from functools import partial

from ..machine.functions import lookup as _entry
from .arith.add import Add, Sub
from .arith.cast import CastBf16, CastFp32
from .arith.compare import Absolute, Compare, Either, Select
from .arith.div import Div
from .arith.exp import Exp
from .arith.lane import Lane
from .arith.log import Log
from .arith.maximum import Maximum
from .arith.mul import Mul
from .arith.rsqrt import Rsqrt
from .arith.silu import Gelu, GeluTanh, Sigmoid, Silu
from .arith.sqrt import Sqrt
from .arith.tanh import Tanh
from .arith.tied import Tied

DATAPATHS: dict[str, Callable[[], Lane]] = {}
DEEP: dict[str, Callable[[], Lane]] = {}
"""Functions that have a deep form."""


def register(
    name: str, datapath: Callable[[], Lane], deep: Callable[[], Lane] | None = None
) -> None:
    """Give the function ``name``, which ``penstock.machine.functions`` must list, its datapath.

    Parameters
    ----------
    name : str
        Name of the function.
    datapath : callable
        Makes one lane: a :class:`~penstock.hw.arith.lane.Lane` with the arity and the stages
        listed.
    deep : callable, optional
        The same of its deep form.

    Raises
    ------
    ValueError
        If the name has a datapath already, or the lane differs from the entry.
    """
    entry = _entry(name)
    if name in DATAPATHS:
        raise ValueError(f"Function '{name}' already has a datapath; choose another name")
    _check(name, datapath(), entry.stages)
    if deep is not None:
        _check(name, deep(), entry.depth(True))
        DEEP[name] = deep
    DATAPATHS[name] = datapath


def _check(name: str, lane: Lane, stages: int) -> None:
    lane._MustUse__silence = True  # made to be looked at, never elaborated
    arity = 2 if "b" in lane.signature.members else 1
    listed = _entry(name).arity
    if (arity, lane.STAGES) != (listed, stages):
        raise ValueError(
            f"Datapath of function '{name}' must have {listed} operands and {stages} stages, "
            f"not {arity} and {lane.STAGES}"
        )


def lookup(name: str, *, deep: bool = False) -> Callable[[], Lane]:
    """Maker of one lane of ``name``, in its ``deep`` form if it has one; an unknown name raises
    ``UnknownFunctionError``.
    """
    _entry(name)
    if name not in DATAPATHS:
        raise LookupError(
            f"Function '{name}' has no datapath; add one with "
            f"penstock.hw.functions.register({name!r}, ...)"
        )
    return DEEP.get(name, DATAPATHS[name]) if deep else DATAPATHS[name]


register("add", Add, lambda: Add(deep=True))
register("sub", Sub, lambda: Sub(deep=True))
register("mul", Mul, lambda: Mul(deep=True))
register("max", Maximum, lambda: Maximum(deep=True))
register("div", Div, lambda: Div(deep=True))
register("exp", Exp, lambda: Exp(deep=True))
register("silu", Silu, lambda: Silu(deep=True))
register("cast_bf16", CastBf16)
register("cast_fp32", CastFp32)
for _name in ("lt", "le", "eq", "gt", "ge"):
    register(_name, partial(Compare, _name), partial(Compare, _name, deep=True))
register("min", lambda: Maximum(least=True), lambda: Maximum(least=True, deep=True))
register("select", Select)
register("unless", partial(Select, unless=True))
register("either", Either)
register("abs", Absolute)
register("relu", lambda: Tied(Maximum(), b=0), lambda: Tied(Maximum(deep=True), b=0))
register("square", lambda: Tied(Mul()), lambda: Tied(Mul(deep=True)))
_ONE = 0x3F800000
register("recip", lambda: Tied(Div(), a=_ONE), lambda: Tied(Div(deep=True), a=_ONE))
register("exp2", lambda: Exp(factor=1 << 36), lambda: Exp(factor=1 << 36, deep=True))
for _name, _lane in {
    "sqrt": Sqrt,
    "rsqrt": Rsqrt,
    "log": Log,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
    "gelu": Gelu,
    "gelu_tanh": GeluTanh,
}.items():
    register(_name, _lane, partial(_lane, deep=True))
