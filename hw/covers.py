"""Cover statements in every branch of a component, for the coverage of simulations."""

import linecache
import re
from dataclasses import dataclass

from amaranth.back import rtlil
from amaranth.hdl import Const, Fragment
from amaranth.hdl._ast import Property, Statement, Switch
from amaranth.lib import wiring

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

    A branch is ``file:12`` for the body that begins in line 12, ``file:12.none`` where no body of
    the switch that begins there is entered (an FSM is always in one of its states), and
    ``file:12.0`` and ``file:12.1`` for the sides of a `Mux`.

    Attributes
    ----------
    rtlil
        All modules.
    branches
        Label of a cover statement -> its branch.
    """

    rtlil: str
    branches: dict[str, str]


def covered(component: wiring.Component, name: str) -> Covered:
    """A component with a cover statement in each of its branches."""
    enlarge()
    with Library(_convert) as library:
        library.top(component, name)
    branches: dict[str, str] = {}
    text = _labelled("".join(library.modules.values()), branches)
    return Covered(text, branches)


def _convert(component: wiring.Component, name: str) -> str:
    """RTLIL of a component with cover statements."""
    fragment = Fragment.get(component, None)
    _add(fragment)
    return rtlil.convert(fragment, name=name, ports=directed(component), emit_src=True)


def _add(fragment: Fragment) -> None:
    """Add cover statements to the switches of a fragment, and of those below it."""
    for statements in fragment.statements.values():
        statements[:] = _inside(statements)
    for below, *_ in fragment.subfragments:
        _add(below)


def _inside(statements: list[Statement]) -> list[Statement]:
    """Statements of a branch, with cover statements in their switches."""
    return [_switch(one) if isinstance(one, Switch) else one for one in statements]


def _switch(switch: Switch) -> Switch:
    cases = []
    for patterns, body, where in switch.cases:
        cases.append((patterns, [*_inside(body), _cover(*(where or switch.src_loc))], where))
    file, line = switch.src_loc
    if all(patterns is not None for patterns, *_ in cases) and not _says(file, line, "m.FSM("):
        cases.append((None, [_cover(file, f"{line}.{NONE}")], switch.src_loc))
    return Switch(switch.test, cases, src_loc=switch.src_loc)


def _says(file: str, line: int, text: str) -> bool:
    """True if a text stands in a line of a source."""
    return text in linecache.getline(file, line)


def _cover(file: str, line: int | str) -> Property:
    """A cover statement of a branch."""
    found = Property("cover", Const(1))
    found.src_loc = (file, line)
    found._MustUse__used = True
    return found


def _labelled(text: str, branches: dict[str, str]) -> str:
    """RTLIL whose cover statements have labels, with more for both sides of each multiplexer; adds
    to ``branches``.
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
