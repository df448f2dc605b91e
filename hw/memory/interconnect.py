"""Interconnect from the off-chip ports of the units to the one DRAM, and back."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...machine.config import Machine
from ...machine.faults import Fault
from ...machine.limits import ADDRESS_BITS, PORT_BITS, PORTS, TAG_BITS
from ..export.module_key import module_key
from ..export.place import place
from .arbiter import Arbiter
from .port import ReadPort, WritePort
from .ring import Ring


class Interconnect(wiring.Component):
    """Grants one chunk a cycle to the DRAM and gives each port its lines in order.

    Parameters
    ----------
    ports : sequence of str
        ``read`` or ``write`` for each port, in order of need; a port's index is its id on the wire.
    config : Machine
        ``port_lanes`` W, ``load_lines``, ``arbitration``, ``dram``.
    tags : sequence of int
        For each port, the tags of a write port; 1 by default.
    ordered : bool
        Whether registers say which port has which id; then ``ports`` are in any order.

    Members
    -------
    order : In(data.ArrayLayout(range(ports), ports))
        The port that has each id; a permutation, constant while lines move. Only where ordered.
    port0, port1, ... : In(ReadPort(W)) for ``read``, In(WritePort(W, N)) for ``write``
    mem_req_valid : Out(W)
        Lines that reach the DRAM in this cycle; all of one chunk.
    mem_req_write, mem_req_port, mem_req_group : Out(1), Out(PORT_BITS), Out(TAG_BITS)
        The chunk's kind, port and ring group (its tag for a write); a line's tag is ``group * W +
        lane``.
    mem_req_addr, mem_req_data, mem_req_mask : Out(W * 32), Out(W * 8 B), Out(W * B)
        Byte address, write data and byte mask of each line, of B bytes.
    mem_req_ready : In(1, init=1)
        The chunk on ``mem_req_*`` is taken in this cycle; else it stays. May be low in any cycle.
    mem_rsp_valid, mem_rsp_port, mem_rsp_tag, mem_rsp_data : In(N), In(N * PORT_BITS), In(N *
        TAG_BITS), In(N * 8 B) Lines and acknowledgements delivered in this cycle, in any order.
    error : Out(8)
        Bit ``Fault.STRAY`` in the cycle in which a line comes that no read waits for (a store
        checks its own).

    Timing
    ------
    A chunk presented in c may be granted in c and is then on ``mem_req_*`` from c + 1 until it is
    taken. In a cycle in which one waits there, none is granted. A line delivered in d is visible to
    its port from d + 1. The paths from a unit's request and from ``mem_req_ready`` through the
    arbiter to a unit's ``ready`` are combinational. Source: docs/timing.md section 5, ``load``,
    rules 1 to 3.
    """

    def __init__(
        self,
        *,
        ports: Sequence[str],
        config: Machine,
        tags: Sequence[int] = (),
        ordered: bool = False,
    ):
        for direction in ports:
            if direction not in ("read", "write"):
                raise ValueError(
                    f"Direction of a port must be 'read' or 'write', not {direction!r}"
                )
        if not ports or len(ports) not in PORTS:
            raise ValueError(f"Number of ports must be from 1 to {PORTS[-1]}, not {len(ports)!r}")
        self.directions = tuple(ports)
        self.config = config
        self.tags = tuple(tags) or (1,) * len(ports)
        self.responses = config.response_lanes
        self._widths = widths = config.widths
        w = config.port_lanes
        n = self.responses
        members = {
            f"port{p}": In(
                ReadPort(w, widths)
                if direction == "read"
                else WritePort(w, widths, n, self.tags[p])
            )
            for p, direction in enumerate(ports)
        }
        self._ordered = bool(ordered) and len(ports) > 1
        if self._ordered:
            members["order"] = In(data.ArrayLayout(range(len(ports)), len(ports)))
        super().__init__(
            {
                **members,
                "mem_req_valid": Out(w),
                "mem_req_write": Out(1),
                "mem_req_port": Out(PORT_BITS),
                "mem_req_group": Out(TAG_BITS),
                "mem_req_addr": Out(data.ArrayLayout(ADDRESS_BITS, w)),
                "mem_req_data": Out(data.ArrayLayout(widths.line, w)),
                "mem_req_mask": Out(data.ArrayLayout(widths.line // 8, w)),
                "mem_req_ready": In(1, init=1),
                "mem_rsp_valid": In(n),
                "mem_rsp_port": In(data.ArrayLayout(PORT_BITS, n)),
                "mem_rsp_tag": In(data.ArrayLayout(TAG_BITS, n)),
                "mem_rsp_data": In(data.ArrayLayout(widths.line, n)),
                "error": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.port_lanes
        ports = [getattr(self, f"port{p}") for p in range(len(self.directions))]

        m.submodules.arbiter = arbiter = Arbiter(clients=len(ports), policy=self.config.arbitration)
        address = Signal(self._widths.address)
        pitch = Signal(self._widths.address)
        mask = Signal(lanes)
        group = Signal.like(self.mem_req_group)
        moves = Signal()  # nothing waits at mem_req_*
        m.d.comb += moves.eq(~self.mem_req_valid.any() | self.mem_req_ready)
        requests = Cat(port.request.valid & moves for port in ports)
        granted, grant = self._permuted(m, arbiter, requests)
        with m.If(moves):
            with m.Switch(granted):
                for p, port in enumerate(ports):
                    with m.Case(p):
                        chunk = port.request.payload
                        m.d.comb += [
                            address.eq(chunk.address),
                            pitch.eq(chunk.pitch),
                            mask.eq(chunk.mask),
                        ]
                        m.d.sync += self.mem_req_write.eq(self.directions[p] == "write")
                        if self.directions[p] == "write":
                            m.d.comb += group.eq(chunk.tag)
                            m.d.sync += [
                                self.mem_req_data.eq(chunk.data),
                                self.mem_req_mask.eq(chunk.bytes),
                            ]
            m.d.sync += [
                self.mem_req_valid.eq(Mux(arbiter.requests.any(), mask, 0)),
                self.mem_req_port.eq(arbiter.index),
                self.mem_req_group.eq(group),
            ]
            for lane in range(lanes):
                m.d.sync += self.mem_req_addr[lane].eq(address + pitch * lane)

        strays = []
        for p, port in enumerate(ports):
            m.d.comb += port.request.ready.eq(grant[p])
            mine = [self.mem_rsp_valid[n] & (self._answered(n) == p) for n in range(self.responses)]
            if self.directions[p] == "write":
                self._acknowledge(m, p, port, mine)
            else:
                strays.append(self._reorder(m, p, port, grant[p], mine))
        if strays:
            m.d.comb += self.error[Fault.STRAY].eq(Cat(strays).any())
        return m

    @property
    def hands_on(self) -> list[Signal]:
        """Lines: from the memory to the rings, from the rings to the ports."""
        groups = [
            getattr(self, f"port{p}").group.payload
            for p, direction in enumerate(self.directions)
            if direction == "read"
        ]
        lines = map(Value.cast, [self.mem_rsp_data, *groups])
        return [value for value in lines if isinstance(value, Signal)]

    def _permuted(self, m: Module, arbiter: Arbiter, requests: Value) -> tuple[Value, Value]:
        """Lets the arbiter see the requests by id; the port granted, and a bit for each port."""
        if not self._ordered:
            m.d.comb += arbiter.requests.eq(requests)
            return arbiter.index, arbiter.grant
        ports = range(len(self.directions))
        granted = Signal(range(len(ports)))
        m.d.comb += [
            arbiter.requests.eq(Cat(requests.bit_select(self.order[p], 1) for p in ports)),
            granted.eq(self.order[arbiter.index]),
        ]
        return granted, Cat(arbiter.requests.any() & (granted == p) for p in ports)

    def _answered(self, n: int) -> Value:
        """The port that response ``n`` is for."""
        return self.order[self.mem_rsp_port[n]] if self._ordered else self.mem_rsp_port[n]

    def _acknowledge(self, m: Module, p: int, port, mine: list[Value]) -> None:
        """Lines of a writing port that have been written, by tag; ``mine``: its responses."""
        if self.tags[p] == 1:
            m.d.comb += port.acks[0].eq(sum(mine))
            return
        lane_bits = (self.config.port_lanes - 1).bit_length()
        for tag in range(self.tags[p]):
            answers = zip(mine, self.mem_rsp_tag, strict=True)
            m.d.comb += port.acks[tag].eq(sum(x & (y >> lane_bits == tag) for x, y in answers))

    def _reorder(self, m: Module, p: int, port, grant: Value, mine: list[Value]) -> Value:
        """The lines of a loading port in the order of its requests; whether one is a stray."""
        lanes = self.config.port_lanes
        lane_bits = (lanes - 1).bit_length()
        sizes = {
            "groups": self.config.load_lines // lanes,
            "lanes": lanes,
            "responses": self.responses,
            "line": self._widths.line,
        }
        ring = Ring(**sizes)
        ring.arrived = self.mem_rsp_data
        ring.group.payload = port.group.payload
        m.submodules[f"ring{p}"] = place(ring, module_key("ring", sizes), f"ring{p}")
        m.d.comb += [
            ring.reserve.eq(grant),
            ring.mask.eq(port.request.payload.mask),
            port.free.eq(ring.free),
            port.group.valid.eq(ring.group.valid),
            ring.group.ready.eq(port.group.ready),
        ]
        with m.If(grant):
            m.d.sync += self.mem_req_group.eq(ring.tail)
        for n, line in enumerate(ring.arrivals):
            m.d.comb += [
                line.valid.eq(mine[n]),
                line.group.eq(self.mem_rsp_tag[n] >> lane_bits),
                line.lane.eq(self.mem_rsp_tag[n] & (lanes - 1)),
            ]
        return ring.stray
