"""The assignments in hw/ that no run reaches, function by function, for
`docs/generate.py`.

Those in a body that nothing enters are told with that body
(`coverage_report.unreached`). The others belong to a form of a
component that no design has.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import coverage_report
import explained
from made.coverage import TOTAL
from penstock.tb.coverage import branches_of
from records import ROOT
from tables import frame

Left = dict[str, list[int]]
"""Function, as ``hw/a.py: Class.name`` -> lines, as the record has them."""


@dataclass(frozen=True)
class Place:
    """Where a line stands in a source.

    Attributes
    ----------
    function
        Its classes and functions, with dots between.
    around
        Lines of the ``with`` statements around it.

    """

    function: str
    around: frozenset[int]


def blocks() -> dict[str, Callable[[], str]]:
    """The block."""
    return {"unreached assignments": table}


def table() -> str:
    """Functions with assignments that nothing reaches."""
    why = explained.assignments()
    rows = []
    for function, lines in left().items():
        told = ", ".join(map(str, lines))
        rows.append((f"`{function}`", told, why.get((function, len(lines)), "")))
    return frame(("function", "lines", "why"), rows, (False, False, False))


def unexplained() -> list[tuple[str, int]]:
    """Functions, and numbers of their assignments, of which nothing is
    said.
    """
    why = explained.assignments()
    names = [(function, len(lines)) for function, lines in left().items()]
    return [name for name in names if name not in why]


def left() -> Left:
    """The assignments that nothing reaches and that stand in no body
    that nothing enters.
    """
    _, reached = coverage_report.whole()
    total = coverage_report.stored([TOTAL])
    bodies = _by_file(total["there"])
    shut = _by_file(coverage_report.missed())
    done = _by_file(reached["executed"])
    found: Left = defaultdict(list)
    for file, lines in sorted(_by_file(total["statements"]).items()):
        source = (ROOT / file).read_text("utf-8")
        own = branches_of(source)
        now = _moved(lines, own.statements)
        body = _moved(bodies[file], own.ways)
        if now is None or body is None:
            continue  # The record is of other sources.
        closed = {body[line] for line in bodies[file] & shut[file]}
        where = places(source)
        for line in sorted(lines - done[file]):
            place = where[now[line]]
            if not place.around & closed:
                found[f"{file}: {place.function}"].append(line)
    return dict(found)


def places(source: str) -> dict[int, Place]:
    """The place of each line of a source's functions."""
    found: dict[int, Place] = {}

    def enter(node: ast.AST, names: tuple[str, ...], around: frozenset[int]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names = (*names, node.name)
        if isinstance(node, ast.With):
            around |= {item.context_expr.lineno for item in node.items}
        if isinstance(node, ast.stmt) and names:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                found[line] = Place(".".join(names), around)
        for below in ast.iter_child_nodes(node):
            enter(below, names, around)

    enter(ast.parse(source), (), frozenset())
    return found


def _by_file(found: Iterable[str]) -> Mapping[str, set[int]]:
    """The lines of places that are no side of a `Mux`, by file."""
    lines: Mapping[str, set[int]] = defaultdict(set)
    for place in found:
        file, _, line = place.rpartition(":")
        if line.isdigit():
            lines[file].add(int(line))
    return lines


def _moved(then: Collection[int], now: Iterable[str]) -> dict[int, int] | None:
    """Lines of the record -> lines of the tree: comments move them, and
    keep their order. None where they are not as many.
    """
    here = sorted(int(line) for line in now if line.isdigit())
    return dict(zip(sorted(then), here, strict=True)) if len(then) == len(here) else None
