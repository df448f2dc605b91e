"""SPICE netlists of resistors, sources, diodes, bipolar transistors and level-1 MOS transistors."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ....machine.errors import ProgramError, nearest
from ....system.reading import read_text

GROUND = ("0", "gnd")
SUFFIXES = {
    "meg": 1e6,
    "mil": 25.4e-6,
    "t": 1e12,
    "g": 1e9,
    "k": 1e3,
    "m": 1e-3,
    "u": 1e-6,
    "n": 1e-9,
    "p": 1e-12,
    "f": 1e-15,
}
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(meg|mil|[tgkmunpf])?[a-z]*", re.A)

BIPOLAR = {"is": 1e-16, "bf": 100.0, "br": 1.0, "nf": 1.0, "nr": 1.0, "vaf": math.inf}
MOS = {"vto": 0.0, "kp": 2e-5, "gamma": 0.0, "phi": 0.6, "lambda": 0.0, "is": 1e-14, "level": 1.0}
MODELS: dict[str, dict[str, float]] = {
    "d": {"is": 1e-14, "n": 1.0},
    "npn": BIPOLAR,
    "pnp": BIPOLAR,
    "nmos": MOS,
    "pmos": MOS,
}
"""Type of a ``.model`` -> its parameters, with the defaults of SPICE."""
CHARGES = frozenset(
    "cjo cj0 vj m fc tt cje cjc vje vjc mje mjc tf tr cgso cgdo cgbo cj cjsw mj mjsw pb".split()
)
"""Parameters that are read over, for they do not bear on a DC operating point."""
KINDS = {"r": 2, "i": 2, "v": 2, "d": 2, "q": 3, "m": 4}
"""First letter of an element -> number of its nodes."""
TYPES = {"d": ("d",), "q": ("npn", "pnp"), "m": ("nmos", "pmos")}


@dataclass(frozen=True)
class Element:
    """An element: ``values`` has ``value`` in ohms, amperes or volts, or a model's parameters."""

    name: str
    kind: str  # first letter, or the model's type
    nodes: tuple[str, ...]  # as SPICE has them; ground is "0"
    values: dict[str, float]
    where: str  # file and line


@dataclass(frozen=True)
class Circuit:
    """A netlist: its title and elements, in order."""

    title: str
    elements: tuple[Element, ...]

    @property
    def nodes(self) -> list[str]:
        """Nodes but ground, in order of appearance."""
        found = dict.fromkeys(node for e in self.elements for node in e.nodes)
        return [node for node in found if node != "0"]


def read_netlist(file: str | Path) -> Circuit:
    """The circuit of a netlist; its first line is the title, and case does not matter.

    Raises
    ------
    PenstockError
        The file cannot be read, or has a line that is not one of R, I, V, D, Q, M, ``.model``,
        ``.op`` and ``.end``, a parameter or a model that is unknown, a name that comes twice, an
        element where the title belongs, or a node from which no current can reach ground.
    """
    title, *lines = _joined(read_text(file), str(file)) or [("", "")]
    models: dict[str, tuple[str, dict[str, float]]] = {}
    cards: list[tuple[list[str], str]] = []
    for text, where in lines:
        words = re.sub(r"\s*=\s*", "=", re.sub(r"[(),]", " ", text)).split() or [text]
        if words[0] == ".end":
            break
        if words[0] == ".model":
            name, model = _model(words, where)
            _once(name, models, "model", where)
            models[name] = model
        elif words[0][0] in KINDS:
            cards.append((words, where))
        elif words != [".op"]:
            known = "R, I, V, D, Q and M elements, .model, .op and .end"
            raise ProgramError(f"cannot read {text[:60]!r}", where, remedy=f"there are {known}")
    elements: dict[str, Element] = {}
    for words, where in cards:
        _once(words[0], elements, "element", where)
        elements[words[0]] = _element(words, where, models)
    circuit = Circuit(title[0], tuple(elements.values()))
    if not circuit.nodes or not any("0" in e.nodes for e in circuit.elements):
        raise ProgramError("has no node beside node 0", str(file), "node 0 is ground, and used")
    if _is_element(title[0].lower().split(), title[1], models):
        rule = "the first line of a netlist is its title"
        raise ProgramError(f"{title[0][:60]!r} is an element", title[1], rule)
    _check_paths(circuit, str(file))
    return circuit


def _is_element(words: list[str], where: str, models: dict) -> bool:
    if not words or words[0][0] not in KINDS:
        return False
    try:
        _element(words, where, models)
    except ProgramError:
        return False
    return True


