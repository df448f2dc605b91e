"""The element-wise functions a machine can evaluate, and the cost of each.

The table says what the fast model, the hardware and the analyses have to agree on: the number of
operands, the pipeline depth of the datapath, and the floating-point operations counted per element.
A definition has the function's values too, as ``penstock.machine.arith`` computes them. Tile
kernels are in ``penstock.model.tile_kernels``, datapaths in ``penstock.hw.arith``; a user's own
function is added to the three places by their ``register`` calls.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import arith
from .errors import PenstockError


class UnknownFunctionError(PenstockError, LookupError):
    """A function name that nobody registered."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    return isinstance(value, int)


@dataclass(frozen=True)
class Function:
    """One element-wise function.

    Parameters
    ----------
    name : str
        Name used by programs, unit graphs and both back ends.
    arity : int
        Number of tile operands, 1 or 2.
    stages : int
        Pipeline stages of the datapath. The last stage has no register: it ends in its consumer's
        queue, so an operand that enters in cycle c gives its result in cycle ``c + stages - 1``,
        and 1 means purely combinational.
    flops_per_element : int
        Operations counted per element, as the published tools count them.
    doc : str
        One sentence for listings.
    identity : float, optional
        The value that leaves the other operand as it is: a function that has one can reduce (kind
        `accum`).
    reference : callable, optional
        NumPy definition of its values: float32 arrays of one shape in, one of that shape out.
    float64 : callable, optional
        Its meaning in float64, which errors are measured against; arrays in, array out.
    deep : int, optional
        Pipeline stages of the datapath's deep form; None: it has none, and ``stages`` hold.
    """

    name: str
    arity: int
    stages: int
    flops_per_element: int
    doc: str
    identity: float | None = None
    reference: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    float64: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    deep: int | None = None

    def __post_init__(self) -> None:
        if not _is_text(self.name) or not self.name.isidentifier():
            raise ValueError(f"Function name must be an identifier, not {self.name!r}")
        if self.arity not in (1, 2):
            raise ValueError(f"Arity of function '{self.name}' must be 1 or 2, not {self.arity!r}")
        if not _is_integer(self.stages) or self.stages < 1:
            raise ValueError(
                f"Stages of function '{self.name}' must be a positive integer, not {self.stages!r}"
            )
        if not _is_integer(self.flops_per_element) or self.flops_per_element < 0:
            raise ValueError(
                f"Flops per element of function '{self.name}' must be a non-negative integer, "
                f"not {self.flops_per_element!r}"
            )

    def depth(self, deep: bool) -> int:
        """Stages of the datapath in its deep form, or in the other."""
        return self.deep if deep and self.deep is not None else self.stages


FUNCTIONS: dict[str, Function] = {}


def register(function: Function) -> Function:
    """Add a function to the table; the same entry twice is harmless, two different ones are an
    error.
    """
    present = FUNCTIONS.setdefault(function.name, function)
    if present != function:
        raise ValueError(
            f"Function '{function.name}' is already registered as {present!r}; choose another name"
        )
    return function


def lookup(name: str) -> Function:
    """The entry called ``name``.

    Raises
    ------
    UnknownFunctionError
        If there is none; the message lists the names there are.
    """
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise UnknownFunctionError(
            f"function {name!r} is not known",
            rule=f"known are {', '.join(sorted(FUNCTIONS))}",
            remedy="use one of them, or register it",
        ) from None


def fp32_bits(x: float) -> int:
    """The bits of a number in fp32."""
    return struct.unpack("<I", struct.pack("<f", x))[0]


def identity_bits(name: str, given: bool = False) -> int:
    """The fp32 bits of a reducing function's identity; 0 where it has none and needs none, for an
    initial value is ``given``.
    """
    identity = lookup(name).identity
    if identity is None and given:
        return 0
    if identity is None:
        raise UnknownFunctionError(
            f"function {name!r} has no identity",
            rule="a reduction starts from the function's identity",
            remedy="reduce with "
            + " or ".join(sorted(f.name for f in FUNCTIONS.values() if f.identity is not None)),
        )
    return fp32_bits(identity)


def reducing_stages(deep: bool) -> int:
    """Pipeline stages of a function of two operands in units that reduce: those of an addition."""
    return lookup("add").depth(deep)


def dot_stages(t: int, deep: bool = False) -> int:
    """Pipeline stages of a dot product of length ``t``: multipliers, then an addition a tree
    level.
    """
    if t not in (2, 4, 8, 16):
        raise ValueError(f"Tile size must be 2, 4, 8 or 16, not {t!r}")
    levels = t.bit_length() - 1
    return lookup("mul").depth(deep) + levels * reducing_stages(deep)


Meaning = Callable[..., Any]


