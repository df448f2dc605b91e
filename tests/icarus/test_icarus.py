"""The exported Verilog in a bench that knows the sidecar and docs/top.md alone: the model's cycles,
values and beats. Under Icarus where it is installed, else under Verilator.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import penstock
import pytest
from penstock import model
from penstock.frontend import Graph, Map, Sink, Source, build, lower, row_sum
from penstock.machine.config import load
from penstock.runs import boundary
from penstock.testing import verilog_bench

SMALL = load("small_fpga")
TOP2 = Path(__file__).parents[2] / "samples/files/top2.py"

pytestmark = pytest.mark.xdist_group("written")


def on_the_model(program, config, seed=0):
    """Cycles, outputs, and the stops of each sink's beats, by name."""
    units = lower(program.graph, config)
    given = program.streams(seed)
    tensors = program.inputs(seed)
    sources = boundary.source_beats(program.graph, units, given)
    run = model.run(units, config, tensors, sources=sources)
    return run, tensors, given


def test_a_program_of_loads_and_stores(written):
    folder, size = written("swiglu")
    want, tensors, _ = on_the_model(build("swiglu", size, SMALL), SMALL)
    got = verilog_bench.run(folder, tensors, {})
    assert got.error == 0 and got.cycles == want.cycles
    assert got.outputs.keys() == want.outputs.keys()
    assert all(got.outputs[n].tobytes() == want.outputs[n].tobytes() for n in want.outputs)


def selectors(fields, chosen):
    return [verilog_bench.packed(fields, hot=sum(1 << e for e in row), data=1) for row in chosen]


def test_a_program_of_dynamic_tiles(written):
    """Rows that are packed, multiplied and gathered as a stream of selectors says."""
    folder, size = written("simple_moe")
    want, tensors, given = on_the_model(build("simple_moe", size, SMALL), SMALL)
    hot = [1 << 6 | 1 << int(expert) for expert in given["selector"]]
    got = verilog_bench.run(folder, tensors, {"selector": hot})
    assert got.error == 0 and got.cycles == want.cycles
    assert all(got.outputs[n].tobytes() == want.outputs[n].tobytes() for n in want.outputs)


@pytest.mark.deep
@pytest.mark.parametrize("config", ["fig8", "paper_hdl_bf16"])
def test_the_machine_of_figure_8(config, tmp_path):
    """Arrays of 16 x 16 x 16 products, in fp32 and in bf16."""
    machine = load(config)
    size = {"batch": 16, "dim": 16, "inter": 16, "tile_b": 16, "tile_inter": 16}
    penstock.verilog("swiglu", machine, size, out=tmp_path)
    want, tensors, _ = on_the_model(build("swiglu", size, machine), machine)
    got = verilog_bench.run(tmp_path, tensors, {})
    assert got.error == 0 and got.cycles == want.cycles
    assert all(got.outputs[n].tobytes() == want.outputs[n].tobytes() for n in want.outputs)


def test_a_program_with_streams_from_outside(tmp_path):
    """Also with memories that are later and earlier than the machine's own: the same values."""
    machine = replace(SMALL, machine=replace(SMALL.machine, t=2, rows_per_cycle=2, lanes={}))
    size = {"most": 4, "dim": 4, "out": 4, "experts": 2}
    penstock.verilog(str(TOP2), machine, size, out=tmp_path)
    want, tensors, given = on_the_model(build(str(TOP2), size, machine), machine, seed=3)
    sources = {
        "row": [1 << 36 | int(r) for r in given["row"]],
        "chosen": [1 << 6 | sum(1 << int(e) for e in row) for row in given["chosen"]],
    }
    for late in (0, 7, -9):
        got = verilog_bench.run(tmp_path, tensors, sources, late)
        assert got.error == 0 and (got.cycles == want.cycles) == (late == 0)
        assert all(got.outputs[n].tobytes() == want.outputs[n].tobytes() for n in want.outputs)
        assert [beat["data"] for beat in got.sinks["stored"]] == [1] * len(given["row"]) + [0]


def test_a_program_without_memory(tmp_path):
    g = Graph("sums")
    rows = Source(graph=g, shape=(3,), tile=(4, 4), name="rows")
    Sink(Map(rows, fn=row_sum()), name="sums")
    tiles = np.arange(48, dtype=np.float32).reshape(3, 4, 4)
    penstock.verilog(g, SMALL, out=tmp_path)
    units = lower(g, SMALL)
    sources = boundary.source_beats(g, units, {"rows": list(tiles)})
    want = model.run(units, SMALL, {}, sources=sources)
    beats = [
        int.from_bytes(x.tobytes(), "little") | 4 << 512 | 4 << 515 | 2 << 518 | 1 << 522
        for x in tiles
    ]
    got = verilog_bench.run(tmp_path, {}, {"rows": beats})
    assert got.error == 0 and got.cycles == want.cycles
    *sums, done = got.sinks["sums"]
    first = [
        np.frombuffer(x["elements"].to_bytes(64, "little"), np.float32).reshape(4, 4)[:, 0]
        for x in sums
    ]
    assert np.array_equal(first, tiles.sum(2)) and (done["data"], done["stop"]) == (0, 15)