def _check_paths(circuit: Circuit, file: str) -> None:
    """Every node must reach ground through elements that conduct: no current source, no gate."""
    paths = [{*e.nodes} for e in circuit.elements if e.kind not in ("i", "nmos", "pmos")]
    paths += [{*e.nodes[:1], *e.nodes[2:]} for e in circuit.elements if e.kind in TYPES["m"]]
    reached = {"0"}
    while new := set().union(*(nodes for nodes in paths if nodes & reached)) - reached:
        reached |= new
    lost = next((node for node in circuit.nodes if node not in reached), None)
    if lost is not None:
        rule = "a current source and a gate conduct nothing: add a resistor"
        raise ProgramError(f"node {lost} has no path to ground", file, rule)


def _joined(text: str, file: str) -> list[tuple[str, str]]:
    """Title and statements in small letters, continued lines joined, each with its place."""
    out: list[tuple[str, str]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        where = f"{file}:{number}"
        if number == 1:
            out.append((raw.strip(), where))
            continue
        line = re.split(r";|(?:^|\s)\$", raw)[0].strip().lower()
        if line.startswith("+"):
            if len(out) < 2:
                raise ProgramError("continues no line", where, "+ follows a statement")
            out[-1] = (f"{out[-1][0]} {line[1:]}", out[-1][1])
        elif line and not line.startswith("*"):
            out.append((line, where))
    return out


def _once(name: str, known: dict, what: str, where: str) -> None:
    if name in known:
        raise ProgramError(f"{what} {name} is defined twice", where, remedy="rename one of them")


def _model(words: list[str], where: str) -> tuple[str, tuple[str, dict[str, float]]]:
    """Name, type and parameters of a ``.model``."""
    if len(words) < 3:
        raise ProgramError("a model has no type", where, "a line is .model NAME TYPE(parameters)")
    _, name, kind, *pairs = words
    if kind not in MODELS:
        raise ProgramError(f"unknown type of model {kind!r}", where, remedy=nearest(kind, MODELS))
    found = _pairs(pairs, MODELS[kind], where, CHARGES)
    if found.get("level", 1) != 1:
        raise ProgramError(f"level {found['level']:g} is not known", where, remedy="use level 1")
    for key in ("is", "n", "bf", "br", "nf", "nr", "vaf", "kp", "phi"):
        if found.get(key, 1) <= 0:
            raise ProgramError(f"{key} must be positive, not {found[key]:g}", where)
    return name, (kind, found)


def _pairs(
    pairs: list[str], known: dict[str, float], where: str, ignored: frozenset[str] = frozenset()
) -> dict[str, float]:
    """Parameters of NAME=VALUE, over their defaults."""
    found = dict(known)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in (known.keys() | ignored):
            raise ProgramError(f"cannot read {pair!r}", where, remedy=nearest(key, known))
        found[key] = _number(value, where)
    return {key: value for key, value in found.items() if key in known}


def _number(text: str, where: str) -> float:
    """A number with a suffix of SPICE, and letters of a unit that do not matter."""
    match = _NUMBER.fullmatch(text)
    value = float(match[1]) * SUFFIXES.get(match[2], 1.0) if match else math.nan
    if not match or not math.isfinite(value):
        raise ProgramError(f"{text!r} is not a number", where, remedy="write 4.7k or 1e-3")
    return value


def _element(
    words: list[str], where: str, models: dict[str, tuple[str, dict[str, float]]]
) -> Element:
    name = words[0]
    kind = name[0]
    count = KINDS[kind]
    nodes = tuple("0" if node in GROUND else node for node in words[1 : 1 + count])
    rest = words[1 + count :]
    if kind in "iv" and rest[:1] == ["dc"]:
        rest = rest[1:]
    if not rest or (len(rest) > 1 and kind != "m"):
        form = "a model" if kind in TYPES else "a value"
        rule = f"an element {kind.upper()} has {count} nodes and {form}"
        raise ProgramError(f"cannot read {' '.join(words)[:60]!r}", where, rule)
    if kind not in TYPES:
        value = _number(rest[0], where)
        if kind == "r" and value == 0:
            raise ProgramError(f"{name} has no resistance", where, remedy="use a V source of 0")
        return Element(name, kind, nodes, {"value": value}, where)
    if rest[0] not in models:
        raise ProgramError(f"there is no model {rest[0]}", where, remedy=nearest(rest[0], models))
    type_, values = models[rest[0]]
    if type_ not in TYPES[kind]:
        rule = f"the model of {name} is of type {' or '.join(TYPES[kind])}"
        raise ProgramError(f"model {rest[0]} is of type {type_}", where, rule)
    size = _pairs(rest[1:], {"w": 1e-4, "l": 1e-4}, where) if kind == "m" else {}
    if min(size.values(), default=1.0) <= 0:
        raise ProgramError(f"{name} must have a positive width and length", where)
    return Element(name, type_, nodes, {**values, **size}, where)
