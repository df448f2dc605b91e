"""Forms of an operator: the ways of using it that its arguments, the streams it is given and its
function tell apart.

An operator (and a function) declares what tells its forms apart once, in ``forms``: the names of
arguments or properties, and the values of each. From that come all forms there are
(:func:`forms_of_class`) and the ones that an operator of a program has (:func:`forms_of`). Several
names in one entry, with spaces between, stand for every combination of their values. Of numbers,
each stands for those up to the next, the last for all from it on; ``DIVIDED`` for those that t
divides, from the last one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from ..functions.tiles import DIVIDED, Function
from ..graph import Operator
from ..operators.higher_order import HigherOrder


def _numbers(values: tuple) -> list[int]:
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool)]


def _label(values: tuple, value: object, t: int) -> object:
    """The one of ``values`` that stands for ``value``; None where none does."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value if value in values else None
    numbers = _numbers(values)
    found = max((v for v in numbers if v <= value), default=None)
    if DIVIDED in values and found == numbers[-1] and value % t == 0:
        return DIVIDED
    return found


def _text(name: str, values: tuple, value: object) -> str:
    """A name with one of its values, in words."""
    if isinstance(value, bool):
        return f"{name} yes" if value else f"{name} no"
    if value in _numbers(values)[-1:]:
        return f"{name} {value} or more"
    return f"{name} {value}"


def _form(prefix: str, names: list[str], choices: tuple, chosen: Iterable[object]) -> str:
    """A form in words: a chosen value of each name."""
    return f"{prefix}: " + ", ".join(map(_text, names, choices, chosen))


def _declared(cls: type[Operator]) -> dict[str, tuple]:
    """The features that distinguish the forms of an operator: whether optional streams are given,
    and what it declares.
    """
    optional = {name[:-1]: (False, True) for name in cls.streams if name.endswith("?")}
    return optional | cls.forms


def _entries(declared: dict[str, tuple]) -> Iterator[tuple[list[str], tuple]]:
    """The names of each entry, and the values that each name can have."""
    for entry, values in declared.items():
        names = entry.split()
        yield names, values if len(names) > 1 else (values,)


def _all(prefix: str, declared: dict[str, tuple]) -> Iterator[str]:
    """Every form that a declaration allows."""
    for names, choices in _entries(declared):
        for chosen in product(*choices):
            yield _form(prefix, names, choices, chosen)


def _have(
    prefix: str, declared: dict[str, tuple], of: Callable[[str], object], t: int
) -> Iterator[str]:
    """The forms whose names have the values that ``of`` says."""
    for names, choices in _entries(declared):
        pairs = zip(names, choices, strict=True)
        labels = [_label(values, of(name), t) for name, values in pairs]
        if None not in labels:
            yield _form(prefix, names, choices, labels)


def _functions(cls: type[Operator], base: type = Function) -> Iterator[type[Function]]:
    """Functions that an operator can run and that have forms of their own."""
    for fn in base.__subclasses__():
        if fn.forms and cls.__name__ in fn.operators:
            yield fn
        yield from _functions(cls, fn)


def forms_of_class(cls: type[Operator]) -> list[str]:
    """All forms of an operator, each as ``Operator: name value`` or ``Operator function: name
    value, ...``.
    """
    out = list(_all(cls.__name__, _declared(cls)))
    for fn in _functions(cls) if cls.higher_order else ():
        out += _all(f"{cls.__name__} {fn.name}", fn.forms)
    return out


def forms_of(node: Operator, t: int) -> list[str]:
    """The forms that an operator of a program has, on a machine with tiles of t x t."""
    optional = [(i, name) for i, name in enumerate(node.streams) if name.endswith("?")]
    given = {name[:-1]: len(node.inputs) > i for i, name in optional}

    def of(name: str) -> object:
        if name in given:
            return given[name]
        return getattr(node.args if name in node.Args.declared else node, name)

    kind = type(node).__name__
    out = list(_have(kind, _declared(type(node)), of, t))
    if isinstance(node, HigherOrder):
        fn = node.args.fn
        operands = node.operands()
        out += _have(f"{kind} {fn.name}", fn.forms, lambda name: fn.form(name, *operands), t)
    return out
