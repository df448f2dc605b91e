"""The compiled units as C functions, each compiled when a graph first has it.

The engine calls them through addresses: a run compiles the units that it has, and a unit that is
changed is compiled alone. Each calls one function of `penstock.model.units`, which says what it
does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from numba import types
from numba.core import sigutils
from numba.core.ccallback import CFunc

from ..machine.kinds import kind_of
from .compiling import address_of, c_function
from .records import Record, at_address, digest_of
from .units import KINDS
from .units.state import Net

SIGNATURE = sigutils.normalize_signature(types.int64(types.int64, types.int64, types.int64))

SOURCE = """
def {name}(state, unit, cycle):
    net = net_at(state)
    flags = function(net, record(net, unit, 0), cycle)
    return {result}
"""


def act_of(kind: str) -> str | None:
    """The kind whose function a kind of units shares; None if the model has none."""
    if kind not in KINDS:
        return "map" if kind_of(kind).values else None
    function = KINDS[kind][1]
    return next(name for name, (_, other) in KINDS.items() if other is function)


def built_in(kind: str) -> bool:
    """True if the function of a kind is the package's own."""
    return KINDS[kind][1].__module__.startswith(f"{__package__}.")


def address(kind: str) -> int:
    """Address of the function of a kind (:func:`act_of`), compiled or from numba's cache."""
    return address_of(_compiled(kind, *KINDS[kind]))


@functools.cache
def _compiled(kind: str, record: Record, function: Callable) -> CFunc:
    # The cache sees no change of a file from outside.
    digest = sources_digest() if built_in(kind) else None
    return compiled(f"act_{kind}", Net, record, function, digest)


def compiled(
    name: str, net: Record, record: Record, function: Callable, digest: str | None, flags=True
) -> CFunc:
    """A unit's function for callers in C, of the ``name`` under which numba's cache has it; without
    ``flags`` it returns nothing.
    """
    scope = {
        "net_at": at_address(net),
        "record": record,
        "function": function,
        "__name__": __name__,
    }
    source = SOURCE.format(name=name, result="flags" if flags else "0")
    exec(compile(source, __file__, "exec"), scope)
    options = {"boundscheck": False, "error_model": "numpy"}
    return c_function(scope[name], SIGNATURE, options, digest)


@functools.cache
def sources_digest() -> str:
    """Digest of all that compiled code inlines: numba's cache looks at one file only."""
    folder = Path(__file__).parent
    inlined = ("acts", "compiling", "engine", "hbm2", "hbm2_state", "records")
    own = (*folder.glob("dram*.py"), *(folder / f"{name}.py" for name in inlined))
    return digest_of(*own, *sorted((folder / "units").glob("*.py")))
