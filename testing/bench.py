"""Unit graphs in Amaranth's simulator, beside the plain reading of the contract.

A :class:`Bench` elaborates a graph once; each run has its own streams, waits and run-time
parameters. :func:`compare` holds a run against :mod:`penstock.model.golden`, every beat in its
cycle. Streams are lists of (payload bits, stop): no bits (None) for a beat without data, stop 15
for Done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from amaranth.hdl import Cat, ClockDomain, Module, Signal, Value
from amaranth.sim import Simulator

from ..hw.fabric import Fabric
from ..machine import config as configs
from ..machine.beat import STOP_BITS, STOP_DONE, Payload, numbers_of
from ..machine.config import Config
from ..machine.unitgraph import Channel, UnitGraph
from ..model.golden import Beat, Golden
from ..model.golden.core import Channel as PlainChannel

Stream = Sequence[tuple[int | None, int]]
QUIET = 160
"""Cycles without a beat after which a stream is through: more than any pattern waits."""
AFTER = 40
"""Cycles that hardware runs on after the last beat: nothing may follow."""


@dataclass
class Trace:
    """One channel: cycles in which beats were accepted and taken; (payload bits, stop, data)."""

    accept: list[int] = field(default_factory=list)
    take: list[int] = field(default_factory=list)
    beats: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass
class Outcome:
    """Outcome of a run of the hardware.

    Attributes
    ----------
    channels
        By channel id.
    requests
        By port: (cycle, byte addresses) of each chunk that is granted.
    done
        First cycle in which each store or sink was done, by unit.
    busy, blocked
        Cycles, by unit (docs/timing.md section 7).
    peak
        Most pages in use, by scratchpad.
    error
        The fabric's flags at the end (``penstock.machine.faults.Fault``).
    image
        Memory at the end.
    """

    channels: list[Trace]
    requests: list[list[tuple[int, tuple[int, ...]]]]
    busy: list[int]
    blocked: list[int]
    done: dict[int, int] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    error: int = 0
    image: bytearray = field(default_factory=bytearray)


class RandomDram:
    """Delivers each line after its own delay, drawn from ``delays``, at most ``lanes`` a cycle.

    It stands in for the memory of the plain model, and for that of the hardware, which draws the
    same numbers.
    """

    def __init__(self, lanes: int, seed: int, delays: tuple[int, int] = (1, 12)):
        self.lanes = lanes
        self.seed = seed
        self.delays = delays
        self.taken = 0  # it is never too busy to take a chunk
        self.rng = np.random.default_rng([seed, 17])
        self.full: dict[int, int] = {}
        self.waiting: list[tuple] = []

    def accept(
        self, cycle: int, lines: Sequence[tuple], addresses: Sequence[int] = (), write: bool = False
    ) -> None:
        """``lines`` reach the memory in ``cycle``; where, and what for, does not matter here."""
        for line in lines:
            at = cycle + int(self.rng.integers(self.delays[0], self.delays[1] + 1))
            while self.full.get(at, 0) == self.lanes:
                at += 1
            self.full[at] = self.full.get(at, 0) + 1
            self.waiting.append((at, line))

    def deliver(self, cycle: int) -> list[tuple]:
        """Lines that are delivered in ``cycle``."""
        due = [line for at, line in self.waiting if at == cycle]
        self.waiting = [entry for entry in self.waiting if entry[0] != cycle]
        return due


class Bench:
    """The fabric of a graph in Amaranth's simulator.

    Parameters
    ----------
    graph
        Sources, sinks and what lies between them. A run may have other run-time parameters.
    config
        Its machine.
    """

    def __init__(self, graph: UnitGraph, config: Config):
        self.graph = graph
        self.config = config
        self.fabric = Fabric(graph, config)
        self._top = Module()
        self._top.domains.sync = self._domain = ClockDomain()
        self._top.submodules.fabric = self.fabric
        self._simulator: Simulator | None = None
        self._bits = [c.payload.bits for c in graph.channels]
        ends = [(f.i.valid & f.i.ready, f.o.valid & f.o.ready) for f in self.fabric._fifos]
        units = [(u.busy, u.blocked, u.done) for u in self.fabric._units]
        bits = [bit for some in (*ends, *units) for bit in some]
        # All that is looked at in every cycle is one signal: looking takes long.
        self._seen = Signal(len(bits))
        self._top.d.comb += self._seen.eq(Cat(bits))
        self._accepted = [Value.cast(f.i.payload) for f in self.fabric._fifos]
        self._sources: dict[int, tuple[Value, Value]] = {}
        self._sinks: dict[int, Value] = {}
        for u in graph.units:
            if u.kind.name == "source":
                port = getattr(self.fabric, f"src{u.id}")
                self._sources[u.id] = port.valid, Value.cast(port.payload)
            elif u.kind.name == "sink":
                self._sinks[u.id] = getattr(self.fabric, f"snk{u.id}").ready
        self._driven: dict[int, int] = {}

    def run(
        self,
        streams: Mapping[int, Stream],
        sources: Mapping[int, Sequence[int]],
        sinks: Mapping[int, Sequence[int]],
        cycles: int,
        *,
        graph: UnitGraph | None = None,
        dram: RandomDram | None = None,
        image: bytes = b"",
        resets: Sequence[int] = (),
    ) -> Outcome:
        """Simulate ``cycles`` cycles.

        Parameters
        ----------
        streams, sources
            By source unit: its beats, and the cycle from which each is offered.
        sinks
            By sink unit: the cycle from which each beat is taken; the rest at once.
        cycles
            Length of the run that counts.
        graph
            The run-time parameters of this run; by default those that were built in.
        dram, image
            Memory, and its bytes at the start.
        resets
            Lengths of earlier runs that a reset ends.
        """
        self._job = (streams, sources, sinks, [*resets, cycles], graph or self.graph, dram, image)
        simulator = self._simulator
        self._simulator = None
        if simulator is None:
            simulator = Simulator(self._top)
            simulator.add_clock(1e-6)
            simulator.add_testbench(self._run)
        else:
            simulator.reset()
        simulator.run()
        self._simulator = simulator  # not after an exception
        return self._outcome

    async def _run(self, ctx):
        streams, sources, sinks, lengths, graph, dram, image = self._job
        for cycles in lengths:
            ctx.set(self._domain.rst, 1)
            await self._configure(ctx, graph)
            ctx.set(self._domain.rst, 0)
            units = len(graph.units)
            self._outcome = Outcome(
                [Trace() for _ in graph.channels],
                [[] for _ in graph.ports],
                [0] * units,
                [0] * units,
                image=bytearray(image),
            )
            memory = None
            if dram is not None:
                memory = RandomDram(dram.lanes, dram.seed, dram.delays)
            self._driven = {}
            for cycle in range(cycles):
                self._drive(ctx, cycle, streams, sources, sinks)
                if memory is not None:
                    self._serve(ctx, cycle, memory)
                self._observe(ctx, cycle)
                await ctx.tick()
        self._outcome.error = ctx.get(self.fabric.error)
        for u in graph.memories():
            self._outcome.peak[u] = ctx.get(self.fabric._units[u].peak)

    async def _configure(self, ctx, graph: UnitGraph):
        """Two cycles of reset; registers that differ from what was built in are written in more."""
        fabric = self.fabric
        ctx.set(fabric.cfg_we, 1)
        for r in fabric.registers:
            value = getattr(graph.units[r["unit"]].kind, r["param"])
            value = value if r["index"] is None else value[r["index"]]
            if graph is not self.graph:
                ctx.set(fabric.cfg_addr, r["addr"])
                ctx.set(fabric.cfg_data, value)
                await ctx.tick()
        ctx.set(fabric.cfg_we, 0)
        for _ in range(2):
            await ctx.tick()

    def _drive(
        self,
        ctx,
        cycle: int,
        streams: Mapping[int, Stream],
        sources: Mapping[int, Sequence[int]],
        sinks: Mapping[int, Sequence[int]],
    ):
        for c, channel in enumerate(self.graph.channels):
            trace = self._outcome.channels[c]
            src = channel.src[0]
            dst = channel.dst[0]
            if src in streams:
                valid, payload = self._sources[src]
                k = len(trace.accept)
                offered = k < len(streams[src]) and sources[src][k] <= cycle
                self._set(ctx, valid, int(offered))
                if offered:
                    bits, stop = streams[src][k]
                    self._set(ctx, payload, _word(bits, stop, self._bits[c]))
            if dst in self._sinks:
                k = len(trace.take)
                wait = sinks.get(dst, ())
                self._set(ctx, self._sinks[dst], int(k >= len(wait) or wait[k] <= cycle))

    def _set(self, ctx, value: Value, number: int):
        """Set what has another value: setting takes long."""
        if self._driven.get(id(value)) != number:
            self._driven[id(value)] = number
            ctx.set(value, number)

    def _observe(self, ctx, cycle: int):
        out = self._outcome
        seen = ctx.get(self._seen)
        for trace, bits, payload in zip(out.channels, self._bits, self._accepted, strict=True):
            if seen & 1:
                beat = ctx.get(payload)
                trace.accept.append(cycle)
                trace.beats.append(
                    (beat & (1 << bits) - 1, beat >> bits & STOP_DONE, beat >> bits + STOP_BITS)
                )
            if seen & 2:
                trace.take.append(cycle)
            seen >>= 2
        for u in range(len(out.busy)):
            out.busy[u] += seen & 1
            out.blocked[u] += seen >> 1 & 1
            if seen & 4:
                out.done.setdefault(u, cycle)
            seen >>= 3

    def _serve(self, ctx, cycle: int, memory: RandomDram):
        """Lines that reach the memory, and those that it delivers, in one cycle."""
        f = self.fabric
        lanes = self.config.machine.port_lanes
        size = self.config.machine.dram.line_bytes
        due = memory.deliver(cycle)
        for i, (port, tag, data) in enumerate(due):
            ctx.set(f.mem_rsp_port[i], port)
            ctx.set(f.mem_rsp_tag[i], tag)
            ctx.set(f.mem_rsp_data[i], data)
        ctx.set(f.mem_rsp_valid, (1 << len(due)) - 1)
        if not (valid := ctx.get(f.mem_req_valid)):
            return
        port = ctx.get(f.mem_req_port)
        chosen = [k for k in range(lanes) if valid >> k & 1]
        addresses = tuple(ctx.get(f.mem_req_addr[k]) for k in chosen)
        assert not any(a % size for a in addresses), "a line begins at its own size"
        if ctx.get(f.mem_req_write):
            for k, at in zip(chosen, addresses, strict=True):
                self._write(at, ctx.get(f.mem_req_data[k]), ctx.get(f.mem_req_mask[k]))
        self._outcome.requests[port].append((cycle - 1, addresses))
        image = self._outcome.image
        first = ctx.get(f.mem_req_group) * lanes
        memory.accept(
            cycle,
            [
                (port, first + k, int.from_bytes(image[at : at + size], "little"))
                for k, at in zip(chosen, addresses, strict=True)
            ],
        )

    def _write(self, at: int, data: int, mask: int):
        for byte in range(self.config.machine.dram.line_bytes):
            if mask >> byte & 1:
                self._outcome.image[at + byte] = data >> 8 * byte & 0xFF


def _word(bits: int | None, stop: int, width: int) -> int:
    data = bits is not None and stop != STOP_DONE
    return (bits or 0) | stop << width | data << width + STOP_BITS


def _plain(payload: Payload, stream: Stream, release: Sequence[int]) -> list[tuple[int, Beat]]:
    """A stream as the plain model takes it."""
    return [
        (at, Beat(s, 1, numbers_of(payload, b)) if b is not None and s != STOP_DONE else Beat(s, 0))
        for at, (b, s) in zip(release, stream, strict=True)
    ]


def expected(
    graph: UnitGraph, config: Config, streams, sources, sinks, dram=None
) -> tuple[Golden, dict[int, int], int]:
    """The plain model after all that is given has passed; first cycle in which each unit was done;
    the last cycle in which a beat moved.
    """
    given = {
        u: _plain(graph.outputs(u)[0].payload, stream, sources[u]) for u, stream in streams.items()
    }
    golden = Golden(graph, config, given, sinks)
    if dram is not None:
        golden.memory = dram
    waits = [int(r[-1]) for r in (*sources.values(), *sinks.values()) if len(r)]
    until = max(waits, default=0) + QUIET
    done: dict[int, int] = {}
    cycle = moved = 0
    while cycle < until:
        golden.step(cycle)
        for u, unit in enumerate(golden.units):
            if unit.done:
                done.setdefault(u, cycle)
        if any(x and x[-1] == cycle for c in golden.channels for x in (c.accept, c.take_)):
            moved = cycle
            until = max(until, cycle + QUIET)
        cycle += 1
    return golden, done, moved


def _all_through(graph: UnitGraph, golden: Golden, streams: Mapping[int, Stream]) -> None:
    """Assert that every beat has been sent, and taken."""
    for u, stream in streams.items():
        (channel,) = graph.outputs(u)
        assert len(golden.channels[channel.id].accept) == len(stream), "the streams do not drain"
    for channel in golden.channels:
        assert len(channel.accept) == len(channel.take_), "the streams do not drain"


def _same_beats(channel: Channel, rtl: Trace, plain: PlainChannel) -> None:
    """Assert that both sides saw the same beats in the same cycles, and no bit where there is no
    payload.
    """
    seen = []
    for bits, stop, data in rtl.beats:
        assert data or bits == 0, channel.name
        seen.append((stop, data, numbers_of(channel.payload, bits) if data else ()))
    assert seen == [tuple(beat) for beat in plain.seen], channel.name
    assert rtl.accept == plain.accept, channel.name
    assert rtl.take == plain.take_, channel.name


def compare(
    bench: Bench,
    streams: Mapping[int, Stream],
    sources: Mapping[int, Sequence[int]],
    sinks: Mapping[int, Sequence[int]],
    *,
    graph: UnitGraph | None = None,
    seed: int = 0,
    delays: tuple[int, int] = (1, 12),
    image: bytes = b"",
    resets: Sequence[int] = (),
) -> Outcome:
    """Run hardware and plain model; assert that they agree, and that all streams are through.

    Beats, their cycles, their valid counts and references, requests, counters, pages and the cycle
    in which stores are done are compared; payload values are the caller's.
    """
    g = graph or bench.graph
    lanes = bench.config.machine.response_lanes
    dram = RandomDram(lanes, seed, delays) if g.ports else None
    golden, done, moved = expected(g, bench.config, streams, sources, sinks, dram)
    _all_through(g, golden, streams)
    ends = [done[u] for u in g.ends() if u in done]
    until = max([moved, *ends])
    got = bench.run(
        streams, sources, sinks, until + AFTER, graph=graph, dram=dram, image=image, resets=resets
    )
    for channel, rtl, plain in zip(g.channels, got.channels, golden.channels, strict=True):
        _same_beats(channel, rtl, plain)
    for requests, (accept, _, address) in zip(got.requests, golden.port_trace, strict=True):
        lines = [(cycle, line) for cycle, at_once in requests for line in at_once]
        assert lines == list(zip(accept, address, strict=True))
    assert got.busy == [u.busy for u in golden.units]
    assert got.blocked == [u.blocked for u in golden.units]
    assert got.peak == {u: golden.units[u].peak for u in g.memories()}
    assert {u: got.done.get(u) for u in g.ends()} == {u: done.get(u) for u in g.ends()}
    return got


def small(t: int, dtype: str = "fp32", **machine) -> Config:
    """``small_fpga`` with tiles of edge ``t``, one port lane, and more as given."""
    base = configs.load("small_fpga")
    given = {"dtype": dtype, "rows_per_cycle": t, "lanes": {}, "port_lanes": 1, "load_lines": 32}
    return configs.check(replace(base, machine=replace(base.machine, t=t, **{**given, **machine})))
