"""Registers and memory of a host on the bus models of others."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
from host_top import FabricTop, HostTop
from penstock import model
from penstock.hw.export import export
from penstock.hw.fabric import Fabric
from penstock.machine.config import load
from penstock.machine.image import pack
from penstock.machine.stimulus import whole_beats
from penstock.runs.point import Point

TINY = str(Path(__file__).with_name("tiny.py"))

pytestmark = pytest.mark.skipif(
    not (shutil.which("iverilog") and shutil.which("vvp")),
    reason="Icarus Verilog (iverilog, vvp) is not installed",
)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Runs the tests of a module on a component."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # the runner would end Python
    return lambda component, module: check(tmp_path, component, module)


def check(tmp_path, component, module):
    source = tmp_path / "host_top.v"
    source.write_text(export(component, "host_top").verilog)
    runner = get_runner("icarus")
    log = tmp_path / "log"
    runner.build(
        sources=[source],
        hdl_toplevel="host_top",
        build_dir=tmp_path,
        timescale=("1ns", "1ps"),
        log_file=log,
    )
    with contextlib.suppress(SystemExit):  # of the runner, where a test fails
        runner.test(
            test_module=module,
            hdl_toplevel="host_top",
            build_dir=tmp_path,
            test_dir=tmp_path,
            results_xml=str(tmp_path / "results.xml"),
            extra_env={
                "PYTHONPATH": str(Path(__file__).parent),
                "PYTHONWARNINGS": "",
                "COCOTB_LOG_LEVEL": "WARNING",
            },
            log_file=log,
        )
    total, failed = get_results(tmp_path / "results.xml")
    assert total and not failed, log.read_text()[-4000:]


def test_registers_and_lines(checked):
    checked(HostTop(), "bus_checks")


@pytest.mark.parametrize(
    ("program", "params"),
    [
        (TINY, {"beats": 0}),
        pytest.param(
            "swiglu",
            {"batch": 4, "dim": 6, "inter": 8, "tile_b": 2, "tile_inter": 4},
            marks=pytest.mark.deep,
        ),
        pytest.param(
            "simple_moe", {"rows": 5, "dim": 6, "out": 8, "tiles": 2}, marks=pytest.mark.deep
        ),
    ],
)
def test_a_fabric_over_axi(program, params, checked, tmp_path):
    """Whatever the memory's waits and its latency, outputs are the model's; a run takes longer
    with each latency.
    """
    point = Point(program, load("small_board"), params)
    graph = point.graph
    image = pack(graph, point.tensors)
    sources = point.source_beats()
    want = model.run(graph, point.config, point.tensors, sources=sources).outputs
    np.savez(tmp_path / "job.npz", image=image, after=stored(graph, image, want))
    beats = {u: numbers(graph.outputs(u)[0].payload, sources[u]) for u in sources}
    checked(FabricTop(Fabric(graph, point.config), beats), "fabric_checks")


def numbers(payload, stream):
    """Each beat of a stream as one number."""
    words = whole_beats(payload, stream).astype("<u4")
    return [int.from_bytes(beat.tobytes(), "little") for beat in words]


def stored(graph, image, outputs):
    """The memory after a run."""
    after = image.copy()
    for tensor in (t for t in graph.tensors if t.role == "output"):
        values = outputs[tensor.name]
        for row in range(tensor.rows):
            data = values[row].tobytes()
            at = tensor.base + row * tensor.pitch
            after[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return after
