"""Graphs by specification, as the command line takes them."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ...machine.errors import ProgramError, nearest
from ...system.reading import MOST_INTEGER, read_text
from ..core.dataflow import DataflowGraph
from ..core.forms import FORMS, SHAPES
from .builder import expression
from .devices import device_graph
from .factor import Factors, factorise
from .generate import circuit_matrix
from .lu import front_solve, whole_lu
from .matrix import read_matrix
from .step import step_graph

NETLISTS = {".cdl", ".cir", ".ckt", ".net", ".sp", ".spi", ".spice"}
"""Names of files that are taken for netlists end with these."""


def graph_from(spec: str) -> DataflowGraph:
    """The graph of a specification (:data:`FORMS`); the title is the specification.

    Raises ProgramError, in one message, for a form, file, name, number or option that is not there.
    """
    kind, colon, rest = spec.partition(":")
    if colon and kind in _READERS:
        return _READERS[kind](spec, rest)
    path = Path(spec)
    if spec.lower().endswith((".mtx", ".mtx.gz")):
        raise ProgramError("is a matrix, not a graph", f"graph {spec}", remedy=f"use lu:{spec}")
    if path.suffix.lower() in NETLISTS:
        raise ProgramError(
            "is a netlist, not a graph",
            f"graph {spec}",
            remedy=f"use penstock overlay spice {spec}, or lu:FILE.mtx of its matrix",
        )
    if not path.is_file():
        if path.suffix == ".dfg":
            raise ProgramError("no such file", f"graph {spec}")
        raise ProgramError(
            f"cannot read graph {spec!r}",
            remedy="use " + "; ".join(f"{form} ({what})" for form, what in FORMS.items()),
        )
    return DataflowGraph.parse(read_text(path), spec)


def _number(text: str, what: str, spec: str) -> int:
    shown = text if len(text) <= 24 else f"{text[:20]}..."
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text):
        raise ProgramError(f"{what} must be a whole number, not {shown!r}", f"graph {spec}")
    if len(text) > 24 or abs(int(text)) > MOST_INTEGER:
        raise ProgramError(
            f"{what} must be at most {MOST_INTEGER} in magnitude, not {shown}", f"graph {spec}"
        )
    return int(text)


def _options(text: str, known: dict[str, str], spec: str) -> dict[str, str]:
    """``key=value`` and bare words of a comma list; ``known`` maps keys to what they are, bare
    words are keys of their own.
    """
    found = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, equals, value = part.partition("=")
        if (key if equals else part) not in known or bool(equals) == (known[key] == ""):
            raise ProgramError(
                f"unknown option {part!r}",
                f"graph {spec}",
                remedy=nearest(
                    key, [k + ("=" + v if v else "") for k, v in known.items()], "options are"
                ),
            )
        found[key] = value
    return found


_ORDER = {"order": "amd|mmd|natural"}


def _lu(spec: str, rest: str) -> DataflowGraph:
    file, _, options = rest.partition(":") if not Path(rest).is_file() else (rest, "", "")
    return whole_lu(_factors(file, _options(options, _ORDER, spec).get("order", "amd")), spec)


def _factors(file: str, order: str) -> Factors:
    with suppress(OSError):
        stat = Path(file).stat()
        return _factors_of(file, order, (stat.st_mtime_ns, stat.st_size))
    return _factors_of(file, order, None)


@lru_cache(maxsize=2)
def _factors_of(file: str, order: str, stamp: object) -> Factors:
    """Several graphs of one file share its factorisation."""
    return factorise(read_matrix(file), order, where=f"matrix {file}")


def _column(spec: str, rest: str) -> DataflowGraph:
    parts = rest.split(":")
    if len(parts) < 2:
        raise ProgramError("names no column", f"graph {spec}", remedy="write column:FILE:K")
    file = parts[0]
    k = _number(parts[1], "the column", spec)
    options = _options(
        ",".join(parts[2:]), {"d": "DEPTH", **dict.fromkeys(SHAPES, ""), **_ORDER}, spec
    )
    shapes = [s for s in SHAPES if s in options]
    if len(shapes) > 1:
        raise ProgramError(
            f"has two shapes, {' and '.join(shapes)}", f"graph {spec}", remedy="name one"
        )
    return front_solve(
        _factors(file, options.get("order", "amd")),
        k,
        _number(options.get("d", "1"), "d", spec),
        *shapes,
        title=spec,
    )


def _gen(spec: str, rest: str) -> DataflowGraph:
    kind, *numbers = rest.split(":")
    if not 1 <= len(numbers) <= 2:
        raise ProgramError(
            "needs a kind and a size", f"graph {spec}", remedy="write gen:KIND:N or gen:KIND:N:SEED"
        )
    matrix = circuit_matrix(
        kind,
        *(
            _number(x, what, spec)
            for x, what in zip(numbers, ("the size", "the seed"), strict=False)
        ),
    )
    return whole_lu(factorise(matrix, where=f"graph {spec}"), spec)


def _device(spec: str, rest: str) -> DataflowGraph:
    name, star, count = rest.partition("*")
    graph = device_graph(name)
    return graph.repeated(_number(count, "the number of instances", spec)) if star else graph


def _step(spec: str, rest: str) -> DataflowGraph:
    name, *pairs = [p.strip() for p in rest.split(",")]
    params: dict = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or key in params:
            raise ProgramError(
                f"cannot read {pair!r}",
                f"graph {spec}",
                remedy="write param=value, each once, separated by commas",
            )
        for kind in (int, float, str):
            with suppress(ValueError):
                params[key] = kind(value)
                break
    own = {
        key: _number(str(params.pop(key)), key, spec)
        for key in ("t", "tile", "seed")
        if key in params
    }
    if "t" in own:
        own["size"] = own.pop("t")
    return step_graph(spec, name, params, **own)


def _expr(spec: str, rest: str) -> DataflowGraph:
    return expression(rest)


_READERS = {
    "device": _device,
    "step": _step,
    "lu": _lu,
    "column": _column,
    "gen": _gen,
    "expr": _expr,
}
