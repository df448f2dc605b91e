"""Netlists of synthesis beside the RTL that they are made of: outputs in every cycle, on random
inputs.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from amaranth.lib import data
from penstock.hw.arith.mul import Mul
from penstock.hw.export import export
from penstock.hw.fabric import Fabric
from penstock.hw.noc.xy_router import XYRouter
from penstock.hw.units.fifo import Fifo
from penstock.hw.units.token.dynamic_pe import DynamicPE
from penstock.hw.yosys import yosys
from penstock.machine.beat import Tile
from penstock.machine.builder import Builder
from penstock.machine.config import Config, Machine, Stepsim
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map
from penstock.overlay.core.config import Overlay, Sizes
from penstock.tb.toolchain import verilator_command

HERE = Path(__file__).resolve().parent
TOKEN = data.StructLayout({"x": 2, "y": 2, "value": 4})


def pe():
    """A dynamic PE that adds and compares, with memories of eight words."""
    sizes = Sizes(**dict.fromkeys(vars(Sizes()), 8))
    return DynamicPE(overlay=Overlay(rows=2, cols=2), sizes=sizes, classes=["add", "compare"])


def fabric():
    """A fabric: two streams of tiles multiplied, and the products added."""
    b = Builder("fabric", 2)
    tile = Tile(2, "fp32")
    times = b.unit(Map(fn="mul", arity=2, lanes=1))
    add = b.unit(Accum(fn="add", reduce=1, depth=1, lanes=1, init_rows=1, init_cols=1))
    b.source((times, 0), tile)
    b.source((times, 1), tile)
    b.join(times, add, tile)
    b.sink(add, tile)
    return Fabric(b.graph(), Config("fabric", Machine(t=2, rows_per_cycle=2), Stepsim()))


PARTS = {
    "fifo": lambda: Fifo(shape=12, depth=4),
    "block_ram": lambda: Fifo(shape=36, depth=128),
    "multiplier": lambda: Mul(deep=True),
    "router": lambda: XYRouter(token=TOKEN, fifo_depth=4),
    "pe": pe,
    "fabric": fabric,
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


def inverted(text):
    """A netlist with one LUT the other way round, the first of those with as many ones as zeros in
    their tables, or nearest to it.
    """
    tables = list(re.finditer(r"LUT4 #\(\s+\.INIT\(16'h(\w{4})\)", text))
    table = min(tables, key=lambda found: abs(int(found[1], 16).bit_count() - 8))
    wrong = f"{int(table[1], 16) ^ 0xFFFF:04x}"
    return text[: table.start(1)] + wrong + text[table.end(1) :]


def crossed(text, cell, one, other):
    """A netlist with two connections of a cell exchanged, those of the first one that has different
    ones.
    """
    for found in re.finditer(rf"^  {cell} .*?^  \);", text, re.M | re.S):
        body = found[0]
        nets = [re.search(rf"\.{pin}\((.*?)\)", body)[1] for pin in (one, other)]
        if nets[0] != nets[1]:
            body = body.replace(f".{one}({nets[0]})", f".{one}({nets[1]})")
            body = body.replace(f".{other}({nets[1]})", f".{other}({nets[0]})")
            return text[: found.start()] + body + text[found.end() :]
    raise AssertionError(f"no {cell} with different nets at {one} and {other}")


FAULTS = {
    "LUT4": inverted,
    "DP16KD": lambda text: crossed(text, "DP16KD", "ADA5", "ADA6"),  # where it writes
    "MULT18X18D": lambda text: crossed(text, "MULT18X18D", "A0", "A1"),
}


def driven(port, width, at):
    """Driver of an input: random bits; of handshakes mostly ones, or mostly zeros, for some time,
    so that FIFOs fill and drain.
    """
    if port in ("clk", "rst"):
        return port
    if port == "running":  # of a PE, which is loaded in between
        return "(full == 1)"
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
    """First cycle in which the outputs of each pair differ, or -1."""
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
    """A netlist with a wrong LUT does not, nor one with two wrong wires at a block RAM or at a
    multiplier.
    """
    pairs = []
    ports = {}
    source = ""
    for name, make in PARTS.items():
        rtl, gates = netlist(name, make(), tmp_path)
        ports[name] = PORT.findall(rtl[rtl.index(f"\nmodule {name}(") :].split("endmodule")[0])
        source += rtl + gates
        pairs.append((name, f"{name}_netlist"))
        for cell, fault in FAULTS.items():
            if f"\n  {cell} " in gates:
                other = f"{name}_wrong_{cell}"
                source += fault(gates).replace(f"module {name}_netlist", f"module {other}")
                pairs.append((name, other))
    assert all(f"  {cell} " in source for cell in CELLS)
    differ = first_differences(source + bench(pairs, ports), len(pairs), tmp_path)
    found = {other: at for (_, other), at in zip(pairs, differ, strict=True)}
    same = [other for other, at in found.items() if at == -1]
    assert same == [f"{name}_netlist" for name in PARTS]
    assert min(at for at in found.values() if at != -1) > 2
