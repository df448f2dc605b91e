"""Bridge from a design's memory port to AXI4."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from ...machine.limits import ADDRESS_BITS, PORT_BITS, TAG_BITS
from .block_ram import LinePort

WIDTHS = (32, 64, 128, 256, 512)
"""Bits of data."""

INCR = 1


class Axi(wiring.Signature):
    """AXI4 seen from the manager, with one ID; names are the standard's.

    Parameters
    ----------
    bits : int
        Of data: a power of two from 32 to 512.
    """

    def __init__(self, bits: int):
        if bits not in WIDTHS:
            raise ValueError(f"Bits of data must be a power of two from 32 to 512, not {bits!r}")
        self.bits = bits
        burst = {
            "id": Out(1),
            "addr": Out(ADDRESS_BITS),
            "len": Out(8),
            "size": Out(3),
            "burst": Out(2),
            "lock": Out(1),
            "cache": Out(4),
            "prot": Out(3),
            "valid": Out(1),
            "ready": In(1),
        }
        written = {"data": Out(bits), "strb": Out(bits // 8), "last": Out(1)}
        written |= {"valid": Out(1), "ready": In(1)}
        answer = {"id": In(1), "resp": In(2), "valid": In(1), "ready": Out(1)}
        read = {"data": In(bits), "last": In(1), **answer}
        channels = {"aw": burst, "w": written, "b": answer, "ar": burst, "r": read}
        super().__init__(
            {f"{c}{name}": port for c, ports in channels.items() for name, port in ports.items()}
        )


class AxiMemory(wiring.Component):
    """Reads and writes lines over AXI4: a burst a line, several of them outstanding.

    Parameters
    ----------
    bits : int
        Of data, at most a line's.
    line_bytes : int
        Of each line.
    outstanding : int
        Most reads, and most writes, that are on their way: a power of two.

    Members
    -------
    design : In(LinePort())
        Behind a :class:`~penstock.hw.host.guard.Guard`, which keeps old lines from a design that
        was reset.
    axi : Out(Axi(bits))
    error : Out(1)
        High for a cycle for each response that tells an error: a beat of a read, or that of a
        write. Two in one cycle are told as one.

    Timing
    ------
    A request is taken while its channel's register is free. A read waits for writes of its line
    that are on their way, and a write for reads: AXI4 keeps no order between them. A line is
    delivered in the cycle after its last beat. Responses of writes wait for those of reads.
    """

    def __init__(self, *, bits: int = 128, outstanding: int = 8, line_bytes: int = LINE_BYTES):
        if not isinstance(outstanding, int) or outstanding < 2 or outstanding & (outstanding - 1):
            raise ValueError(
                f"Lines outstanding must be a power of two from 2 on, not {outstanding!r}"
            )
        self.bits = bits
        if bits > 8 * line_bytes:
            raise ValueError(f"Bits of data must be at most {8 * line_bytes}, not {bits!r}")
        self.line_bytes = line_bytes
        self.beats = 8 * line_bytes // bits
        self.outstanding = outstanding
        super().__init__(
            {"design": In(LinePort(line_bytes)), "axi": Out(Axi(bits)), "error": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        design = self.design
        axi = self.axi
        bits = ADDRESS_BITS - (self.line_bytes - 1).bit_length()
        m.submodules.reads = reads = _Pending(entries=self.outstanding, bits=bits)
        m.submodules.writes = writes = _Pending(entries=self.outstanding, bits=bits)
        line = design.req_addr[-bits:]
        name = Cat(design.req_group, design.req_port)
        takes_read = Signal()
        takes_write = Signal()
        m.d.comb += [
            reads.line.eq(line),
            writes.line.eq(line),
            reads.name.eq(name),
            writes.name.eq(name),
            reads.add.eq(takes_read & design.req_valid),
            writes.add.eq(takes_write & design.req_valid),
            design.req_ready.eq(takes_read | takes_write),
            takes_read.eq(
                ~design.req_write & reads.free & ~writes.has & (~axi.arvalid | axi.arready)
            ),
        ]
        for channel in ("aw", "ar"):
            m.d.comb += [
                getattr(axi, f"{channel}len").eq(self.beats - 1),
                getattr(axi, f"{channel}size").eq((self.bits // 8 - 1).bit_length()),
                getattr(axi, f"{channel}burst").eq(INCR),
                getattr(axi, f"{channel}cache").eq(0b0011),  # normal, not cached, buffered
            ]
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(reads.add):
            m.d.sync += [axi.arvalid.eq(1), axi.araddr.eq(design.req_addr)]
        m.d.comb += takes_write.eq(self._write(m, writes.add) & writes.free & ~reads.has)
        self._deliver(m, reads, writes)
        return m

    def _write(self, m: Module, add: Signal) -> Signal:
        """The channels of a write's address and data; whether both take another."""
        design = self.design
        axi = self.axi
        data = Signal(8 * self.line_bytes)
        mask = Signal(self.line_bytes)
        left = Signal(range(self.beats + 1))
        free = Signal()
        m.d.comb += [
            free.eq(
                design.req_write
                & (~axi.awvalid | axi.awready)
                & ((left == 0) | ((left == 1) & axi.wready))
            ),
            axi.wvalid.eq(left != 0),
            axi.wlast.eq(left == 1),
            axi.wdata.eq(data[: self.bits]),
            axi.wstrb.eq(mask[: self.bits // 8]),
        ]
        with m.If(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += [
                left.eq(left - 1),
                data.eq(data >> self.bits),
                mask.eq(mask >> self.bits // 8),
            ]
        with m.If(add):
            m.d.sync += [
                axi.awvalid.eq(1),
                axi.awaddr.eq(design.req_addr),
                data.eq(design.req_data),
                mask.eq(design.req_mask),
                left.eq(self.beats),
            ]
        return free

    def _deliver(self, m: Module, reads: "_Pending", writes: "_Pending") -> None:
        """Lines of bursts, and acknowledgements, by the names of their requests."""
        design = self.design
        axi = self.axi
        line = Signal(8 * self.line_bytes)
        whole = Signal()
        read = Signal()
        wrong = Signal()
        m.d.comb += [
            axi.rready.eq(1),
            read.eq(axi.rvalid & axi.rlast),
            axi.bready.eq(~read),
            reads.remove.eq(read),
            writes.remove.eq(axi.bvalid & axi.bready),
            wrong.eq((axi.rvalid & axi.rresp[1]) | (axi.bvalid & axi.bready & axi.bresp[1])),
            design.rsp_valid.eq(whole),
            design.rsp_data.eq(line),
        ]
        m.d.sync += [
            whole.eq(read | writes.remove),
            Cat(design.rsp_tag, design.rsp_port).eq(Mux(read, reads.oldest, writes.oldest)),
            self.error.eq(wrong),
        ]
        with m.If(axi.rvalid):
            m.d.sync += line.eq(Cat(line, axi.rdata)[self.bits :])


class _Pending(wiring.Component):
    """Requests on their way, in order; a line's number has ``bits``.

    Members
    -------
    add, remove : In(1)
        One more, of ``line`` and ``name``; the oldest is answered.
    free : Out(1)
        There is room.
    has : Out(1)
        One of them is of ``line``.
    oldest : Out(...)
        Its name.
    """

    def __init__(self, *, entries: int, bits: int):
        self.entries = entries
        super().__init__(
            {
                "add": In(1),
                "remove": In(1),
                "line": In(bits),
                "name": In(PORT_BITS + TAG_BITS),
                "free": Out(1),
                "has": Out(1),
                "oldest": Out(PORT_BITS + TAG_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.names = names = SyncFIFO(width=len(self.name), depth=self.entries)
        head = Signal(range(self.entries))
        tail = Signal(range(self.entries))
        valid = Signal(self.entries)
        m.d.comb += [
            names.w_data.eq(self.name),
            names.w_en.eq(self.add),
            names.r_en.eq(self.remove),
            self.free.eq(names.w_rdy),
            self.oldest.eq(names.r_data),
        ]
        same = Signal(self.entries)
        for k in range(self.entries):
            line = Signal(len(self.line), name=f"line{k}")
            with m.If(self.add & (tail == k)):
                m.d.sync += line.eq(self.line)
            m.d.comb += same[k].eq(valid[k] & (line == self.line))
        m.d.comb += self.has.eq(same.any())
        m.d.sync += [
            head.eq(head + self.remove),
            tail.eq(tail + self.add),
            valid.eq((valid & ~Mux(self.remove, 1 << head, 0)) | Mux(self.add, 1 << tail, 0)),
        ]
        return m
