"""The controller of a synchronous DRAM: lines in, commands of the chip out."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....machine.beat import LINE_BYTES
from ....machine.limits import ADDRESS_BITS, PORT_BITS, TAG_BITS
from ....machine.sdram import ALL_BANKS, COLUMN_BITS, SDRAM, Command, Sdram
from ..block_ram import LinePort
from .pins import COLUMN_BYTES, Pins, bank_of, col_of, row_of
from .rows import Rows
from .upkeep import Countdown, Upkeep, cycles_of

OWNER = data.StructLayout({"port": PORT_BITS, "tag": TAG_BITS})
"""Whose a line is."""
READING = data.StructLayout({"valid": 1, "last": 1, "owner": OWNER})
"""A column on its way from the chip."""


class Controller(wiring.Component):
    """Lines of a chip, one after the other, in rows that stay open.

    Parameters
    ----------
    chip : Sdram
    clock_mhz : float
        Of the clock, by which times become cycles.
    line_bytes : int
        Of a line, a power of two from 4 on.

    Members
    -------
    port : In(LinePort(line_bytes))
        Answers come in the order of requests.
    pins : Out(Pins(chip))
    idle : Out(1)
        Nothing is asked for that has not been answered.

    Timing
    ------
    A line of n columns is n commands, in consecutive cycles. Of one that is taken in c and whose
    row is open, a read is answered in c + n + cas_latency + 2, a write in c + n + 1. Another row
    takes tRCD more, and tRP more where its bank has one open. Rows stay open until a refresh, which
    goes between lines. The next line is taken with the last command of the one before; a write
    after a read begins cas_latency later.
    """

    def __init__(
        self, *, chip: Sdram = SDRAM, clock_mhz: float = 25.0, line_bytes: int = LINE_BYTES
    ):
        if not isinstance(line_bytes, int) or line_bytes < 4 or line_bytes & (line_bytes - 1):
            raise ValueError(f"Bytes of a line must be a power of two from 4 on, not {line_bytes}")
        self.chip = chip
        self.clock_mhz = clock_mhz
        self.line_bytes = line_bytes
        self.columns = line_bytes // COLUMN_BYTES
        self._write = Signal()
        self._owner = Signal(OWNER)
        self._address = Signal(ADDRESS_BITS)
        self._data = Signal(8 * line_bytes)
        self._mask = Signal(line_bytes)
        self._column = Signal(range(self.columns))
        super().__init__(
            {"port": In(LinePort(line_bytes)), "pins": Out(Pins(chip)), "idle": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        command = Signal(3)
        moves = Signal()
        last = Signal()
        m.d.comb += [
            moves.eq((command == Command.READ) | (command == Command.WRITE)),
            last.eq(moves & (self._column == self.columns - 1)),
        ]
        busy = self._take(m, last)
        with m.If(moves):
            m.d.sync += self._column.eq(self._column + 1)
        stages = self._stages(m, command, last)
        drained = Signal()
        m.d.comb += drained.eq(~Cat(stage.valid for stage in stages[:-1]).any())
        self._decide(m, command, busy, drained)
        self._drive(m, command)
        self._answer(m, stages[-1], last & self._write)
        pending = Cat(stage.valid for stage in stages).any()
        m.d.comb += self.idle.eq(~busy & ~pending & ~self.port.rsp_valid)
        return m

    def _take(self, m: Module, last: Signal) -> Signal:
        """The line that is being done; whether there is one."""
        port = self.port
        busy = Signal()
        m.d.comb += port.req_ready.eq(~busy | last)
        with m.If(last):
            m.d.sync += busy.eq(0)
        with m.If(port.req_valid & port.req_ready):
            m.d.sync += [
                busy.eq(1),
                self._write.eq(port.req_write),
                self._owner.port.eq(port.req_port),
                self._owner.tag.eq(port.req_group),
                self._address.eq(port.req_addr),
                self._data.eq(port.req_data),
                self._mask.eq(port.req_mask),
            ]
        return busy

    def _decide(self, m: Module, command: Signal, busy: Signal, drained: Signal) -> None:
        """The command of this cycle: of the upkeep between two lines, or of the line."""
        chip = self.chip
        m.submodules.rows = rows = Rows(chip)
        m.submodules.upkeep = upkeep = Upkeep(chip=chip, clock_mhz=self.clock_mhz)
        to_row, to_column, to_close = self._waits(m, command)
        kept = Signal()
        m.d.comb += [
            kept.eq(upkeep.wanted & (self._column == 0)),
            upkeep.done.eq(kept & (command != Command.NOTHING)),
            rows.bank.eq(bank_of(chip, self._address)),
            rows.row.eq(row_of(chip, self._address)),
            rows.command.eq(command),
        ]
        with m.If(kept):
            closes = upkeep.command == Command.PRECHARGE
            with m.If(Mux(closes, to_close.done, to_row.done)):
                m.d.comb += command.eq(upkeep.command)
        with m.Elif(busy & rows.hit):
            with m.If(to_column.done & (drained | ~self._write)):
                m.d.comb += command.eq(Mux(self._write, Command.WRITE, Command.READ))
        with m.Elif(busy & rows.open):
            with m.If(to_close.done):
                m.d.comb += command.eq(Command.PRECHARGE)
        with m.Elif(busy & to_row.done):
            m.d.comb += command.eq(Command.ACTIVATE)
        with m.Switch(command):
            with m.Case(Command.ACTIVATE):
                m.d.comb += rows.a.eq(rows.row)
            with m.Case(Command.READ, Command.WRITE):
                m.d.comb += rows.a.eq(col_of(chip, self._address) | self._column)
            with m.Case(Command.PRECHARGE):
                m.d.comb += rows.a.eq(kept << ALL_BANKS)
            with m.Case(Command.MODE):
                m.d.comb += rows.a.eq(chip.mode)
        m.d.sync += [self.pins.a.eq(rows.a), self.pins.ba.eq(Mux(kept, 0, rows.bank))]

    def _waits(self, m: Module, command: Signal) -> tuple[Countdown, Countdown, Countdown]:
        """Countdowns until a row may be opened or refreshed, a column accessed, a row closed."""
        chip = self.chip
        cycles = {
            name: cycles_of(getattr(chip, name), self.clock_mhz)
            for name in ("t_rcd", "t_rp", "t_ras", "t_rc", "t_rrd", "t_rfc")
        }
        longest = max(*cycles.values(), chip.write_recovery, chip.mode_cycles)
        m.submodules.to_row = to_row = Countdown(longest)
        m.submodules.to_column = to_column = Countdown(longest)
        m.submodules.to_close = to_close = Countdown(longest)
        with m.Switch(command):
            with m.Case(Command.ACTIVATE):
                m.d.comb += [
                    to_row.cycles.eq(max(cycles["t_rc"], cycles["t_rrd"])),
                    to_column.cycles.eq(cycles["t_rcd"]),
                    to_close.cycles.eq(cycles["t_ras"]),
                ]
            with m.Case(Command.WRITE):
                m.d.comb += to_close.cycles.eq(chip.write_recovery)
            with m.Case(Command.PRECHARGE):
                m.d.comb += to_row.cycles.eq(cycles["t_rp"])
            with m.Case(Command.REFRESH):
                m.d.comb += to_row.cycles.eq(cycles["t_rfc"])
            with m.Case(Command.MODE):
                m.d.comb += to_row.cycles.eq(chip.mode_cycles)
        return to_row, to_column, to_close

    def _drive(self, m: Module, command: Signal) -> None:
        """The command, and the data of a write."""
        pins = self.pins
        writes = Signal()
        m.d.comb += writes.eq(command == Command.WRITE)
        mask = self._mask.word_select(self._column, COLUMN_BYTES)
        m.d.sync += [
            pins.command.eq(command),
            pins.dq_oe.eq(writes),
            pins.dq_o.eq(self._data.word_select(self._column, COLUMN_BITS)),
            pins.dqm.eq(Mux(writes, ~mask, 0)),
        ]

    def _stages(self, m: Module, command: Signal, last: Signal) -> list[Signal]:
        """Columns that are being read, from the command on: on the pins, in the chip, captured."""
        stages = [Signal(READING, name=f"reading{k}") for k in range(self.chip.cas_latency + 1)]
        m.d.sync += [
            stages[0].valid.eq(command == Command.READ),
            stages[0].last.eq(last),
            stages[0].owner.eq(self._owner),
        ]
        for before, stage in pairwise(stages):
            m.d.sync += stage.eq(before)
        return stages

    def _answer(self, m: Module, arrived, written) -> None:
        """A line that has been read or written."""
        port = self.port
        captured = Signal(COLUMN_BITS)
        m.d.sync += [
            captured.eq(self.pins.dq_i),
            port.rsp_valid.eq((arrived.valid & arrived.last) | written),
            port.rsp_port.eq(Mux(written, self._owner.port, arrived.owner.port)),
            port.rsp_tag.eq(Mux(written, self._owner.tag, arrived.owner.tag)),
        ]
        with m.If(arrived.valid):
            m.d.sync += port.rsp_data.eq(Cat(port.rsp_data[COLUMN_BITS:], captured))
