"""Sizes of the elements that sources are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy

from ..graph import Graph
from ..types import Dim, DimKind
from .elements import is_list

REGULAR = (DimKind.STATIC_REGULAR, DimKind.DYNAMIC_REGULAR)


def check_sizes(graph: Graph, given: dict[str, list]) -> None:
    """See to it that a run's elements suit the shapes of their sources; ``given``: source -> nested
    lists.

    Raises
    ------
    ProgramError
        A size is beyond its bound, not that of the shape, or one number here and another there.
    """
    found: dict[sympy.Expr, tuple[int, str]] = {}
    for name, nested in given.items():
        source = next(node for node in graph.nodes if node.name == name)
        for d, length in _lengths(nested, source.outputs[0].shape):
            given_here = f"is given {length} elements in dimension {d}"
            most = graph.most(d)
            if d.value is not None and length != d.value:
                raise source.error(given_here, remedy="give as many, or change the shape")
            if most is not None and length > most:
                raise source.error(
                    f"{given_here}, which is at most {most}",
                    remedy="give fewer, or declare the dimension with a larger most=",
                )
            if length < graph.leasts.get(str(d.size), 0):
                raise source.error(
                    f"{given_here}, which is at least {graph.leasts[str(d.size)]}",
                    remedy="give more, or declare the dimension with a smaller least=",
                )
            if d.kind not in REGULAR:
                continue
            size, other = found.setdefault(d.size, (length, name))
            if length != size:
                raise source.error(
                    f"{given_here}, and {other} {size}",
                    rule="a regular size is one number in a run",
                    remedy="give elements of one size, or declare it with ragged=True",
                )


def _lengths(nested: Any, shape: tuple[Dim, ...]) -> Iterator[tuple[Dim, int]]:
    """Each dimension with the lengths of its lists, outermost first; what is no list is refused
    where its elements are read.
    """
    if not shape or not is_list(nested):
        return
    yield shape[0], len(nested)
    for inner in nested:
        yield from _lengths(inner, shape[1:])
