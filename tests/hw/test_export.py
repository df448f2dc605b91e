"""Verilog leaves through one function: deterministic, with shared modules and a sidecar; Yosys
synthesises every unit.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from penstock.cli import main
from penstock.hw.beat import Payloads
from penstock.hw.export import export, write
from penstock.hw.export.verilog import annotated_rtlil
from penstock.hw.fabric import Fabric
from penstock.hw.registry import component
from penstock.hw.yosys import yosys
from penstock.machine.beat import Selector, Tile
from penstock.machine.config import load, to_dict
from penstock.machine.kinds import KINDS
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.machine.kinds.copies import Hop
from penstock.machine.kinds.routing import EagerMerge, Partition, Reassemble
from penstock.machine.kinds.rows import RowPack, RowUnpack
from penstock.machine.kinds.shape import Reshape
from penstock.tb.tops import small
from penstock.testing import routing, units
from penstock.testing.names import nameless
from penstock.testing.zoo import unit

TILE = Tile(4, "fp32")
BF16 = Tile(4, "bf16")
COMMANDS = (
    "verilog simple_moe --config array_tiny --set rows=3 --set dim=4 --set out=4 --set tiles=2 "
    "--set dtype=bf16",
    "overlay verilog expr:y=a*b+c --mesh 2x1 --pe static --kinds specialised",
)
"""A fabric, and an overlay whose PEs follow from a graph."""

EXPORTS = (
    "verilog swiglu --config array_tiny",
    "overlay verilog --mesh 1x2 --local forward",
    "array verilog --array array_tiny",
)


def _fabric():
    g = unit(Matmul(rows_per_cycle=4), [BF16, BF16], [TILE], 4)
    return Fabric(g, small(4, "bf16"))


@pytest.fixture(scope="module")
def exported():
    return export(_fabric())


def test_export_is_deterministic(exported):
    again = export(_fabric())
    assert again.verilog == exported.verilog and again.sidecar == exported.sidecar


def test_files_do_not_depend_on_the_order_of_sets(tmp_path):
    """Text hashes differently in each process, and sets are in another order."""
    lines = [f"{line} --project 40 --quiet --out {k}" for k, line in enumerate(COMMANDS)]
    code = f"from penstock.cli import main\nassert not any(main(x.split()) for x in {lines})"
    written = []
    for seed in "12":
        folder = tmp_path / seed
        folder.mkdir()
        env = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, check=True)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        written.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert written[0] == written[1]
    assert {path.parts[0] for path in written[0]} == {"0", "1"}


def test_functions_have_names_of_their_own(exported):
    """Verilog keeps names with a leading $ for system functions, and Icarus takes escaped ones for
    them too.
    """
    functions = re.findall(r"^ *function .*?(\S+) *;", exported.verilog, re.M)
    assert functions and not [name for name in functions if name.lstrip("\\").startswith("$")]


def test_stored_modules_are_not_elaborated_again(exported, monkeypatch):
    store = {}
    assert export(_fabric(), store=store).verilog == exported.verilog
    (dot,) = [name for name in store if name.startswith("penstock_dot")]
    (matmul,) = [name for name in store if name.startswith("penstock_matmul")]
    operators = [name for name in store if name.startswith("penstock_operator")]
    assert len(operators) == 2 and list(store[matmul]) == [*operators, dot, matmul]
    monkeypatch.setattr(
        component("matmul"), "elaborate", lambda self, platform: pytest.fail("elaborated again")
    )
    rest = {k: v for k, v in store.items() if k != dot}
    assert export(_fabric(), store=rest).verilog == exported.verilog


def test_equal_parts_are_one_module(exported):
    modules = re.findall(r"^module (\w+)", exported.verilog, re.M)
    assert len(modules) == len(set(modules))
    (dot,) = [name for name in modules if name.startswith("penstock_dot")]
    assert len(re.findall(rf"^  {dot} ", exported.verilog, re.M)) == 4
    fifos = [name for name in modules if name.startswith("penstock_fifo")]
    assert len(fifos) == 2  # of bf16 and of fp32 tiles


def test_operators_are_functions(exported):
    """Called where a result is taken; a user's synthesis and a simulator read them alike."""
    functions = re.findall(r"^  function automatic \[31:0\] (\w+);", exported.verilog, re.M)
    assert sorted(functions) == ["penstock_operator_bf16_mul", "penstock_operator_fp32_add"]
    called = r"if \(en\) s1_dot\d_\d <= penstock_operator_bf16_mul\("
    assert len(re.findall(called, exported.verilog)) == 16
    listed = {module["kind"] for module in exported.sidecar["modules"]}
    assert "dot" in listed and "operator" not in listed


