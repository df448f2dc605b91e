"""Which component implements a unit kind; open for a user's own units."""

from importlib import import_module
from importlib.util import find_spec

from amaranth.lib import wiring

from ..machine.kinds import KINDS

__all__ = ["UNITS", "component", "register"]


UNITS: dict[str, type[wiring.Component]] = {}
"""Kind -> component class, of those that were asked for or registered."""

ROOMS = (".units", ".memory")
"""Where the components of the package are: each in the file of its kind's name."""


def register(kind: str, cls: type[wiring.Component]) -> type[wiring.Component]:
    """Let ``cls`` implement the unit kind ``kind``, which ``penstock.machine.kinds`` must list.

    The class follows ``penstock.hw.units.unit.Unit``: the same constructor, ``cfg_layout`` and
    members. Its attribute ``kind`` becomes the kind's name.
    """
    if kind not in KINDS:
        raise ValueError(
            f"Unit kind must be registered in penstock.machine.kinds first, not {kind!r}"
        )
    if _module(kind) or UNITS.setdefault(kind, cls) is not cls:
        raise ValueError(f"Unit kind {kind!r} is already implemented by {component(kind)!r}")
    cls.kind = kind
    return cls


def component(kind: str) -> type[wiring.Component]:
    """The class of a kind.

    Raises
    ------
    LookupError
        If there is none; the message lists the kinds there are.

    """
    if kind not in UNITS:
        module = _module(kind)
        if not module:
            known = sorted(name for name in KINDS if name in UNITS or _module(name))
            raise LookupError(
                f"Unit kind {kind!r} has no component; known kinds are {', '.join(known)}"
            )
        classes = vars(import_module(module)).values()
        UNITS[kind] = next(
            c for c in classes if isinstance(c, type) and vars(c).get("kind") == kind
        )
    return UNITS[kind]


def _module(kind: str) -> str:
    """The module of the package that implements a kind; empty if there is none."""
    for room in ROOMS if kind in KINDS and kind.isidentifier() else ():
        name = f"{__package__}{room}.{kind}"
        if find_spec(name):
            return name
    return ""
