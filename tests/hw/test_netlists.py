"""Netlists of synthesis beside the RTL that they are made of: outputs
in every cycle, on random inputs.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from amaranth.lib import data
from penstock.hw.arith.mul import Mul
from penstock.hw.export import export
from penstock.hw.noc.xy_router import XYRouter
from penstock.hw.units.fifo import Fifo
from penstock.hw.yosys import yosys
from penstock.tb.toolchain import verilator_command

HERE = Path(__file__).resolve().parent
TOKEN = data.StructLayout({"x": 2, "y": 2, "value": 4})
PARTS = {
    "fifo": lambda: Fifo(shape=12, depth=4),
    "block_ram": lambda: Fifo(shape=36, depth=128),
    "multiplier": lambda: Mul(deep=True),
    "router": lambda: XYRouter(token=TOKEN, fifo_depth=4),
}
CELLS = ("CCU2C", "DP16KD", "MULT18X18D", "TRELLIS_DPR16X4")
"""Memories, carry chains and multipliers that they have among them."""
CYCLES = 60_000
PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", re.M)


def netlist(name, component, folder):
    """RTL and netlist, as modules <name> and <name>_netlist."""
    rtl = export(component, name, prefix=name).verilog
    (folder / "in.v").write_text(rtl)
    done = yosys(
        f"read_verilog in.v; synth_ecp5 -noabc9 -top {name}; delete t:$scopeinfo; "
        f"rename {name} {name}_netlist; write_verilog -noattr out.v",
        folder,
    )
    assert not done.returncode, done.stdout + done.stderr
    text = (folder / "out.v").read_text()
    return rtl, re.sub(r"\s+\.INITVAL_\w\w\(320'h0+\),", "", text)  # which the model has


def test_multipliers_keep_their_registers_outside(tmp_path):
    """Yosys uses none of a multiplier's own; those of a deep product are flip-flops."""
    _, text = netlist("multiplier", Mul(deep=True), tmp_path)
    assert "MULT18X18D" in text and "TRELLIS_FF" in text
    assert not re.search(r"\.REG_(INPUT[ABC]|PIPELINE|OUTPUT)_CLK\(", text)


def broken(name, text):
    """A netlist with two wrong bits in the table of a LUT, that with
    the most zeros.
    """
    tables = list(re.finditer(r"LUT4 #\(\s+\.INIT\(16'h(\w{4})\)", text))
    table = max(tables, key=lambda found: bin(int(found[1], 16)).count("0"))
    wrong = f"{int(table[1], 16) ^ 0x8001:04x}"
    text = text[: table.start(1)] + wrong + text[table.end(1) :]
    return text.replace(f"module {name}_netlist", f"module {name}_broken")


def driven(port, width, at):
    """What drives an input: random bits; of handshakes mostly ones, or
    mostly zeros, for some time, so that FIFOs fill and drain.
    """
    if port in ("clk", "rst"):
        return port
    bits = f"given[{at + width + 1}:{at}]"
    if port.endswith(("_valid", "_ready")):
        often = int(port.endswith("_ready"))
        return f"(full == {often} ? |{bits} : &{bits})"
    return f"{width}'({bits})"


def beside(bit, name, other, ports):
    """An instance of each module, and whether their outputs differ."""
    pins = {name: [], other: []}
    outs = {name: [], other: []}
    lines = []
    at = 0
    for way, top, port in ports:
        width = int(top or 0) + 1
        for k, module in enumerate(pins):
            wire = f"w{bit}_{k}_{port}"
            if way == "output":
                lines.append(f"  logic [{width - 1}:0] {wire};")
                outs[module].append(wire)
            value = wire if way == "output" else driven(port, width, at)
            pins[module].append(f".{port}({value})")
        at += width + 2
    for k, (module, mine) in enumerate(pins.items()):
        lines.append(f"  {module} u{bit}_{k}({', '.join(mine)});")
    left, right = (f"{{{', '.join(wires)}}}" for wires in outs.values())
    lines.append(f"  assign differs[{bit}] = {left} != {right};")
    return lines, at


def bench(pairs, ports):
    """The top module of pairs of modules."""
    lines = []
    most = 0
    for bit, (name, other) in enumerate(pairs):
        more, bits = beside(bit, name, other, ports[name])
        lines += more
        most = max(most, bits)
    most = max(most, 65)  # an array of words in C++
    head = f"module top(input clk, rst, input [1:0] full, input [{most - 1}:0] given, "
    return "\n".join([f"{head}output [{len(pairs) - 1}:0] differs);", *lines, "endmodule\n"])


def first_differences(source, parts, folder):
    """For each pair the first cycle in which outputs differ, or -1."""
    (folder / "top.sv").write_text(source)
    flags = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
    command = [verilator_command(), "--cc", "--exe", "--build", "-Wno-fatal", "-Wno-lint"]
    files = ["top.sv", HERE / "ecp5.v", HERE / "lockstep.cpp"]
    subprocess.run(
        [*command, "--top-module", "top", "--Mdir", "obj", *files],
        cwd=folder,
        check=True,
        capture_output=True,
        env={**os.environ, "MAKEFLAGS": flags},
    )
    run = [folder / "obj" / "Vtop", str(parts), str(CYCLES)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.deep
def test_netlists_do_what_the_rtl_does(tmp_path):
    """A netlist with a wrong LUT does not."""
    pairs = []
    ports = {}
    source = ""
    for name, make in PARTS.items():
        rtl, gates = netlist(name, make(), tmp_path)
        ports[name] = PORT.findall(rtl[rtl.index(f"\nmodule {name}(") :].split("endmodule")[0])
        source += rtl + gates + broken(name, gates)
        pairs += [(name, f"{name}_netlist"), (name, f"{name}_broken")]
    assert all(f"  {cell} " in source for cell in CELLS)
    found = first_differences(source + bench(pairs, ports), len(pairs), tmp_path)
    assert found[::2] == [-1] * len(PARTS)
    assert min(found[1::2]) > 2
