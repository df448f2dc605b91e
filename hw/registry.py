"""Registry of the components that implement unit kinds; open for a user's own units."""

from importlib import import_module
from importlib.util import find_spec

from amaranth.lib import wiring

from ..machine.kinds import KINDS

UNITS: dict[str, type[wiring.Component]] = {}
"""Kind -> component class, of those that were asked for or registered."""

ROOMS = (".units", ".memory")
"""Packages of the components: each in the file of its kind's name."""


def register(kind: str, cls: type[wiring.Component]) -> type[wiring.Component]:
    """Let ``cls`` implement the unit kind ``kind``, which ``penstock.machine.kinds`` must list.

    The class follows ``penstock.hw.units.unit.Unit``: the same constructor, ``cfg_layout`` and
    members. Its attribute ``implements`` becomes the kind's name.
    """
    if kind not in KINDS:
        raise ValueError(
            f"Unit kind must be registered in penstock.machine.kinds first, not {kind!r}"
        )
    there = UNITS.get(kind) or _own(kind) or cls
    if there is not cls:
        raise ValueError(f"Unit kind {kind!r} is already implemented by {there!r}")
    UNITS[kind] = cls
    cls.implements = kind
    return cls


def component(kind: str) -> type[wiring.Component]:
    """The class of a kind.

    Raises
    ------
    LookupError
        If there is none; the message lists the kinds there are.
    """
    if kind not in UNITS:
        own = _own(kind)
        if own is None:
            known = sorted(name for name in KINDS if name in UNITS or _own(name))
            raise LookupError(
                f"Unit kind {kind!r} has no component; known kinds are {', '.join(known)}"
            )
        UNITS[kind] = own
    return UNITS[kind]


def _own(kind: str) -> type[wiring.Component] | None:
    """The package's class for a kind, if it has one."""
    for room in ROOMS if kind in KINDS and kind.isidentifier() else ():
        name = f"{__package__}{room}.{kind}"
        for value in vars(import_module(name)).values() if find_spec(name) else ():
            if isinstance(value, type) and vars(value).get("implements") == kind:
                return value
    return None
