"""Mutants of a netlist: small faults in the cells of annotated RTLIL, all in one netlist behind a
selector, one of them on at run time.

A mutant is a fault of the source: it is in every cell that a line of ``hw/`` gave of its type, in
all modules. Kinds:

* ``constant``: a constant operand is one more;
* ``operator``: another operator;
* ``condition``: a bit is inverted, or stuck at 0 or 1;
* ``latency``: a register is a cycle late;
* ``operand``: two operands are swapped, or the first stands for both where
  that changes nothing.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..system.cache import digest
from ..system.sources import PACKAGE

KINDS = ("constant", "operator", "condition", "latency", "operand")

OTHERS = {
    "$add": "$sub",
    "$sub": "$add",
    "$mul": "$add",
    "$and": "$or",
    "$or": "$and",
    "$xor": "$or",
    "$lt": "$le",
    "$le": "$lt",
    "$gt": "$ge",
    "$ge": "$gt",
    "$eq": "$ge",
    "$ne": "$gt",
    "$shl": "$shr",
    "$shr": "$shl",
    "$reduce_or": "$reduce_and",
    "$reduce_and": "$reduce_or",
}
"""Operator -> the wrong one."""

SWAPPED = ("$sub", "$lt", "$le", "$gt", "$ge", "$mux", "$shl", "$shr")
DOUBLED = ("$add", "$mul", "$and", "$or", "$xor", "$eq", "$ne")
BITS = ("$and", "$or", "$xor", "$not", "$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$mux")
BITS += ("$reduce_or", "$reduce_and")

SELECTOR = """
package penstock_chosen;
    logic [15:0] mutant = 0;
endpackage

// The number of the mutant that is on; constant during a run.
module penstock_mutant (output logic [15:0] number);
    assign number = penstock_chosen::mutant;
endmodule

module penstock_mutants (input logic clk);
    import "DPI-C" function int penstock_dpi_mutant();
    always @(posedge clk) penstock_chosen::mutant <= 16'(penstock_dpi_mutant());
endmodule
"""
"""SystemVerilog of the modules that a planted netlist instantiates."""

CHOSEN_BY_ARGUMENT = """
// The number of the mutant that is on, from the simulator's argument +mutant=NUMBER.
module penstock_mutant (output reg [15:0] number);
    initial if (!$value$plusargs("mutant=%d", number)) number = 0;
endmodule

module penstock_mutants (input clk);
endmodule
"""
"""The same without the bench's library."""

CELL = re.compile(
    r'^  attribute \\src "(?P<place>hw/[^"|]*)"\n'
    r"  cell (?P<type>\$\w+) (?P<name>\S+)\n(?P<body>(?:    .*\n)*)  end\n",
    re.M,
)
MODULE = re.compile(r"^module (\S+)\n.*?^end\n", re.M | re.S)
CONNECTION = re.compile(r"^    connect \\(\w+) (.*)$", re.M)
PARAMETER = re.compile(r"^    parameter \\(\w+) (.*)$", re.M)
CONSTANT = re.compile(r"(\d+)'([01]+)")


@dataclass(frozen=True, order=True)
class Mutant:
    """A fault of one line."""

    place: str  # ``file:line``, the file as seen from the package
    kind: str  # one of :data:`KINDS`
    # cell, form: type of the cells, and what is wrong with them
    cell: str
    form: str

    @property
    def file(self) -> str:
        """The file alone."""
        return self.place.rpartition(":")[0]

    def __str__(self) -> str:
        return f"{self.place} {self.cell} {self.form}"


@dataclass(frozen=True)
class Cell:
    """A cell of RTLIL: its type, parameters, and connections by port."""

    type: str
    parameters: Mapping[str, str]
    connections: Mapping[str, str]

    @property
    def output(self) -> str:
        """The port that it drives."""
        return "Q" if self.type == "$dff" else "Y"

    @property
    def width(self) -> int:
        """Width of its output."""
        return int(self.parameters["WIDTH" if self.type in ("$mux", "$dff") else "Y_WIDTH"])


def _cell(found: re.Match) -> Cell:
    body = found["body"]
    return Cell(found["type"], dict(PARAMETER.findall(body)), dict(CONNECTION.findall(body)))


