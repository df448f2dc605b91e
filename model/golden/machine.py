"""The whole machine, every unit every cycle."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from ...machine.beat import Payload, Tile, Tuple
from ...machine.config import Config
from ...machine.errors import RunError
from ...machine.unitgraph import UnitGraph
from .compute import Pipeline
from .core import UNITS, Channel
from .dram import memory_of
from .scratchpad import Scratchpad

for _file in iter_modules([str(Path(__file__).parent)]):
    import_module(f"{__package__}.{_file.name}")  # each registers its kinds


class Golden:
    """A run: `sources` {unit: [(release, Beat)]}, `sinks` {unit: [release]}.

    `run` returns the number of cycles.
    """

    def __init__(self, graph: UnitGraph, config: Config, sources=None, sinks=None):
        m = config.machine
        self.t = graph.t
        self.lanes = m.port_lanes
        self.line_bytes = m.dram.line_bytes
        self.groups = m.load_lines // m.port_lanes
        self.ahead = m.chunks_ahead
        self.sources = sources or {}
        self.sinks = sinks or {}
        self.channels = [Channel(c.depth) for c in graph.channels]
        self.payload: dict[int, Payload] = {}
        self.numbers: dict[int, int] = {}
        for u in graph.units:
            ends = [c.payload for c in (*graph.outputs(u.id), *graph.inputs(u.id))]
            first = (
                next((x for x in ends if isinstance(x, Tile)), ends[0])
                if u.kind.offchip
                else ends[0]
            )
            self.payload[u.id] = first
            self.numbers[u.id] = 2 * (len(first.members) if isinstance(first, Tuple) else 1)
        self.units = []
        for u in graph.units:
            self.units.append(
                self._class(u)(
                    self,
                    u,
                    [self.channels[c.id] for c in graph.inputs(u.id)],
                    [self.channels[c.id] for c in graph.outputs(u.id)],
                )
            )
        self.ports = [self.units[u] for u in graph.ports]
        self.round_robin = m.arbitration == "round_robin"
        self.turn = 0
        self.memory = memory_of(m.dram)
        self.port_trace = [([], [], []) for _ in self.ports]  # accept, deliver, address

    @staticmethod
    def _class(u):
        """Class of a unit; a kind that names a tile kernel is a pipeline."""
        made = UNITS.get(u.kind.name, Pipeline if u.kind.values else None)
        if made is None:
            raise RunError(f"the golden model has no unit of kind {u.kind.name!r}", u.name)
        return made

    def run(self, max_cycles: int = 20000) -> int:
        for c in range(max_cycles):
            if self.step(c):
                return c + 1
        raise RuntimeError(f"not finished after {max_cycles} cycles")

    def step(self, c: int) -> bool:
        """One cycle; whether it is the one in which the run is over."""
        for u in self.units:
            u.step(c)
        over = all(u.done for u in self.units)
        self.interconnect(c)
        for u in self.units:
            u.account()
        for ch in self.channels:
            ch.commit(c)
        for u in self.units:
            if isinstance(u, Scratchpad):
                u.commit()
        for counter, port, line in self.memory.deliver(c):
            counter[0] -= 1
            self.port_trace[port][1][line] = c
        return over

    def interconnect(self, c: int) -> None:
        n = len(self.ports)
        free = c >= self.memory.taken
        for i in ((self.turn + k) % n for k in range(n)):
            port = self.ports[i]
            if free and port.chunk is not None:
                addresses, counter = port.grant()
                port.granted = True
                accept, deliver, address = self.port_trace[i]
                lines = [(counter, i, len(accept) + j) for j in range(len(addresses))]
                write = port.u.kind.offchip == "write"
                self.memory.accept(c + 1, lines, addresses, write)
                accept += [max(c, self.memory.taken - 1)] * len(addresses)
                deliver += [-1] * len(addresses)
                address += addresses
                if self.round_robin:
                    self.turn = (i + 1) % n
                break
        for port in self.ports:
            port.offers = port.offers or (port.chunk is not None and not port.granted)
