"""Cover statements in every branch of a component, for the coverage of
simulations.
"""

import linecache
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from amaranth.back import rtlil
from amaranth.hdl import Const, Fragment
from amaranth.hdl._ast import Assign, Property, Statement, Switch
from amaranth.lib import data, wiring
from amaranth.lib.enum import EnumView

from .export import directed, within
from .nets import enlarge
from .place import Library

NONE = "none"
"""What is entered where no body of a switch is."""
SIDES = ("0", "1")
"""Of a `Mux`."""

CHECK = re.compile(
    r'^  attribute \\src "(?P<place>[^"]*)"\n  cell \$check \S+\n(?P<body>(?:    .*\n)*)  end\n',
    re.M,
)
MUX = re.compile(
    r'^  attribute \\src "(?P<place>[^"|]*)"\n  cell \$mux \S+\n(?P<body>(?:    .*\n)*)  end\n',
    re.M,
)
SELECT = re.compile(r"^    connect \\S (.*)$", re.M)
NEGATED = """  wire width 1 {net}
  cell $not {net}_is
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A {of}
    connect \\Y {net}
  end
"""
COVER = """  cell $check {name}
    parameter \\FORMAT ""
    parameter \\ARGS_WIDTH 0
    parameter signed \\PRIORITY 32'00000000000000000000000000000000
    parameter \\TRG_ENABLE 0
    parameter \\TRG_WIDTH 0
    parameter \\TRG_POLARITY 0
    parameter \\FLAVOR "cover"
    connect \\EN {net}
    connect \\ARGS {{  }}
    connect \\TRG {{  }}
    connect \\A 1'1
  end
"""


@dataclass(frozen=True)
class Covered:
    """A component with cover statements.

    A branch is ``file:12`` for the body that begins in line 12,
    ``file:12.none`` where no body of the switch that begins there is
    entered (an FSM is always in one of its states), and ``file:12.0``
    and ``file:12.1`` for the sides of a `Mux`.

    Attributes
    ----------
    rtlil
        All modules.
    branches
        Label of a cover statement -> its branch.
    statements
        Branch -> the assignments that stand in it, as ``file:line``;
        those that stand in none are under ``""``.

    """

    rtlil: str
    branches: dict[str, str]
    statements: dict[str, set[str]]


def covered(component: wiring.Component, name: str) -> Covered:
    """A component with a cover statement in each of its branches."""
    enlarge()
    covers = _Covers()
    with _placed(), Library(covers.convert) as library:
        library.top(component, name)
    branches: dict[str, str] = {}
    text = _labelled("".join(library.modules.values()), branches)
    return Covered(text, branches, dict(covers.statements))


@contextmanager
def _placed() -> Iterator[None]:
    """Assignments to views have the place that they stand at;
    Amaranth gives them one in its own library.
    """
    own = {view: view.eq for view in (data.View, EnumView)}
    for view in own:
        view.eq = _assigned
    try:
        yield
    finally:
        for view, eq in own.items():
            view.eq = eq


def _assigned(view: data.View | EnumView, value: object) -> Assign:
    """An assignment to a view, with its caller's place."""
    return view.as_value().eq(value, src_loc_at=1)


class _Covers:
    """Adds cover statements to the switches of fragments, and notes
    what stands where.
    """

    def __init__(self):
        self.statements: dict[str, set[str]] = defaultdict(set)

    def convert(self, component: wiring.Component, name: str) -> str:
        """RTLIL of a component."""
        fragment = Fragment.get(component, None)
        self.add(fragment)
        return rtlil.convert(fragment, name=name, ports=directed(component), emit_src=True)

    def add(self, fragment: Fragment) -> None:
        """Change a fragment, and those below it."""
        for statements in fragment.statements.values():
            statements[:] = self._inside(statements, "")
        for below, *_ in fragment.subfragments:
            self.add(below)

    def _inside(self, statements: list[Statement], branch: str) -> list[Statement]:
        """The statements of a branch, with what is added to switches."""
        out: list[Statement] = []
        for one in statements:
            if isinstance(one, Assign):
                self.statements[branch].add(_place(one.src_loc))
            out.append(self._switch(one) if isinstance(one, Switch) else one)
        return out

    def _switch(self, switch: Switch) -> Switch:
        cases = []
        for patterns, body, where in switch.cases:
            begin = where or switch.src_loc
            inner = self._inside(body, _place(begin))
            cases.append((patterns, [*inner, _cover(*begin)], where))
        file, line = switch.src_loc
        if all(patterns is not None for patterns, *_ in cases) and not _says(file, line, "m.FSM("):
            cases.append((None, [_cover(file, f"{line}.{NONE}")], switch.src_loc))
        return Switch(switch.test, cases, src_loc=switch.src_loc)


def _place(where: tuple[str, int]) -> str:
    return within(f"{where[0]}:{where[1]}")


def _says(file: str, line: int, text: str) -> bool:
    """Whether a text stands in a line of a source."""
    return text in linecache.getline(file, line)


def _cover(file: str, line: int | str) -> Property:
    """A cover statement of a branch."""
    found = Property("cover", Const(1))
    found.src_loc = (file, line)
    found._MustUse__used = True
    return found


def _labelled(text: str, branches: dict[str, str]) -> str:
    """RTLIL whose cover statements have labels, with more for both
    sides of each multiplexer; adds to ``branches``.
    """

    def label(place: str) -> str:
        name = f"cover_{len(branches)}"
        branches[name] = within(place)
        return f"\\{name}"

    def check(found: re.Match) -> str:
        return f"  cell $check {label(found['place'])}\n{found['body']}  end\n"

    def mux(found: re.Match) -> str:
        file, _, line = found["place"].rpartition(":")
        if not _says(file, int(line), "Mux("):  # Amaranth's own: a guard of a division by 0
            return found[0]
        (select,) = SELECT.findall(found["body"])
        high = label(f"{found['place']}.{SIDES[1]}")
        low = label(f"{found['place']}.{SIDES[0]}")
        net = f"${low[1:]}"
        return (
            found[0]
            + COVER.format(name=high, net=select)
            + NEGATED.format(net=net, of=select)
            + COVER.format(name=low, net=net)
        )

    return MUX.sub(mux, CHECK.sub(check, text))