def _quiet(meaning: Meaning) -> Meaning:
    def of(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(meaning(*operands), np.float64)

    return of


def _select(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, a)


def _unless(a: Any, b: Any) -> Any:
    return np.where(b == 0, a, 0)


def _either(a: Any, b: Any) -> Any:
    return a + np.where(a == 0, b, 0)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _recip(x: Any) -> Any:
    return 1 / x


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    return x * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) / 2


def _gelu_tanh(x: Any) -> Any:
    return x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


register(Function("add", 2, 1, 1, "Sum, fp32.", 0.0, arith.add, np.add, 7))
register(Function("sub", 2, 1, 1, "Difference, fp32.", None, arith.sub, np.subtract, 7))
register(Function("mul", 2, 1, 1, "Product, fp32.", 1.0, arith.mul, np.multiply, 5))
register(
    Function(
        "max",
        2,
        1,
        1,
        "Larger operand, fp32; NaN if either is NaN.",
        -math.inf,
        arith.max_,
        np.maximum,
        2,
    )
)
register(Function("exp", 1, 5, 4, "Natural exponential, fp32.", None, arith.exp, np.exp, 17))
# Name, operands, stages, deep stages, FLOP, doc, definition, meaning in float64.
_LAYERS: tuple[tuple[str, int, int, int, int, str, Meaning, Meaning], ...] = (
    ("div", 2, 6, 17, 1, "Quotient, fp32, correctly rounded.", arith.div, np.divide),
    ("silu", 1, 10, 31, 8, "x / (1 + exp(-x)), fp32.", arith.silu, _silu),
    ("lt", 2, 1, 2, 1, "1 where a < b, else 0.", arith.lt, np.less),
    ("le", 2, 1, 2, 1, "1 where a <= b, else 0.", arith.le, np.less_equal),
    ("eq", 2, 1, 2, 1, "1 where a equals b, else 0.", arith.eq, np.equal),
    ("gt", 2, 1, 2, 1, "1 where a > b, else 0.", arith.gt, np.greater),
    ("ge", 2, 1, 2, 1, "1 where a >= b, else 0.", arith.ge, np.greater_equal),
    ("min", 2, 1, 2, 1, "Smaller operand, fp32; NaN if either is NaN.", arith.min_, np.minimum),
    ("select", 2, 1, 1, 1, "a where b is not 0, else 0.", arith.select, _select),
    ("unless", 2, 1, 1, 1, "a where b is 0, else 0.", arith.unless, _unless),
    ("either", 2, 1, 1, 1, "a, or b where a is +0.", arith.either, _either),
    ("abs", 1, 1, 1, 1, "Magnitude.", arith.abs_, np.abs),
    ("relu", 1, 1, 2, 1, "Larger of a and 0; NaN for NaN.", arith.relu, _relu),
    ("square", 1, 1, 5, 1, "a * a, fp32.", arith.square, np.square),
    ("recip", 1, 6, 17, 1, "1 / a, fp32, correctly rounded.", arith.recip, _recip),
    ("sqrt", 1, 8, 15, 1, "Square root, fp32, correctly rounded.", arith.sqrt, np.sqrt),
    ("rsqrt", 1, 4, 10, 2, "1 / sqrt(a), fp32.", arith.rsqrt, _rsqrt),
    ("log", 1, 6, 17, 4, "Natural logarithm, fp32.", arith.log, np.log),
    ("exp2", 1, 5, 17, 4, "2**a, fp32.", arith.exp2, np.exp2),
    ("tanh", 1, 5, 16, 8, "Hyperbolic tangent, fp32.", arith.tanh, np.tanh),
    ("sigmoid", 1, 10, 31, 7, "1 / (1 + exp(-a)), fp32.", arith.sigmoid, _sigmoid),
    ("gelu", 1, 12, 35, 8, "a (1 + erf(a / sqrt(2))) / 2, fp32.", arith.gelu, _gelu),
    (
        "gelu_tanh",
        1,
        12,
        35,
        16,
        "a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a**3))) / 2, fp32.",
        arith.gelu_tanh,
        _gelu_tanh,
    ),
)
for _name, _arity, _stages, _deep, _flops, _doc, _value, _meaning in _LAYERS:
    _entry = (_name, _arity, _stages, _flops, _doc, None, _value, _quiet(_meaning))
    register(Function(*_entry, deep=_deep))
register(
    Function(
        "cast_bf16",
        1,
        1,
        0,
        "Rounds fp32 to bf16, kept in the upper half of the word.",
        None,
        arith.cast_bf16,
        np.copy,
    )
)
register(
    Function("cast_fp32", 1, 1, 0, "Widens bf16 to fp32, exactly.", None, arith.cast_fp32, np.copy)
)
