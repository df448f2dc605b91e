"""An overlay on a board in simulation, line and all; and its windows by themselves."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.lib import data
from amaranth.sim import Simulator
from hardware import mesh
from penstock.board import simulator
from penstock.board.device import Device
from penstock.board.link import Link, open_line
from penstock.cli import main
from penstock.hw.host.overlay_board import ImageWindow, ValuesWindow
from penstock.machine.errors import RunError
from penstock.overlay.core.config import Overlay
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.runs import board as boards
from penstock.scheduler.token import map_graph
from penstock.tb.program import Verilated

GRAPH = """
graph sums
a = input 1.5
b = input -2.0
c = mul a b
d = add c a
e = sub d c
output e = e
"""
SMALL = Overlay(rows=1, cols=2, kinds="specialised")
AS_BUILT = replace(mesh(2), rows=1)
"""The mesh of the measured bitstreams, made smaller."""
WIDE = Overlay(rows=1, cols=2, kinds="specialised", pe="static", format="fp64")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "sums.dfg"
    path.write_text(GRAPH)
    return str(path)


@pytest.mark.parametrize(
    "overlay",
    [SMALL, *(pytest.param(overlay, marks=pytest.mark.deep) for overlay in (AS_BUILT, WIDE))],
    ids=lambda o: f"{o.pe} {o.alu} {o.format}",
)
def test_a_run_equals_the_models(graph, overlay):
    found = boards.run(graph, overlay, on="both")
    assert found.cycles == found.model_cycles > 0
    format_ = np.float32 if overlay.format == "fp32" else np.float64
    bits = found.values.astype(np.uint32 if overlay.format == "fp32" else np.uint64)
    assert list(bits.view(format_)) == [1.5, -2.0, -3.0, -1.5, 1.5]


def test_a_simulator_that_is_built_is_the_one_that_runs(graph, tmp_path, monkeypatch, capsys):
    words = [graph, "--mesh", "1x2", "--kinds", "specialised", "--board", "sim", "--quiet"]
    assert main(["overlay", "build", *words, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"wrote {tmp_path / 'sim'}"
    monkeypatch.setattr(Verilated, "compile", lambda *_: pytest.fail("built again"))
    assert main(["overlay", "run", *words, "--on", "both"]) == 0
    with simulator.simulation(tmp_path / "sim") as board:
        assert Path(board.path).exists()


def test_a_bitstream_needs_a_folder(graph, capsys):
    assert main(["overlay", "build", graph, "--board", "ulx3s"]) != 0
    assert "give it with --out" in capsys.readouterr().err


def test_a_difference_from_the_model_is_told(graph):
    image = map_graph(graph_from(graph), SMALL, 0).image
    outcome = boards.model.simulate(image)
    values = boards.model.values(image, outcome)
    assert boards._compare("sums", image, outcome.cycles, values, "sim") == outcome.cycles
    with pytest.raises(RunError, match=r"1 of 5 values"):
        boards._compare("sums", image, outcome.cycles, values ^ (np.arange(5) == 3), "sim")
    with pytest.raises(RunError, match=rf"the model's {outcome.cycles}; 0 of 5"):
        boards._compare("sums", image, outcome.cycles + 1, values, "sim")


def test_a_reset_in_mid_load_is_loaded_again_and_runs(graph, monkeypatch):
    monkeypatch.setattr(boards, "LOOK_EVERY", 1)
    image = map_graph(graph_from(graph), SMALL, 0).image
    design = boards.overlay_design(image, divisor=simulator.DIVISOR)
    with simulator.simulation(simulator.build(design)) as board:
        with contextlib.closing(open_line(board.path, 115_200)) as line:
            device = Device(Link(line, board.path, 115_200, 2.0), design.number)
            fills = []

            def fill():
                fills.append(len(fills))
                boards._fill(device, image)
                if len(fills) == 1:
                    board.reset()

            assert device.filled(fill).reloads == 1
            cycles = [device.run(0, 30.0).cycles for _ in range(2)]
            values = boards._values(device, image)
    assert boards._compare("sums", image, cycles[0], values, "sim") == cycles[1]


async def transfer(ctx, port, address, word=None):
    """Completion of the request, and what was read."""
    ctx.set(port.adr, address)
    ctx.set(port.dat_w, word or 0)
    ctx.set(port.sel, 0xF)
    ctx.set(port.we, word is not None)
    ctx.set(port.cyc, 1)
    ctx.set(port.stb, 1)
    *_, ack, err, read = await ctx.tick().sample(port.ack, port.err, port.dat_r)
    while not ack and not err:
        *_, ack, err, read = await ctx.tick().sample(port.ack, port.err, port.dat_r)
    ctx.set(port.cyc, 0)
    ctx.set(port.stb, 0)
    assert ack != err
    return bool(ack), read


def test_the_last_part_loads_a_word_and_a_busy_overlay_refuses_it():
    dut = ImageWindow(shape=data.StructLayout({"low": 40, "high": 30}))
    loaded = []

    async def watch(ctx):
        async for _, _, valid, payload in ctx.tick().sample(dut.load.valid, dut.load.payload):
            if valid:
                loaded.append((payload.low, payload.high))

    async def script(ctx):
        ctx.set(dut.load.ready, 1)
        for words in ((1, 2, 3, 0), (5, 0x106, 7, 0)):
            for k, word in enumerate(words):
                assert (await transfer(ctx, dut.bus, 4 + k, word))[0]
        assert not (await transfer(ctx, dut.bus, 0))[0]
        ctx.set(dut.load.ready, 0)
        assert not (await transfer(ctx, dut.bus, 3, 1))[0]
        await ctx.tick().repeat(3)

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_process(watch)
    sim.add_testbench(script)
    sim.run_until(2e-4)
    whole = [sum(w << 32 * k for k, w in enumerate(ws)) for ws in ((1, 2, 3), (5, 0x106, 7))]
    assert loaded == [(w & (1 << 40) - 1, w >> 40 & (1 << 30) - 1) for w in whole]


def test_a_value_is_read_by_pe_address_and_part():
    dut = ValuesWindow(shape=data.StructLayout({"pe": 2, "address": 3}), width=64)
    asked = []

    async def answer(ctx):
        while True:
            *_, valid, at = await ctx.tick().sample(dut.look.valid, dut.look.payload)
            if valid:
                asked.append((at.pe, at.address))
                await ctx.tick().repeat(2)
                ctx.set(dut.data, 0x1111_0000_2222_0000 + at.pe * 16 + at.address)
                ctx.set(dut.valid, 1)
                await ctx.tick()
                ctx.set(dut.valid, 0)

    read = []

    async def script(ctx):
        ctx.set(dut.look.ready, 1)
        words = [(2 << 3 | 5) << 1 | part for part in (0, 1)]
        read.extend([await transfer(ctx, dut.bus, word) for word in words])
        assert not (await transfer(ctx, dut.bus, 0, 1))[0]
        ctx.set(dut.look.ready, 0)
        assert not (await transfer(ctx, dut.bus, 0))[0]

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_process(answer)
    sim.add_testbench(script)
    sim.run_until(2e-4)
    assert read == [(True, 0x2222_0025), (True, 0x1111_0000)]
    assert asked == [(2, 5), (2, 5)]
