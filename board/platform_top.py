"""A board's top for its platform: the design's module on its clock and serial line."""

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)

from .platforms import Platform

__all__ = ["PlatformTop"]

SLOW_LOOP_MHZ = 600.0
"""Of a PLL's oscillator; 400 to 800 are allowed."""


class PlatformTop(Elaboratable):
    """What amaranth-boards builds.

    Parameters
    ----------
    module : str
        Name of the module with ``clk``, ``rst``, ``rx``, ``tx`` and ``busy``.
    board : Platform
        Its clocks.

    """

    def __init__(self, module: str, board: Platform):
        self.module = module
        self.board = board

    def elaborate(self, platform):
        m = Module()
        if self.board.clock_mhz != self.board.oscillator_mhz:
            self._divide(m, platform)
        uart = platform.request("uart", 0)
        busy = Signal()
        m.submodules.board = Instance(
            self.module,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(allow_reset_less=True),
            i_rx=uart.rx.i,
            o_tx=uart.tx.o,
            o_busy=busy,
        )
        return m

    def _divide(self, m: Module, platform) -> None:
        """The design's clock by a PLL, and its reset until that runs."""
        board = self.board
        fast = platform.request(platform.default_clk, 0)
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
            p_CLKOP_DIV=int(SLOW_LOOP_MHZ / board.oscillator_mhz),
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=int(SLOW_LOOP_MHZ / board.clock_mhz),
            i_CLKI=fast.i,
            i_CLKFB=feedback,
            o_CLKOP=feedback,
            o_CLKOS=clock,
            o_LOCK=locked,
        )
        platform.add_clock_constraint(clock, board.clock_mhz * 1e6)
        m.d.comb += [ClockSignal().eq(clock), ResetSignal().eq(~locked)]
