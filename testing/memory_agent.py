"""The fast model's off-chip memory behind a design's memory ports, in a cocotb test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import cocotb

from ..machine.beat import fnv
from ..machine.config import Config, Machine
from ..machine.image import pack, unpack
from ..machine.limits import ADDRESS_BITS, PORT_BITS, TAG_BITS
from ..machine.unitgraph import UnitGraph
from ..model import dram
from ..model.dram_state import Dram, lines_bound, ranges
from .agents import Bench, bits

REQUEST = ("valid", "write", "port", "group", "addr", "data", "mask")


@dataclass
class Line:
    """A line that a port asks for."""

    port: int
    number: int  # among those of the port
    cycle: int  # of its grant: the one before the memory takes it
    address: int
    write: bool
    tag: int
    data: int = 0  # that is read
    digest: int = 0  # of what is written, as of :class:`~penstock.machine.trace.PortTrace`
    delivered: int = -1  # cycle


class MemoryAgent:
    """Off-chip memory of a design: the fast model's DRAM behind the ``mem_`` ports of docs/top.md.

    Parameters
    ----------
    bench
        Of the design.
    graph, config
        Unit graph and machine of the design.
    tensors
        Values of the input tensors.
    waits
        By cycle, repeated: whether the memory takes no request in it.
    limit
        Most lines in flight; those that the graph can have, if not given.
    callback
        Called at the end of each cycle: the lines that the memory takes in it, and those that it
        delivers in the next.

    Attributes
    ----------
    lines
        In the order of requests.
    image
        Bytes of the memory.

    Raises
    ------
    ValueError
        A port is missing, or is not as wide as this machine's; a limit of 0.
    """

    def __init__(
        self,
        bench: Bench,
        graph: UnitGraph,
        config: Config,
        tensors: Mapping[str, np.ndarray] | None = None,
        waits: Sequence[bool] = (),
        limit: int | None = None,
        callback: Callable[[int, list[Line], list[Line]], None] | None = None,
    ):
        machine = config.machine
        limit = lines_bound(graph, machine) if limit is None else limit
        if limit < 1:
            raise ValueError(f"limit of lines in flight must be at least 1, not {limit}")
        self._signals = _signals(bench.dut, machine)
        self.bench = bench
        self.graph = graph
        self.machine = machine
        self.waits = list(waits)
        self.callback = callback
        self.image = pack(graph, dict(tensors or {}))
        self.lines: list[Line] = []
        self._count = [0] * len(graph.ports)
        self._ranges = ranges(graph).tolist()
        self._dram = Dram(machine.dram, limit)
        self._reading: set[tuple[int, int]] = set()  # ports and tags
        self._waiting: tuple[int, ...] = ()
        self._signals["rsp_valid"].value = 0
        self._task = cocotb.start_soon(self._run())

    def stop(self) -> None:
        """Take and deliver nothing from now on."""
        self._task.cancel()
        self._signals["req_ready"].value = 0
        self._signals["rsp_valid"].value = 0

    def outputs(self) -> dict[str, np.ndarray]:
        """Output tensors by name."""
        return unpack(self.graph, self.image)

    async def _run(self) -> None:
        signals = self._signals
        while True:
            cycle = self.bench.cycle
            ready = not (self.waits and self.waits[cycle % len(self.waits)])
            signals["req_ready"].value = int(ready)
            await self.bench.edge
            chunk = self._chunk(cycle)
            taken = self._take(cycle, chunk) if chunk and ready else []
            self._waiting = () if ready else chunk
            due = self.deliver(cycle, taken)
            for name, values, width in (
                ("port", [x.port for x in due], PORT_BITS),
                ("tag", [x.tag for x in due], TAG_BITS),
                ("data", [x.data for x in due], 8 * self.machine.dram.line_bytes),
            ):
                if due:
                    joined = sum(x << k * width for k, x in enumerate(values))
                    signals[f"rsp_{name}"].value = joined
            signals["rsp_valid"].value = (1 << len(due)) - 1
            for line in due:
                line.delivered = cycle + 1
                self._reading.discard((line.port, line.tag))
            if self.callback:
                self.callback(cycle, taken, due)

    def _chunk(self, cycle: int) -> tuple[int, ...]:
        """Request in the cycle that ends; empty where there is none."""
        chunk = ()
        if bits(self.bench, self._signals["req_valid"]):
            write = bits(self.bench, self._signals["req_write"])
            names = REQUEST if write else REQUEST[:-2]
            chunk = tuple(bits(self.bench, self._signals[f"req_{x}"]) for x in names)
        if self._waiting:
            assert chunk == self._waiting, f"a request that waits changes in cycle {cycle}"
        return chunk

    def _take(self, cycle: int, chunk: tuple[int, ...]) -> list[Line]:
        """Lines of a request, read and written."""
        valid, write, port, group, addresses, *written = chunk
        assert port < len(self._count), f"a request of port {port} in cycle {cycle}"
        lanes = self.machine.port_lanes
        size = self.machine.dram.line_bytes
        first, end = self._ranges[port]
        taken = []
        for lane in range(lanes):
            if not valid >> lane & 1:
                continue
            address = _part(addresses, lane, ADDRESS_BITS)
            where = f"port {port} line {self._count[port]}: address {address:#x}"
            if address % size or not first <= address <= end - size:
                raise AssertionError(f"{where} in cycle {cycle} is no line of its tensor")
            line = Line(
                port, self._count[port], cycle - 1, address, bool(write), group * lanes + lane
            )
            place = self.image[address : address + size]
            if write:
                data, mask = (
                    _part(x, lane, n * size) for x, n in zip(written, (8, 1), strict=True)
                )
                _write(line, place, data, mask)
            else:
                assert (port, line.tag) not in self._reading, (
                    f"{where} in cycle {cycle}: tag {line.tag} is in use"
                )
                self._reading.add((port, line.tag))
                line.data = int.from_bytes(place.tobytes(), "little")
            self._count[port] += 1
            taken.append(line)
        return taken

    def deliver(self, cycle: int, taken: list[Line]) -> list[Line]:
        """Lines that are delivered in the next cycle; those taken in this one reach the DRAM."""
        ids = np.arange(len(taken)) + len(self.lines)
        self.lines += taken
        addresses = np.array([x.address for x in taken], np.int64)
        writes = np.array([x.write for x in taken], np.uint8)
        out = np.zeros(self.machine.response_lanes, np.int64)
        n = dram.step(self._dram.state, cycle, ids, len(taken), addresses, writes, out)
        assert n >= 0, f"more lines in flight than {self._dram.lines} in cycle {cycle}"
        return [self.lines[k] for k in out[:n]]


def _signals(dut: Any, machine: Machine) -> dict[str, Any]:
    """Memory ports by name, without their prefix."""
    size = machine.dram.line_bytes
    w = machine.port_lanes
    n = machine.response_lanes
    widths = {
        "req_ready": 1,
        "req_valid": w,
        "req_write": 1,
        "req_port": PORT_BITS,
        "req_group": TAG_BITS,
        "req_addr": w * ADDRESS_BITS,
        "req_data": w * 8 * size,
        "req_mask": w * size,
        "rsp_valid": n,
        "rsp_port": n * PORT_BITS,
        "rsp_tag": n * TAG_BITS,
        "rsp_data": n * 8 * size,
    }
    found = {}
    for name, width in widths.items():
        found[name] = handle = getattr(dut, f"mem_{name}", None)
        if handle is None:
            raise ValueError(f"{dut._path} has no port mem_{name}")
        if len(handle) != width:
            raise ValueError(f"{handle._path} has {len(handle)} bits, this machine's has {width}")
    return found


def _part(value: int, lane: int, width: int) -> int:
    return value >> lane * width & (1 << width) - 1


def _write(line: Line, place: np.ndarray, data: int, mask: int) -> None:
    """Write the bytes of a line that its mask names."""
    size = len(place)
    bytes_of = np.frombuffer(data.to_bytes(size, "little"), np.uint8)
    chosen = np.array([mask >> k & 1 for k in range(size)], bool)
    place[chosen] = bytes_of[chosen]
    written = int.from_bytes((bytes_of * chosen).tobytes(), "little")
    line.digest = fnv(mask, -(-size // 32), fnv(written, size // 4))
