"""The values of a dynamic PE's nodes."""

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import Memory as Spec
from ...noc.token import ram_attributes
from ...ram import read_port, write_port
from .layouts import due_layout, put_layout, result_layout


class Values(wiring.Component):
    """One write port, of the host and of the results; a read port for the generator, and with
    forwarding one for the near set.

    Parameters
    ----------
    node : Shape
        Of a local address.
    spec : Memory
        Of the memory ``value``: two copies with forwarding, else one.
    switches : bool
        Some results are not sent: a bit beside each value says so.
    probed : bool
        With it, the port ``probe`` shows every write.

    Members
    -------
    put : In(put_layout(spec))
        Loads a value, while idle.
    written : In(result_layout(node, width))
        A result.
    running : In(1)
        High during a run.
    look : In(node)
        Address to be read while idle.
    send : In(due_layout(node))
        A node that sends: its value is ``value`` from the next cycle on.
    fresh : In(1)
        The node that sends is the one of ``written``; only without forwarding. With it their
        addresses are compared.
    value, shut : Out(width), Out(1)
        What was read, for ``look`` or for ``send``; whether it is not sent.
    near, nearby : In(due_layout(node)), Out(width)
        The same for the near set; only with forwarding.
    probe : Out(put_layout(spec))
        Only if ``probed``: the write port.

    Timing
    ------
    A value that is written at c is read at c, and seen at c + 1. Source: docs/overlay.md section 3.
    """

    def __init__(self, *, node: Shape, spec: Spec, switches: bool = False, probed: bool = False):
        width = spec.layout.width
        self._near = spec.copies == 2
        self._probed = probed
        self._memory = Memory(shape=width, depth=spec.depth, init=[], attrs=ram_attributes(None))
        self._shut = None
        if switches:
            self._shut = Memory(shape=1, depth=spec.depth, init=[], attrs=ram_attributes(None))
        super().__init__(
            {
                "put": In(put_layout(spec)),
                "written": In(result_layout(node, width)),
                "running": In(1),
                "look": In(node),
                "send": In(due_layout(node)),
                "value": Out(width),
                "shut": Out(1),
                **(
                    {"near": In(due_layout(node)), "nearby": Out(width)}
                    if self._near
                    else {"fresh": In(1)}
                ),
                **({"probe": Out(put_layout(spec))} if probed else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = self._memory
        write = self._memory.write_port()
        read = self._memory.read_port(transparent_for=[write] if self._near else [])
        m.d.comb += [
            write.en.eq(self.put.valid),
            write.addr.eq(self.put.address),
            write.data.eq(self.put.data),
            read.addr.eq(Mux(self.running, self.send.node, self.look)),
            read.en.eq(~self.running | self.send.valid),
        ]
        self._shown(m, write, read, self.value)
        with m.If(self.written.valid):
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(self.written.node),
                write.data.eq(self.written.value),
            ]
        if self._shut is not None:
            m.submodules.shut_memory = self._shut
            put = write_port(self._shut, "put_shut")
            seen = read_port(self._shut, "seen", transparent_for=[put] if self._near else [])
            m.d.comb += [
                # expressions of its own, so that the ports of values keep their names
                put.en.eq(self.put.valid | self.written.valid),
                put.addr.eq(Mux(self.written.valid, self.written.node, self.put.address)),
                put.data.eq(self.written.valid & self.written.shut),
                seen.addr.eq(Mux(self.running, self.send.node, self.look)),
                seen.en.eq(~self.running | self.send.valid),
            ]
            self._shown(m, put, seen, self.shut)
        if self._probed:
            m.d.comb += [
                self.probe.valid.eq(write.en),
                self.probe.address.eq(write.addr),
                self.probe.data.eq(write.data),
            ]
        if self._near:
            near = self._memory.read_port(transparent_for=[write])
            m.d.comb += [
                near.addr.eq(self.near.node),
                near.en.eq(self.near.valid),
                self.nearby.eq(near.data),
            ]
        return m

    def _shown(self, m: Module, write: WritePort, read: ReadPort, shown: Signal) -> None:
        """A word that is read as it is written is passed on."""
        if self._near:
            m.d.comb += shown.eq(read.data)
            return
        passed = Signal(name=f"passed_{shown.name}")
        written = Signal.like(shown, name=f"written_{shown.name}")
        looked = self.put.valid & (self.put.address == self.look)
        with m.If(read.en):
            m.d.sync += [passed.eq(Mux(self.running, self.fresh, looked)), written.eq(write.data)]
        m.d.comb += shown.eq(Mux(passed, written, read.data))