@pytest.mark.parametrize("line", EXPORTS, ids=("program", "overlay", "array"))
def test_yosys_finds_the_top(line, tmp_path):
    assert main([*line.split(), "--quiet", "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.v")
    run = yosys(f"read_verilog {file.name}; hierarchy -auto-top", tmp_path)
    assert f"Top module:  \\{file.stem}\n" in run.stdout, run.stdout[-500:]
    assert not re.search(r"port\$", file.read_text()), "a port without a name"
    config = json.loads(file.with_suffix(".json").read_text())["config"]
    named = line.split()[-1]
    fields = {"name": named, **to_dict(load(named))} if "overlay" not in line else None
    assert config == json.loads(json.dumps(fields))


def test_synthesis_without_a_named_top_keeps_the_fabric(exported, tmp_path):
    (tmp_path / "in.v").write_text(exported.verilog)
    run = yosys("read_verilog in.v; synth_ecp5 -run begin:coarse; stat", tmp_path)
    assert "=== penstock_fabric ===" in run.stdout, run.stdout[-2000:]


def test_ports_are_those_of_the_documentation(exported):
    ports = {p["name"]: (p["direction"], p["bits"]) for p in exported.sidecar["ports"]}
    assert ports["cfg_addr"] == ("input", 16) and ports["stat_data"] == ("output", 32)
    assert ports["src1_payload"] == ("input", 16 * 16 + 6 + 5)
    assert ports["snk3_payload"] == ("output", 16 * 32 + 6 + 5)
    assert (ports["src1_ready"], ports["snk3_ready"]) == (("output", 1), ("input", 1))
    header = re.search(r"^module penstock_fabric\((.*?)\);", exported.verilog, re.M | re.S)[1]
    assert set(re.findall(r"\w+", header)) == set(ports) | {"clk", "rst"}
    assert exported.sidecar["streams"]["src1"]["rows"] == {"offset": 256, "bits": 3}


def test_write_leaves_verilog_and_sidecar(tmp_path):
    g = unit(Reshape(dim=0, chunk=3, pad=True, pad_rows=1, pad_cols=1), [TILE], [TILE], 4)
    verilog, sidecar = write(Fabric(g, small(4)), tmp_path)
    assert verilog.name == "penstock_fabric.v" and "module penstock_fabric(" in verilog.read_text()
    registers = json.loads(sidecar.read_text())["registers"]
    found = [(r["param"], r["addr"], r["init"]) for r in registers]
    assert found == [("chunk", 0, 3), ("pad_rows", 1, 1), ("pad_cols", 2, 1)]


def test_an_interrupted_export_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.hw.export.verilog.yosys", interrupted)
    g = unit(Reshape(dim=0, chunk=3, pad=True, pad_rows=1, pad_cols=1), [TILE], [TILE], 4)
    with pytest.raises(KeyboardInterrupt):
        write(Fabric(g, small(4)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def cases():
    """Kind -> a unit with the payloads of its inputs and outputs: those of the zoo, some larger."""
    found = {}
    for zoo in (units.shapes(4), units.arithmetic(4), units.rows(4), routing.routing(4)):
        graph = zoo.graph()
        for u in graph.units:
            ends = graph.inputs(u.id), graph.outputs(u.id)
            found.setdefault(u.kind.name, (u.kind, *([c.payload for c in x] for x in ends)))
    larger = (
        (Hop(n=3), [TILE], [TILE] * 3),
        (Map(fn="mul", arity=2, lanes=2), [TILE] * 2, [TILE]),
        (Matmul(rows_per_cycle=1, transposed=True), [BF16] * 2, [TILE]),
        (Reshape(dim=2, chunk=2, pad=True, pad_rows=2, pad_cols=2), [TILE], [TILE]),
        (RowPack(depth=64, level=3, bands=0, cols=8), [TILE], [TILE]),
        (RowUnpack(depth=32, mask=True, rows=8), [TILE], [TILE]),
        (Partition(n=8, rank=2), [TILE, Selector(8)], [TILE] * 8),
        (Reassemble(n=8, rank=2), [*[TILE] * 8, Selector(8)], [TILE]),
        (EagerMerge(n=8, rank=2), [TILE] * 8, [TILE, Selector(8)]),
        (Accum(fn="add", reduce=2, depth=64, lanes=4), [TILE], [TILE]),
    )
    return found | {kind.name: (kind, *ends) for kind, *ends in larger}


UNITS = cases()


def test_every_kind_is_among_them():
    """But those of tests/hw_memory/test_synthesis.py."""
    assert set(KINDS) - {"scratchpad", "load", "store", "random_store"} == set(UNITS)


@pytest.mark.parametrize(
    ("kind", "arity"), [("accum", 1), ("map", 2), ("row_pack", 1), ("row_unpack", 1)]
)
def test_nets_grow_with_the_elements_of_a_tile(kind, arity):
    """Not with their square: no element is chosen out of a choice between whole tiles."""
    bits = []
    for t in (4, 8):
        tile = Tile(t, "fp32")
        made = component(kind)(
            kind=UNITS[kind][0].but(**({"lanes": t * t} if "lanes" in KINDS[kind].params else {})),
            t=t,
            config=small(t).machine,
            payloads=Payloads((tile,) * arity, (tile,)),
        )
        widths = re.findall(r"^ *wire width (\d+) ", annotated_rtlil(made, kind), re.M)
        bits.append(sum(map(int, widths)))
    assert bits[1] < 5 * bits[0]


def _unit(kind):
    made, inputs, outputs = UNITS[kind]
    return component(kind)(
        kind=made, t=4, config=small(4).machine, payloads=Payloads(tuple(inputs), tuple(outputs))
    )


def test_a_module_is_the_same_whatever_is_converted_beside_it(monkeypatch):
    whole = export(_unit("accum")).verilog
    monkeypatch.setattr("penstock.hw.export.verilog.DIVIDED", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert export(_unit("accum")).verilog == whole
    monkeypatch.setattr("penstock.hw.export.verilog._parts", lambda names: [[n] for n in names])
    assert export(_unit("accum")).verilog == whole


@pytest.mark.parametrize("kind", UNITS)
def test_yosys_synthesises(kind, tmp_path):
    """Checks clean, no latches, and the accumulators in block RAM."""
    done = export(_unit(kind))
    assert nameless(done.verilog) == []
    (tmp_path / "unit.v").write_text(done.verilog)
    script = (
        f"read_verilog unit.v; synth_ecp5 -top {done.top} -run begin:map_gates; check -assert; "
        "tee -q -o stat.json stat -json"
    )
    assert not (ran := yosys(script, tmp_path)).returncode, ran.stdout + ran.stderr
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    assert not [cell for cell in cells if "latch" in cell.lower() or cell.startswith("$mem")]
    assert (cells.get("DP16KD", 0) > 0) == (kind in ("accum", "row_pack", "row_unpack"))
