"""Bridge from AXI4-Lite to the bus within a board."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .wishbone import Wishbone

OKAY = 0
SLVERR = 2


class AxiLite(wiring.Signature):
    """AXI4-Lite of 32 bits, seen from the manager; names are the standard's."""

    def __init__(self):
        address = {"addr": Out(32), "prot": Out(3), "valid": Out(1), "ready": In(1)}
        written = {"data": Out(32), "strb": Out(4), "valid": Out(1), "ready": In(1)}
        answer = {"resp": In(2), "valid": In(1), "ready": Out(1)}
        channels = {"aw": address, "w": written, "b": answer, "ar": address}
        channels["r"] = {"data": In(32), **answer}
        super().__init__(
            {f"{c}{name}": port for c, ports in channels.items() for name, port in ports.items()}
        )


class AxiLiteBridge(wiring.Component):
    """Does AXI4-Lite transfers on a Wishbone bus, one at a time.

    Members
    -------
    axil : In(AxiLite())
    bus : Out(Wishbone())

    Timing
    ------
    A read's address, or a write's address and data, are taken together in one cycle; the transfer
    begins in the next. Where both wait, reads and writes take turns. A transfer that ends with
    ``err`` is answered by SLVERR; a write without a byte is none, and answered by OKAY.
    """

    def __init__(self):
        super().__init__({"axil": In(AxiLite()), "bus": Out(Wishbone())})

    def elaborate(self, platform):
        m = Module()
        axil = self.axil
        bus = self.bus
        write_waits = Signal()
        reads = Signal()
        turn = Signal()  # of writes, where both wait
        m.d.comb += [
            write_waits.eq(axil.awvalid & axil.wvalid),
            reads.eq(axil.arvalid & ~(write_waits & turn)),
        ]
        with m.FSM(name="bridge"):
            with m.State("IDLE"):
                m.d.comb += [
                    axil.arready.eq(reads),
                    axil.awready.eq(write_waits & ~reads),
                    axil.wready.eq(write_waits & ~reads),
                ]
                m.d.sync += [
                    bus.we.eq(~reads),
                    bus.adr.eq(Mux(reads, axil.araddr, axil.awaddr) >> 2),
                    bus.dat_w.eq(axil.wdata),
                    bus.sel.eq(Mux(reads, 0b1111, axil.wstrb)),
                ]
                with m.If(reads | write_waits):
                    m.d.sync += turn.eq(reads)
                    m.next = "TRANSFER"
                with m.If(~reads & write_waits & (axil.wstrb == 0)):
                    m.d.sync += axil.bresp.eq(OKAY)
                    m.next = "ANSWER"
            with m.State("TRANSFER"):
                m.d.comb += [bus.cyc.eq(1), bus.stb.eq(1)]
                m.d.sync += [
                    axil.rdata.eq(bus.dat_r),
                    axil.rresp.eq(Mux(bus.err, SLVERR, OKAY)),
                    axil.bresp.eq(Mux(bus.err, SLVERR, OKAY)),
                ]
                with m.If(bus.ack | bus.err):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [axil.bvalid.eq(bus.we), axil.rvalid.eq(~bus.we)]
                with m.If(Mux(bus.we, axil.bready, axil.rready)):
                    m.next = "IDLE"
        return m
