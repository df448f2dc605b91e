"""A board's top for its platform: the design's module on its clock and serial line."""

import math

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import io

from ..machine.errors import PenstockError
from .platforms import Platform

SLOW_LOOP_MHZ = 600.0
"""Frequency of a PLL's oscillator; 400 to 800 are allowed."""


def pll_divisor(mhz: float) -> int:
    """Cycles of a PLL's oscillator in one of a clock.

    Raises
    ------
    PenstockError
        They are no whole number.
    """
    divisor = round(SLOW_LOOP_MHZ / mhz)
    if not math.isclose(divisor * mhz, SLOW_LOOP_MHZ, rel_tol=1e-6):
        raise PenstockError(
            f"{mhz:g} MHz does not divide {SLOW_LOOP_MHZ:g} MHz, which its PLL runs at",
            "board",
            remedy=f"use {SLOW_LOOP_MHZ / divisor:g} MHz",
        )
    return divisor


class PlatformTop(Elaboratable):
    """The design that amaranth-boards builds.

    Parameters
    ----------
    module : str
        Name of the module with ``clk``, ``rst``, ``rx``, ``tx`` and ``busy``.
    board : Platform
        Its clocks.
    sdram : bool
        The module has the pins of an SDRAM.
    """

    def __init__(self, module: str, board: Platform, *, sdram: bool = False):
        self.module = module
        self.board = board
        self.sdram = sdram

    def elaborate(self, platform):
        m = Module()
        if self.board.clock_mhz != self.board.oscillator_mhz:
            self._divide(m, platform)
        uart = _ports(platform, "uart")
        m.submodules.rx = rx = io.Buffer("i", uart.rx)
        m.submodules.tx = tx = io.Buffer("o", uart.tx)
        busy = Signal()
        m.submodules.board = Instance(
            self.module,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(allow_reset_less=True),
            i_rx=rx.i,
            o_tx=tx.o,
            o_busy=busy,
            **(self._sdram(m, platform) if self.sdram else {}),
        )
        return m

    def _sdram(self, m: Module, platform) -> dict[str, Value]:
        """The module's ports of its SDRAM, on the pins of one that is always selected."""
        pins = _ports(platform, "sdram")
        outputs = {}
        for name in ("clk", "clk_en", "cs", "ras", "cas", "we", "a", "ba", "dqm"):
            m.submodules[f"sdram_{name}"] = buffer = io.Buffer("o", getattr(pins, name))
            outputs[name] = buffer.o
        m.submodules.sdram_dq = dq = io.Buffer("io", pins.dq)
        m.d.comb += [
            outputs["clk"].eq(~ClockSignal()),
            outputs["clk_en"].eq(1),
            outputs["cs"].eq(1),
        ]
        return {
            "o_sdram__command": Cat(outputs[name] for name in ("we", "cas", "ras")),
            "o_sdram__a": outputs["a"],
            "o_sdram__ba": outputs["ba"],
            "o_sdram__dqm": outputs["dqm"],
            "o_sdram__dq_o": dq.o,
            "o_sdram__dq_oe": dq.oe,
            "i_sdram__dq_i": dq.i,
        }

    def _divide(self, m: Module, platform) -> None:
        """The design's clock by a PLL, and its reset until that runs."""
        board = self.board
        m.submodules.oscillator = fast = io.Buffer(
            "i", platform.request(platform.default_clk, 0, dir="-")
        )
        clock = Signal()
        locked = Signal()
        feedback = Signal()
        m.domains.sync = ClockDomain()
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{board.oscillator_mhz:g}",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=1,
            p_CLKFB_DIV=1,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=pll_divisor(board.oscillator_mhz),
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=pll_divisor(board.clock_mhz),
            i_CLKI=fast.i,
            i_CLKFB=feedback,
            o_CLKOP=feedback,
            o_CLKOS=clock,
            o_LOCK=locked,
        )
        platform.add_clock_constraint(clock, board.clock_mhz * 1e6)
        m.d.comb += [ClockSignal().eq(clock), ResetSignal().eq(~locked)]


def _ports(platform, name: str):
    """The pins of a resource, without buffers."""
    parts = platform.lookup(name, 0).ios
    return platform.request(name, 0, dir={part.name: "-" for part in parts})
