"""The values of each element-wise function: its NumPy definition and its compiled tile kernel.

The names and costs are in ``penstock.machine.functions``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..machine.functions import FUNCTIONS
from ..machine.functions import lookup as _entry
from ..machine.kinds import KINDS
from . import tile_kernels


@dataclass(frozen=True)
class Values:
    """Computation of a function's values.

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


def register(name: str, *, tile: Callable, reference: Callable | None = None) -> Values:
    """Give the function ``name`` its values, or the kind of pipelined units ``name``.

    ``penstock.machine.functions`` or ``penstock.machine.kinds`` must list it. The NumPy definition
    of a function is that of its entry, unless ``reference`` is given.
    """
    if name not in KINDS:
        reference = reference or _entry(name).reference
    if reference is None:
        raise ValueError(f"'{name}' has no NumPy definition; give one as reference=...")
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


for _name in FUNCTIONS:
    register(_name, tile=getattr(tile_kernels, f"{_name}_tile"))

BUILT_IN = frozenset(VALUES)
"""Names of those above; users may register others."""