def _forms(cell: Cell) -> list[tuple[str, str]]:
    """(kind, form) of all faults that a cell can have."""
    nets = cell.connections
    found = []
    if cell.type == "$dff":
        return [("latency", "a cycle late")]
    if cell.type not in (*OTHERS, *SWAPPED, *BITS):
        return []
    changes = not cell.type.startswith("$reduce") or cell.parameters["A_WIDTH"] != "1"
    if cell.type in OTHERS and changes:
        found.append(("operator", f"as {OTHERS[cell.type]}"))
    if cell.type in (*SWAPPED, "$add", "$mul", "$eq", "$ne"):
        found += [
            ("constant", f"{port} + 1") for port in "AB" if CONSTANT.fullmatch(nets.get(port, ""))
        ]
    if cell.width == 1 and cell.type in BITS:
        found += [("condition", form) for form in ("inverted", "stuck at 0", "stuck at 1")]
    if cell.type in SWAPPED:
        found.append(("operand", "A and B swapped"))
    if cell.type in DOUBLED:
        found.append(("operand", "A for B"))
    return found


def candidates(rtlil: str) -> set[Mutant]:
    """All mutants of annotated RTLIL."""
    return {
        Mutant(found["place"], kind, found["type"], form)
        for found in CELL.finditer(rtlil)
        for kind, form in _forms(_cell(found))
    }


@functools.cache
def line_of(place: str) -> str:
    """The file of a place and the text of its line, with its number among equal lines: it is
    independent of the lines above.
    """
    file, _, number = place.rpartition(":")
    lines = [line.strip() for line in (PACKAGE / file).read_text("utf-8").splitlines()]
    text = lines[int(number) - 1]
    before = lines[: int(number) - 1].count(text)
    return f"{file}: {text}" + (f" #{before + 1}" if before else "")


