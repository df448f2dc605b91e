"""Forms of an operator: the ways of using it that its arguments, the
streams it is given and its function tell apart.

An operator (and a function) declares what tells its forms apart once,
in ``forms``: the names of arguments or properties, and the values of
each. From that come all forms there are (:func:`forms_of_class`) and
the ones that an operator of a program has (:func:`forms_of`). Several
names in one entry, with spaces between, stand for every combination of
their values. Of numbers, each stands for those up to the next, the last
for all from it on; ``DIVIDED`` for those that t divides, from the last
one on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..functions.tiles import DIVIDED, Function
from ..graph import Operator
from ..operators.compute import HigherOrder

__all__ = ["forms_of", "forms_of_class"]


def _label(values: tuple, value: object, t: int) -> object:
    """The one of ``values`` that stands for ``value``; None where none does."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value if value in values else None
    numbers = [v for v in values if isinstance(v, int)]
    found = max((v for v in numbers if v <= value), default=None)
    return DIVIDED if DIVIDED in values and found == numbers[-1] and value % t == 0 else found


def _text(name: str, values: tuple, value: object) -> str:
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    return (
        f"{name} {'yes' if value else 'no'}"
        if isinstance(value, bool)
        else f"{name} {value}{' or more' if value in numbers[-1:] else ''}"
    )


def _declared(cls: type[Operator]) -> dict[str, tuple]:
    """What tells the forms of an operator apart: whether streams that
    may be left out are given, and what it declares.
    """
    return {**{s[:-1]: (False, True) for s in cls.streams if s.endswith("?")}, **cls.forms}


def _all(prefix: str, declared: dict[str, tuple]) -> Iterator[str]:
    for entry, values in declared.items():
        names = entry.split()
        for choice in product(*(values if len(names) > 1 else [values])):
            yield f"{prefix}: " + ", ".join(
                _text(n, v, x)
                for n, v, x in zip(
                    names, values if len(names) > 1 else [values], choice, strict=False
                )
            )


def _have(prefix: str, declared: dict[str, tuple], of, t: int) -> Iterator[str]:
    for entry, values in declared.items():
        names = entry.split()
        values = values if len(names) > 1 else [values]
        labels = [_label(v, of(n), t) for n, v in zip(names, values, strict=False)]
        if None not in labels:
            yield f"{prefix}: " + ", ".join(map(_text, names, values, labels))


def _functions(cls: type[Operator], base: type = Function) -> Iterator[type[Function]]:
    """Functions that an operator can run and that have forms of their own."""
    for fn in base.__subclasses__():
        if fn.forms and cls.__name__ in fn.operators:
            yield fn
        yield from _functions(cls, fn)


def forms_of_class(cls: type[Operator]) -> list[str]:
    """All forms of an operator, each as ``Operator: name value`` or
    ``Operator function: name value, ...``.
    """
    out = list(_all(cls.__name__, _declared(cls)))
    for fn in _functions(cls) if cls.higher_order else ():
        out += _all(f"{cls.__name__} {fn.name}", fn.forms)
    return out


def forms_of(node: Operator, t: int) -> list[str]:
    """The forms that an operator of a program has, on a machine with tiles of t x t."""
    given = {s[:-1]: len(node.inputs) > i for i, s in enumerate(node.streams) if s.endswith("?")}

    def of(name: str):
        return (
            given[name]
            if name in given
            else node.args[name]
            if name in node.args
            else getattr(node, name)
        )

    kind = type(node).__name__
    out = list(_have(kind, _declared(type(node)), of, t))
    if isinstance(node, HigherOrder):
        fn: Function = node.args["fn"]
        operands = node.operands()
        out += _have(f"{kind} {fn.name}", fn.forms, lambda name: fn.form(name, *operands), t)
    return out
