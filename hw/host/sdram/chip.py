"""A chip in simulation: it holds data, and sees which rule of its data sheet is broken."""

from itertools import count

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ....machine.sdram import ALL_BANKS, COLUMN_BITS, RULES, SDRAM, Command, Sdram
from ...ram import read_port, write_port
from .pins import Pins

POSTPONED = 8
"""Refreshes that may be due at a time."""
OLD = 255
"""Cycles after which it is no longer counted how long ago a command was."""


class Chip(wiring.Component):
    """A synchronous DRAM with as much memory as a simulation needs.

    Parameters
    ----------
    chip : Sdram
        Of a latency of 2 or more.
    clock_mhz : float
    words : int
        Of 16 bits, a power of two; what lies above is not there.

    Members
    -------
    pins : In(Pins(chip))
    broken : Out(range(len(RULES)))
        The number of the first rule that was broken, from the next cycle on.

    Timing
    ------
    Of `READ` in c the data are on ``dq_i`` in c + cas_latency - 1.
    """

    def __init__(self, *, chip: Sdram = SDRAM, clock_mhz: float = 25.0, words: int):
        if chip.cas_latency < 2:
            raise ValueError(f"CAS latency must be at least 2, not {chip.cas_latency}")
        self.chip = chip
        self.period = 1000 / clock_mhz
        self.words = words
        super().__init__({"pins": In(Pins(chip)), "broken": Out(range(len(RULES)))})

    def elaborate(self, platform):
        m = Module()
        banks = 1 << self.chip.bank_bits
        opened = Array(Signal(name=f"opened{k}") for k in range(banks))
        rows = Array(Signal(self.chip.row_bits, name=f"row{k}") for k in range(banks))
        found = [
            *self._start(m, opened),
            *self._rows(m, opened, rows),
            *self._columns(m, opened, rows),
        ]
        for broken, rule in found:
            with m.If(broken & (self.broken == 0)):
                m.d.sync += self.broken.eq(RULES.index(rule))
        return m

    def _least(self, ns: float) -> int:
        """The fewest cycles that last so long."""
        return next(n for n in count(1) if n * self.period > ns - 1e-6)

    def _is(self, command: Command) -> Value:
        return self.pins.command == command

    @staticmethod
    def _since(m: Module, name: str, event: Value) -> Signal:
        """Cycles since something was."""
        age = Signal(range(OLD + 1), name=f"since_{name}", init=OLD)
        with m.If(event):
            m.d.sync += age.eq(1)
        with m.Elif(age != OLD):
            m.d.sync += age.eq(age + 1)
        return age

    def _start(self, m: Module, opened: Array) -> list[tuple[Value, str]]:
        """Power-up, mode and refreshes."""
        chip = self.chip
        any_command = ~self._is(Command.NOTHING)
        dark = self._least(1000 * chip.power_up_us)
        on = Signal(range(dark + 1))
        closed = Signal()
        refreshed = Signal(range(chip.refreshes + 1))
        ready = Signal()
        due_every = int(1000 * chip.refresh_us / self.period)
        until_due = Signal(range(due_every), init=due_every - 1)
        owed = Signal(range(POSTPONED + 2))
        m.d.sync += until_due.eq(Mux(until_due == 0, due_every - 1, until_due - 1))
        with m.If(on != dark):
            m.d.sync += on.eq(on + 1)
        with m.If(self._is(Command.PRECHARGE) & self.pins.a[ALL_BANKS]):
            m.d.sync += closed.eq(1)
        with m.If(self._is(Command.REFRESH) & closed & (refreshed != chip.refreshes)):
            m.d.sync += refreshed.eq(refreshed + 1)
        with m.If(self._is(Command.MODE)):
            m.d.sync += ready.eq(refreshed == chip.refreshes)
        with m.If(ready):
            more = (until_due == 0) & (owed <= POSTPONED)
            fewer = self._is(Command.REFRESH) & (owed != 0)
            m.d.sync += owed.eq(owed + more - fewer)
        since_refresh = self._since(m, "refresh", self._is(Command.REFRESH))
        since_mode = self._since(m, "mode", self._is(Command.MODE))
        busy = Cat(opened).any()
        setting = self._is(Command.REFRESH) | self._is(Command.MODE)
        uses = self._is(Command.ACTIVATE) | self._is(Command.READ) | self._is(Command.WRITE)
        return [
            (any_command & (on != dark), "power-up"),
            (uses & ~ready, "initialisation"),
            (self._is(Command.MODE) & (self.pins.a != chip.mode), "mode"),
            (any_command & (since_refresh < self._least(chip.t_rfc)), "tRFC"),
            (any_command & (since_mode < chip.mode_cycles), "tMRD"),
            (owed > POSTPONED, "refresh interval"),
            (setting & busy, "a row is open"),
        ]

    def _rows(self, m: Module, opened: Array, rows: Array) -> list[tuple[Value, str]]:
        """Rows that are opened and closed."""
        chip = self.chip
        pins = self.pins
        activates = self._is(Command.ACTIVATE)
        since_any = self._since(m, "activate", activates)
        found = [(activates & (since_any < self._least(chip.t_rrd)), "tRRD")]
        refreshes = self._is(Command.REFRESH) | self._is(Command.MODE)
        for bank, is_open in enumerate(opened):
            here = pins.ba == bank
            closes = self._is(Command.PRECHARGE) & (here | pins.a[ALL_BANKS])
            opens = activates & here
            columns = (self._is(Command.READ) | self._is(Command.WRITE)) & here
            writes = self._is(Command.WRITE) & here
            since_open = self._since(m, f"open{bank}", opens)
            since_close = self._since(m, f"close{bank}", closes)
            since_write = self._since(m, f"write{bank}", writes)
            with m.If(opens):
                m.d.sync += [is_open.eq(1), rows[bank].eq(pins.a)]
            with m.If(closes):
                m.d.sync += is_open.eq(0)
            found += [
                (opens & is_open, "a row is open"),
                (columns & ~is_open, "no row is open"),
                (opens & (since_open < self._least(chip.t_rc)), "tRC"),
                ((opens | refreshes) & (since_close < self._least(chip.t_rp)), "tRP"),
                (columns & (since_open < self._least(chip.t_rcd)), "tRCD"),
                (closes & is_open & (since_open < self._least(chip.t_ras)), "tRAS"),
                (closes & is_open & (since_write < chip.write_recovery), "write recovery"),
            ]
        return found

    def _columns(self, m: Module, opened: Array, rows: Array) -> list[tuple[Value, str]]:
        """Data that are read and written."""
        chip = self.chip
        pins = self.pins
        m.submodules.memory = memory = Memory(shape=COLUMN_BITS, depth=self.words, init=[])
        write = write_port(memory, "write", granularity=8)
        read = read_port(memory, "read")
        reads = self._is(Command.READ)
        writes = self._is(Command.WRITE)
        at = Signal(chip.bank_bits + chip.row_bits + chip.col_bits)
        m.d.comb += [
            at.eq(Cat(pins.a[: chip.col_bits], pins.ba, rows[pins.ba])),
            write.addr.eq(at),
            write.data.eq(pins.dq_o),
            write.en.eq(Mux(writes, ~pins.dqm, 0)),
            read.addr.eq(at),
            read.en.eq(1),
        ]
        data = read.data
        drives = Signal()
        m.d.sync += drives.eq(reads)
        for k in range(chip.cas_latency - 2):
            later = Signal(COLUMN_BITS, name=f"data{k}")
            driven = Signal(name=f"drives{k}")
            m.d.sync += [later.eq(data), driven.eq(drives)]
            data = later
            drives = driven
        drove = Signal()
        m.d.sync += drove.eq(drives)
        m.d.comb += pins.dq_i.eq(Mux(drives, data, 0))
        return [
            ((writes != pins.dq_oe) | (pins.dq_oe & (drives | drove)), "data pins"),
            ((reads | writes) & (at >> ceil_log2(self.words) != 0), "address"),
            (reads & (pins.dqm != 0), "data pins"),
        ]
