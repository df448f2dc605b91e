"""A top's Verilog, cut at its instances of some modules: rest of the top and connections."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..machine.errors import RunError

REST = ""
"""Name of the rest of the top among the instances."""
COMMON = ("clk", "rst")
"""Ports that every part has from the bench, as the top has."""
OF_PROBES = "cycle"
"""A port that only probes read: a part has it from no one, and the bench knows the cycle."""

END = "endmodule\n"
MODULE = re.compile(r"^module (\w+|\\\S+) ?\(.*?^endmodule\n", re.M | re.S)
BENCH_MODULE = re.compile(r"^module (\w+) #?\(.*?^endmodule\n", re.M | re.S)
INSTANCE = re.compile(
    r"^  (?P<module>penstock_\w+) (?P<name>\w+) \(\n(?P<ports>.*?)\n  \);\n", re.M | re.S
)
FIRST = re.compile(r"^  (\\?\S+) ", re.M)
"""The first word of a statement: a module, where it is an instance."""
PORT = re.compile(r"^    \.(\w+)\((.*?)\),?$", re.M)
NAME = re.compile(r"[a-zA-Z_]\w*|\\\S+")
DECLARED = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);\n", re.M)


class Hole(NamedTuple):
    """A port of the rest, where a part was."""

    way: str  # ``input`` or ``output``
    bits: int
    name: str


class End(NamedTuple):
    """A port of an instance, or of the rest."""

    instance: str
    port: str


@dataclass(frozen=True)
class Cut:
    """A top in parts."""

    rest: str  # Verilog of the top without the instances
    holes: list[Hole]  # ports that it got for them
    instances: dict[str, str]  # name -> module
    links: list[tuple[End, End]]  # each port that drives another one, with that


def modules_of(verilog: str) -> dict[str, str]:
    """The text of each module."""
    return {found[1]: found[0] for found in MODULE.finditer(verilog)}


def instances_of(modules: Mapping[str, str], name: str) -> list[str]:
    """Names of modules in a module's instances, one for each instance."""
    return [first for first in FIRST.findall(modules[name]) if first in modules]


def within(modules: Mapping[str, str], top: str) -> dict[str, int]:
    """Number of instances that each module of a top stands for: itself, and all in it."""
    found: dict[str, int] = {}

    def visit(name: str) -> int:
        if name not in found:
            found[name] = 1 + sum(visit(inner) for inner in instances_of(modules, name))
        return found[name]

    visit(top)
    return found


def closure(modules: dict[str, str], top: str) -> str:
    """A module after all that it instantiates, as one text."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for inner in instances_of(modules, name):
                visit(inner)
            found[name] = None

    visit(top)
    return "".join(modules[name] for name in found)


def used_of(bench: str, text: str) -> str:
    """The bench's Verilog without the modules that a text does not have."""
    words = set(re.findall(r"\w+", text))
    return BENCH_MODULE.sub(lambda found: found[0] if found[1] in words else "", bench)


def cut(modules: dict[str, str], top: str, parts: Collection[str]) -> Cut:
    """Take the instances of ``parts`` out of ``top``.

    A wire that joins two of them, and nothing else, is a link. What else is at a port of one is a
    hole.

    Raises
    ------
    RunError
        An instance has another clock or reset than the top.
    """
    text = modules[top]
    taken = [found for found in INSTANCE.finditer(text) if found["module"] in parts]
    ports = {module: ports_of(modules[module]) for module in parts}
    ends = [(found, *end) for found in taken for end in _joined(found)]
    count: dict[str, int] = {}
    for _, _, value in ends:
        count[value] = count.get(value, 0) + 1
    rest = text
    for found in taken:
        rest = rest.replace(found[0], "")
    names = {value for value, n in count.items() if n == 2 and NAME.fullmatch(value)}
    between = names - _read(rest)
    holes = []
    links = []
    made = []
    drivers: dict[str, End] = {}
    readers: dict[str, End] = {}
    for found, port, value in ends:
        way, bits = ports[found["module"]][port]
        here = End(found["name"], port)
        if value in between:
            (drivers if way == "output" else readers)[value] = here
            continue
        hole = Hole("input" if way == "output" else "output", bits, f"at_{here.instance}_{port}")
        there = End(REST, hole.name)
        holes.append(hole)
        links.append((here, there) if way == "output" else (there, here))
        made.append(f"{value} = {hole.name}" if way == "output" else f"{hole.name} = {value}")
    if drivers.keys() != readers.keys():
        raise RunError("a wire between parts has no driver, or two", f"module {top}")
    links += [(drivers[value], readers[value]) for value in drivers]
    return Cut(
        _with_holes(rest, holes, made),
        holes,
        {found["name"]: found["module"] for found in taken},
        links,
    )


def ports_of(text: str) -> dict[str, tuple[str, int]]:
    """Direction and bits of a module's ports."""
    return {name: (way, int(high or 0) + 1) for way, high, name in DECLARED.findall(text)}


def _joined(instance: re.Match) -> Iterator[tuple[str, str]]:
    """Ports of an instance and their connections, but for clock, reset and cycle."""
    for port, value in PORT.findall(instance["ports"]):
        if port in COMMON and value != port:
            raise RunError(f"port {port} is not the top's", f"instance {instance['name']}")
        if value and port not in (*COMMON, OF_PROBES):
            yield port, value.strip()


def _read(text: str) -> set[str]:
    """Names that occur outside a declaration of a wire."""
    without = re.sub(r"^  wire (?:\[\d+:0\] )?\S+ ?;\n", "", text, flags=re.M)
    return set(re.findall(r"\\\S+|\w+", without))


def _with_holes(text: str, holes: list[Hole], assigned: list[str]) -> str:
    """A module with further ports, which stand for its wires."""
    names = ", ".join(hole.name for hole in holes)
    declared = "".join(f"  {way} [{bits - 1}:0] {name};\n" for way, bits, name in holes)
    assigned_ = "".join(f"  assign {one};\n" for one in assigned)
    head, _, body = text.partition(");\n")
    joined = f"{head}, {names}" if names else head
    inner = body.removesuffix(END)
    return f"{joined});\n{declared}{inner}{assigned_}{END}"