def drawn(found: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants, evenly over files and kinds: one of each file and kind after the other, in
    an order of the seed, and again. The order follows from the text of lines, so that a change of
    one line draws the others as before.
    """
    groups: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for mutant in sorted(found):
        groups[mutant.file, mutant.kind].append(mutant)

    def order(mutant: Mutant) -> str:
        return digest(str(seed), line_of(mutant.place), mutant.cell, mutant.form)

    keys = sorted(groups, key=lambda key: digest(str(seed), *key))
    piles = [sorted(groups[key], key=order) for key in keys]
    rounds = (one for some in itertools.zip_longest(*piles) for one in some if one is not None)
    return list(itertools.islice(rounds, count))


def planted(rtlil: str, numbers: Mapping[Mutant, int], top: str) -> str:
    """RTLIL with mutants, each on where the selector has its number; ``top``: its top module."""
    wanted: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for mutant, number in numbers.items():
        wanted[mutant.place, mutant.cell].append((mutant.form, number))

    def module(found: re.Match) -> str:
        text, count = _module(found[0], wanted)
        head, _, body = text.removesuffix("end\n").partition("\n")
        first = CHOSEN if count else ""
        last = CLOCKED if found[1] == f"\\{top}" else ""
        return f"{head}\n{first}{body}{last}end\n"

    return MODULE.sub(module, rtlil)


CHOSEN = """  wire width 16 $mutant
  cell \\penstock_mutant $chosen
    connect \\number $mutant
  end
"""
CLOCKED = """  cell \\penstock_mutants $mutants
    connect \\clk \\clk
  end
"""


def _module(text: str, wanted: Mapping[tuple[str, str], list[tuple[str, int]]]) -> tuple[str, int]:
    """A module with its mutants, and how many cells have some."""
    count = 0
    late = set()

    def take(found: re.Match) -> str:
        nonlocal count
        cell = _cell(found)
        able = {form for _, form in _forms(cell)}
        here = [one for one in wanted.get((found["place"], found["type"]), ()) if one[0] in able]
        if not here:
            return found[0]
        count += 1
        if cell.type == "$dff":
            late.add(cell.connections["Q"])
        return _mutated(found[0], cell, here, f"$mutated{count}")

    text = CELL.sub(take, text)
    for net in late:
        text = _initialised(text, net)
    return text, count


def _mutated(text: str, cell: Cell, here: list[tuple[str, int]], name: str) -> str:
    """A cell whose output passes a multiplexer for each mutant."""
    width = cell.width
    target = cell.connections[cell.output]
    wires = [f"{name}_right", *(f"{name}_{number}" for _, number in here[:-1])]
    lines = [f"  wire width {width} {wire}\n" for wire in wires]
    drives = f"connect \\{cell.output} "
    lines.append(text.replace(f"{drives}{target}\n", f"{drives}{wires[0]}\n"))
    for wire, after, (form, number) in zip(wires, [*wires[1:], target], here, strict=True):
        wrong = f"{name}_{number}_wrong"
        on = f"{name}_{number}_on"
        lines += [
            f"  wire width {width} {wrong}\n",
            f"  wire width 1 {on}\n",
            _wrong(cell, form, wires[0], wrong),
            _written("$eq", f"{on}_is", WHICH, {"A": "$mutant", "B": f"16'{number:016b}", "Y": on}),
            _written(
                "$mux",
                f"{on}_mux",
                {"WIDTH": str(width)},
                {"A": wire, "B": wrong, "S": on, "Y": after},
            ),
        ]
    return "".join(lines)


WHICH = {"A_SIGNED": "0", "B_SIGNED": "0", "A_WIDTH": "16", "B_WIDTH": "16", "Y_WIDTH": "1"}


def _written(kind: str, name: str, parameters: Mapping[str, str], nets: Mapping[str, str]) -> str:
    """A cell as text."""
    parts = [f"    parameter \\{key} {value}\n" for key, value in parameters.items()]
    parts += [f"    connect \\{port} {net}\n" for port, net in nets.items()]
    return f"  cell {kind} {name}\n{''.join(parts)}  end\n"


def _wrong(cell: Cell, form: str, right: str, wrong: str) -> str:
    """The cell that drives ``wrong`` as a form says."""
    name = f"{wrong}_cell"
    nets = dict(cell.connections)
    parameters = dict(cell.parameters)
    kind = cell.type
    if form.startswith("stuck"):
        return f"  connect {wrong} 1'{form[-1]}\n"
    if form == "inverted":
        given = {"A_SIGNED": "0", "A_WIDTH": "1", "Y_WIDTH": "1"}
        return _written("$not", name, given, {"A": right, "Y": wrong})
    if form == "a cycle late":
        nets["D"] = right
    elif form.startswith("as "):
        kind = form.removeprefix("as ")
    elif form == "A for B":
        nets["B"] = nets["A"]
        parameters |= _of_operand(parameters, "A", "B")
    elif form == "A and B swapped":
        nets |= {"A": nets["B"], "B": nets["A"]}
        parameters |= _of_operand(cell.parameters, "A", "B")
        parameters |= _of_operand(cell.parameters, "B", "A")
    else:
        nets[form[0]] = _one_more(nets[form[0]])
    nets[cell.output] = wrong
    return _written(kind, name, parameters, nets)


def _of_operand(parameters: Mapping[str, str], given: str, taker: str) -> dict[str, str]:
    """Parameters of one operand, for another."""
    return {
        key.replace(given, taker, 1): value
        for key, value in parameters.items()
        if key in (f"{given}_WIDTH", f"{given}_SIGNED")
    }


def _one_more(constant: str) -> str:
    found = CONSTANT.fullmatch(constant)
    assert found
    width = int(found[1])
    return f"{width}'{(int(found[2], 2) + 1) % 2**width:0{width}b}"


def _initialised(text: str, net: str) -> str:
    """The initial value of a register's net goes to the registers that are there now."""
    pattern = rf"^  attribute \\init (\S+)\n(  wire [^\n]*{re.escape(net)})$"
    found = re.search(pattern, text, re.M)
    if found is None:
        return text
    text = text.replace(found[0], found[2])
    driven = re.compile(rf"^    connect \\Y {re.escape(net)}$", re.M)
    muxes = re.finditer(r"^  cell \$mux (\S+)\n(?:    .*\n)*?  end\n", text, re.M)
    (mux,) = [cell for cell in muxes if driven.search(cell[0])]
    first = mux[1].split("_")[0]
    return re.sub(
        rf"^(  wire width \d+ {re.escape(first)}_(?:right|\d+_wrong))$",
        rf"  attribute \\init {found[1]}\n\1",
        text,
        flags=re.M,
    )
