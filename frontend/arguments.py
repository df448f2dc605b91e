"""Arguments of operators: typed fields, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

REQUIRED = object()
"""Default of an argument that every operator states."""


@dataclass(frozen=True, eq=False)
class Argument:
    """An argument of an operator: one line of meaning, and its value where it is left out."""

    doc: str
    default: Any


def argument(doc: str, default: Any = REQUIRED) -> Any:
    """An argument, as in ``rank: int = argument("inner dimensions reduced")``."""
    return Argument(doc, default)


class Arguments:
    """Base of an operator's arguments, its fields: those of a class before those it inherits.

    The operator checks them, and puts those that have several forms into the one that the field's
    type names.
    """

    declared: ClassVar[dict[str, Argument]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: x for name, x in vars(cls).items() if isinstance(x, Argument)}
        cls.declared = {**own, **cls.declared, **own}

    def __init__(self, given: dict[str, Any]):
        vars(self).update({k: given.get(k, x.default) for k, x in self.declared.items()})

    @property
    def stated(self) -> dict[str, Any]:
        """The arguments by name, without those that have their default."""
        return {k: v for k, v in vars(self).items() if v != self.declared[k].default}
