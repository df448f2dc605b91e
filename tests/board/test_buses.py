"""Registers and memory of a host on the bus models of others."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
from host_top import HostTop
from penstock import model
from penstock.hw.export import export
from penstock.hw.fabric import Fabric
from penstock.machine.config import load
from penstock.machine.image import pack
from penstock.machine.stimulus import whole_beats
from penstock.runs.axi_verilog import axi_verilog
from penstock.runs.point import Point
from penstock.tb.exported import Design

TINY = str(Path(__file__).with_name("tiny.py"))

pytestmark = pytest.mark.skipif(
    not (shutil.which("iverilog") and shutil.which("vvp")),
    reason="Icarus Verilog (iverilog, vvp) is not installed",
)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Runs the tests of a module on a component: those whose names match ``only``."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # the runner would end Python

    def check(component, module, only=None):
        (tmp_path / "host_top.v").write_text(export(component, "host_top").verilog)
        simulate(tmp_path, "host_top", module, only)

    return check


def simulate(tmp_path, top, module, only=None):
    """Run the tests of a module on a Verilog file."""
    runner = get_runner("icarus")
    log = tmp_path / "log"
    runner.build(
        sources=[tmp_path / f"{top}.v"],
        hdl_toplevel=top,
        build_dir=tmp_path,
        timescale=("1ns", "1ps"),
        log_file=log,
    )
    with contextlib.suppress(SystemExit):  # of the runner, where a test fails
        runner.test(
            test_module=module,
            hdl_toplevel=top,
            build_dir=tmp_path,
            test_dir=tmp_path,
            results_xml=str(tmp_path / "results.xml"),
            test_filter=only,
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
    ("bits", "line_bytes"),
    [(512, 64), *(pytest.param(bits, 16, marks=pytest.mark.deep) for bits in (32, 64))],
)
def test_lines_of_other_widths(bits, line_bytes, checked):
    checked(HostTop(bits=bits, line_bytes=line_bytes), "bus_checks", only=r"_over_axi$")


@pytest.mark.parametrize(
    ("config", "bits"),
    [("lean_fpga", 32), pytest.param("small_board", 512, marks=pytest.mark.deep)],
)
def test_the_verilog_of_a_fabric_with_axi(config, bits, tmp_path, monkeypatch):
    """The Verilog is that of ``penstock verilog --host axi``."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    point = Point(TINY, load(config), {})
    graph = point.graph
    axi_verilog(TINY, config, bits=bits, out=tmp_path)
    sidecar = json.loads((tmp_path / "penstock_axi.json").read_text())
    design = Design(graph, {}, "penstock_axi", sidecar["registers"])
    sources = point.source_beats()
    sunk = {u.id: graph.inputs(u.id)[0].id for u in graph.units if u.kind.name == "sink"}
    want = model.run(graph, point.config, point.tensors, sources=sources, record=sunk.values())
    image = pack(graph, point.tensors)
    fabric = export(Fabric(graph, point.config)).verilog
    line = point.config.machine.dram.line_bytes
    np.savez(
        tmp_path / "job.npz",
        image=image,
        after=stored(graph, image, want.outputs),
        writes=design.writes(point.stimulus()),
        sources=list(sources),
        sinks=list(sunk),
        design=int(hashlib.sha256(fabric.encode()).hexdigest()[:8], 16),
        memory_bytes=-(-graph.memory_bytes // line) * line,
        **{f"source{u}": whole_beats(graph.outputs(u)[0].payload, sources[u]) for u in sources},
        **{f"sunk{unit}": want.extra["payloads"][channel] for unit, channel in sunk.items()},
    )
    simulate(tmp_path, "penstock_axi", "axi_host_checks")


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
