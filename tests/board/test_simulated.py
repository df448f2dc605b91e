"""A board in simulation, line and all: loaded, run and read back; what goes wrong is mended or
told.
"""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from clock import now
from penstock import model
from penstock.board import simulator
from penstock.board.design import board_design, on_board
from penstock.board.device import Device
from penstock.board.run import Place, run
from penstock.cli import main
from penstock.cli.board import read_back
from penstock.machine.beat import STOP_BITS
from penstock.machine.config import load, path_of
from penstock.machine.errors import RunError
from penstock.machine.kinds.offchip import Load
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.sdram import RULES
from penstock.machine.trace import Run
from penstock.machine.unitgraph import Unit
from penstock.runs.point import Point
from penstock.tb.program import Verilated
from penstock.testing.names import nameless

TINY = str(Path(__file__).with_name("tiny.py"))


@pytest.fixture(scope="module")
def point():
    return Point(TINY, on_board(load("small_board")), {})


@pytest.fixture(scope="module")
def design(point):
    return board_design(point.graph, point.config, divisor=simulator.DIVISOR)


def test_a_run_equals_the_models():
    first = run(TINY, on="both")
    assert first.run.cycles == first.model_cycles and first.values_ok
    assert first.compared == {"tensors": 1, "streams": 1, "counters": 24}
    other = run(TINY, params={"rows": 8, "cols": 12}, on="both", seed=3)
    assert other.run.cycles != first.run.cycles


def test_a_record_of_a_board_is_written(point, tmp_path):
    """Counters are the model's; the sink has seen what the source gave."""
    path = tmp_path / "record.json"
    assert main(["board", "run", TINY, "--quiet", "--json", str(path)]) == 0
    record = json.loads(path.read_text())
    graph = point.graph
    want = model.run(graph, point.config, point.tensors, sources=point.source_beats())
    assert record["cycles"] == want.cycles
    for unit, row in zip(graph.units, record["units"], strict=True):
        counts = [row[what] for what in ("busy", "blocked", "starved")]
        assert counts == [getattr(want, what)[unit.id] for what in ("busy", "blocked", "starved")]
        assert (row["name"], row["kind"]) == (unit.name, unit.kind.name)
    sink = next(unit.id for unit in graph.units if unit.kind.name == "sink")
    stop = 40  # bits of the selector are below it
    data = 1 << stop + STOP_BITS
    beats = [*(data | 1 << 7 * k for k in range(5)), 15 << stop]
    seen = [f"{beat:016x}" for beat in beats]
    assert record["sinks"] == [{"name": "seen", "stream": f"snk{sink}", "beats": seen}]


@pytest.mark.parametrize(
    "how", ["--on=both", pytest.param("--set=beats=0", marks=pytest.mark.deep)]
)
def test_a_run_off_its_reference_fails(how, tmp_path, capsys):
    """Sinks are not checked on a board alone."""
    program = tmp_path / "tiny.py"
    wrong = "\n\ndef reference(x, **_):\n    return {'y': 3 * x}\n"
    program.write_text(Path(TINY).read_text() + wrong)
    assert main(["board", "run", str(program), "--quiet", how]) == 1
    assert "tensor y is 0.333 of its largest number" in capsys.readouterr().err


WIDE = """
from penstock.frontend import Graph, LinearOffChipLoad, Sink


def program():
    g = Graph("wide")
    x = g.input("x", (8, 8), "bf16")
    Sink(LinearOffChipLoad(x, tile=(8, 8), shape=(1, 1), stride=(1, 1), name="x"), name="seen")
    return g
"""


@pytest.mark.parametrize("command", ["run", "build"])
def test_beats_that_are_too_wide_for_a_stream_are_refused(command, tmp_path, capsys):
    program = tmp_path / "wide.py"
    program.write_text(WIDE)
    config = tmp_path / "wide.toml"
    config.write_text(path_of("small_board").read_text().replace("t = 2", "t = 8"))
    words = [str(program), "--config", str(config), "--board", "sim", "--quiet"]
    assert main(["board", command, *words]) == 1
    error = capsys.readouterr().err
    assert "more than the 1024 bits" in error and "sink seen" in error and "tensor" in error


@pytest.mark.parametrize("ram", ["block", pytest.param("sdram", marks=pytest.mark.deep)])
def test_a_simulator_that_is_built_is_the_one_that_runs(ram, tmp_path, monkeypatch, capsys):
    words = [TINY, "--board", "sim", "--ram", ram, "--quiet"]
    assert main(["board", "build", *words, "--out", str(tmp_path)]) == 0
    ready, copied = (line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    started = []
    begin = simulator.simulation

    def simulation(executable):
        started.append(executable)
        return begin(executable)

    monkeypatch.setattr(simulator, "simulation", simulation)
    monkeypatch.setattr(Verilated, "compile", lambda *_: pytest.fail("built again"))
    assert main(["board", "run", *words]) == 0
    assert ready[1] == f"simulator is ready: {started[0]}"
    assert copied == ["wrote", str(tmp_path / "sim")]
    with begin(tmp_path / "sim") as board:
        assert Path(board.path).exists()


def test_peak_pages_are_written_and_a_machine_may_have_no_counters():
    units = (Unit(0, "load", Load.of({})), Unit(1, "kept", Scratchpad.of({})))
    graph = SimpleNamespace(units=units)
    counts = {what: np.array([k, 7]) for k, what in enumerate(("busy", "blocked", "starved"))}
    first, second = read_back(graph, Run("board", 9, **counts, peak_pages={1: 4}))["units"]
    assert (first["starved"], "peak_pages" in first, second["peak_pages"]) == (2, False, 4)
    assert read_back(graph, Run("board", 9)) == {"cycles": 9, "units": [], "sinks": []}


def test_a_run_with_an_sdram_equals_the_model_of_its_deliveries(monkeypatch):
    place = Place(ram="sdram")
    found = run(TINY, place=place, on="both")
    assert found.run.cycles == found.model_cycles and found.values_ok
    assert found.compared == {"tensors": 1, "streams": 1, "counters": 24}
    assert found.run.cycles > 1000  # 32 cycles a line
    read = Device.deliveries

    def later(device):
        rows = read(device)
        rows[3, 1] += 1
        return rows

    monkeypatch.setattr(Device, "deliveries", later)
    with pytest.raises(RunError, match="differs from the model"):
        run(TINY, place=place, on="both")


def test_a_broken_rule_of_the_sdram_is_reported():
    ended = subprocess.Popen(["sh", "-c", f"exit {simulator.BROKEN + RULES.index('tRFC')}"])
    with pytest.raises(RunError, match="breaks a rule: tRFC"):
        simulator._check(ended, 10.0)


def test_every_declared_signal_of_a_board_has_a_name(design):
    assert [name for text in design.verilog.values() for name in nameless(text)] == []


@pytest.mark.deep
@pytest.mark.parametrize(
    ("program", "params", "seconds"),
    [("swiglu", {}, 60), ("simple_moe", {"dim": 16, "out": 64}, 60), ("simple_moe", {}, 150)],
)
def test_a_workload_equals_the_model(program, params, seconds):
    """Configuration of the bitstreams, without ``params``: two are built and run in two minutes of
    CPU.
    """
    begin = now()
    found = run(program, "lean_fpga", params, on="both")
    wall, cpu = (after - before for before, after in zip(begin, now(), strict=True))
    print(f"{program}: {wall:.0f} s of wall time, {cpu:.0f} s of CPU")
    assert found.run.cycles == found.model_cycles and found.values_ok
    assert cpu < seconds
