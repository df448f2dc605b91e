"""One unit between source and sink channels in Amaranth's simulator, beside the plain reading of
the contract.
"""

import random
from dataclasses import replace

import numpy as np
from amaranth.hdl import Value
from amaranth.sim import Simulator

from ..hw.fabric import Fabric
from ..machine import config as configs
from ..machine.beat import BufferRef, Payload, Tile, Tuple
from ..machine.kinds import kind_of
from ..machine.unitgraph import Channel, Unit, UnitGraph
from ..model.golden import Beat, Golden

PATTERNS = ("always", "random", "bursty")
SINKS = ("always", "random", "late")


def config(t, dtype="fp32"):
    base = configs.load("small_fpga")
    machine = replace(
        base.machine, t=t, dtype=dtype, rows_per_cycle=t, lanes={}, port_lanes=1, load_lines=32
    )
    return configs.check(replace(base, machine=machine))


def graph(kind, params, inputs, outputs, t, depth=2):
    """The unit 0 of ``kind``, a source for each input and a sink for each output."""
    n_in = len(inputs)
    n_out = len(outputs)
    units = [Unit(0, "dut", kind, params)]
    units += [Unit(1 + k, f"source{k}", "source", {}) for k in range(n_in)]
    units += [Unit(1 + n_in + k, f"sink{k}", "sink", {}) for k in range(n_out)]
    channels = [Channel(k, f"in{k}", (1 + k, 0), (0, k), depth, p) for k, p in enumerate(inputs)]
    channels += [
        Channel(n_in + k, f"out{k}", (0, k), (1 + n_in + k, 0), depth, p)
        for k, p in enumerate(outputs)
    ]
    return UnitGraph("unit", t, tuple(units), tuple(channels))


def releases(n, pattern, seed=0):
    """Earliest cycle of each of n beats."""
    rng = random.Random(f"{pattern}{seed}")
    out = []
    at = 0
    for k in range(n):
        out.append(at)
        if pattern == "random":
            at += rng.choice((1, 1, 2, 3, 5))
        elif pattern == "bursty":
            at += 1 if (k + 1) % 7 else 15
        elif pattern == "late":
            at = max(at + 1, 60)
        else:
            at = 0
    return [x + 60 * (pattern == "late") for x in out]


def stops(shape, runs=2):
    """Stop levels of a stream of ``shape`` (outermost first) and its Done, ``runs`` times."""
    out = []
    for index in np.ndindex(*shape):
        level = 0
        while level < len(shape) and index[-1 - level] == shape[-1 - level] - 1:
            level += 1
        out.append(level)
    return ([*out, 15]) * runs


def tile_bits(payload: Tile, values: np.ndarray, rows: int, cols: int) -> int:
    """Payload bits of a tile whose valid part is values[:rows, :cols]."""
    kept = np.zeros((payload.t, payload.t), np.float32)
    kept[:rows, :cols] = values[:rows, :cols]
    words = kept.view(np.uint32).ravel() >> (0 if payload.dtype == "fp32" else 16)
    bits = sum(int(w) << payload.element_bits * k for k, w in enumerate(words))
    at = payload.t**2 * payload.element_bits
    return bits | rows << at | cols << at + payload.count_bits


def tile_of(payload: Tile, bits: int) -> tuple[np.ndarray, int, int]:
    n = payload.t**2
    width = payload.element_bits
    words = np.array([bits >> width * k & (1 << width) - 1 for k in range(n)], np.uint32) << (
        32 - width
    )
    count = (1 << payload.count_bits) - 1
    return (
        words.astype(np.uint32).view(np.float32).reshape(payload.t, -1),
        bits >> n * width & count,
        bits >> n * width + payload.count_bits & count,
    )


def members(payload: Payload) -> list[Payload]:
    return list(payload.members) if isinstance(payload, Tuple) else [payload]


def numbers(payload: Payload, bits: int) -> tuple:
    """What the plain model keeps of a payload: rows and columns of its tiles, page and tiles of its
    references, two words of other members.
    """
    out = []
    for member in members(payload):
        if isinstance(member, Tile):
            out += tile_of(member, bits & (1 << member.bits) - 1)[1:]
        elif isinstance(member, BufferRef):
            out += [bits & (1 << member.page_bits) - 1, bits >> member.page_bits & 0xFFFF]
        else:
            own = bits & (1 << member.bits) - 1
            out += [own & (1 << 64) - 1, own >> 64]
        bits >>= member.bits
    return tuple(out)


def random_tiles(payload: Tile, stream, seed=0, full=False):
    """(payload bits, stop) of a stream of stop levels: small whole numbers, some rows and columns
    invalid.
    """
    rng = np.random.default_rng(seed)
    out = []
    for stop in stream:
        rows, cols = (payload.t, payload.t) if full else rng.integers(1, payload.t + 1, 2)
        values = rng.integers(-8, 9, (payload.t, payload.t)).astype(np.float32)
        out.append(
            (0, 15) if stop == 15 else (tile_bits(payload, values, int(rows), int(cols)), stop)
        )
    return out


def has_data(bits, stop) -> bool:
    """Whether (payload bits, stop) is a beat with data: stop 15 is Done, no bits a bare stop."""
    return stop != 15 and bits is not None


def with_bare(stream, seed=0, inner=0):
    """The stream with a third of its groups of ``inner`` + 1 dimensions (or what is left of them)
    on a beat without data.
    """
    rng = random.Random(f"bare{seed}")
    out = []
    group = []
    for bits, stop in stream:
        group.append((bits, stop))
        if stop >= inner or stop == 15:
            out += [(None, stop)] if inner < stop < 15 and rng.random() < 0.35 else group
            group = []
    return out


class Trace:
    def __init__(self):
        # beats: (payload bits, stop, data)
        self.accept = []
        self.take = []
        self.beats = []


def simulate(g, cfg, streams, sources, sinks, cycles):
    """Channel traces, [busy, blocked] of the unit, and the fabric's error flags at the end."""
    fabric = Fabric(g, cfg)
    n = len(streams)
    traces = [Trace() for _ in g.channels]
    counts = [0, 0]
    payload_bits = [c.payload.bits for c in g.channels]

    async def bench(ctx):
        sent = [0] * n
        got = [0] * (len(g.channels) - n)
        for cycle in range(cycles):
            for k, stream in enumerate(streams):
                port = getattr(fabric, f"src{1 + k}")
                offered = sent[k] < len(stream) and sources[k][sent[k]] <= cycle
                ctx.set(port.valid, offered)
                if offered:
                    bits, stop = stream[sent[k]]
                    ctx.set(
                        Value.cast(port.payload),
                        (bits or 0)
                        | stop << payload_bits[k]
                        | has_data(bits, stop) << payload_bits[k] + 4,
                    )
            for k in range(len(got)):
                ready = got[k] >= len(sinks[k]) or sinks[k][got[k]] <= cycle
                ctx.set(getattr(fabric, f"snk{1 + n + k}").ready, ready)
            for k, fifo in enumerate(fabric._fifos):
                if ctx.get(fifo.i.valid) and ctx.get(fifo.i.ready):
                    beat = ctx.get(Value.cast(fifo.i.payload))
                    width = payload_bits[k]
                    traces[k].accept.append(cycle)
                    traces[k].beats.append(
                        (beat & (1 << width) - 1, beat >> width & 15, beat >> width + 4)
                    )
                    if k < n:
                        sent[k] += 1
                if ctx.get(fifo.o.valid) and ctx.get(fifo.o.ready):
                    traces[k].take.append(cycle)
                    if k >= n:
                        got[k - n] += 1
            counts[0] += ctx.get(fabric._units[0].busy)
            counts[1] += ctx.get(fabric._units[0].blocked)
            await ctx.tick()
        counts.append(ctx.get(fabric.error))

    sim = Simulator(fabric)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    return traces, counts[:2], counts[2]


def expect(g, cfg, streams, sources, sinks, cycles):
    """The same from the plain model: channels, [busy, blocked]."""
    beats = {
        1 + k: [
            (
                at,
                Beat(
                    stop,
                    int(has_data(bits, stop)),
                    numbers(g.channels[k].payload, bits) if has_data(bits, stop) else (),
                ),
            )
            for at, (bits, stop) in zip(sources[k], stream, strict=False)
        ]
        for k, stream in enumerate(streams)
    }
    golden = Golden(
        g, cfg, beats, {1 + len(streams) + k: release for k, release in enumerate(sinks)}
    )
    for c in range(cycles):
        for unit in golden.units:
            unit.step(c)
        for unit in golden.units:
            unit.account()
        for channel in golden.channels:
            channel.commit(c)
    return golden.channels, [golden.units[0].busy, golden.units[0].blocked]


def check(
    kind,
    params,
    inputs,
    outputs,
    streams,
    *,
    t=2,
    source="always",
    sink="always",
    depth=2,
    cycles=None,
):
    """Simulate and compare every beat; returns the traces and the error flags."""
    g = graph(kind, params, inputs, outputs, t, depth)
    cfg = config(t)
    sources = [releases(len(stream), source, k) for k, stream in enumerate(streams)]
    n_out = 4 * sum(map(len, streams))
    sinks = [releases(n_out, sink, 10 + k) for k in range(len(outputs))]
    cycles = cycles or 200 + 40 * sum(map(len, streams))
    want, counted = expect(g, cfg, streams, sources, sinks, cycles)
    assert all(len(c.accept) == len(c.take_) for c in want), (
        "the test's stream does not drain in the cycles given"
    )
    while cycles > 1 and max(c.take_[-1] for c in want) < cycles - 40:
        cycles -= 20
    got, counts, error = simulate(g, cfg, streams, sources, sinks, cycles)
    for channel, rtl, plain in zip(g.channels, got, want, strict=False):
        seen = [
            (stop, data, numbers(channel.payload, bits) if data else ())
            for bits, stop, data in rtl.beats
        ]
        assert seen == [(b.stop, b.data, b.numbers) for b in plain.seen], channel.name
        assert (rtl.accept, rtl.take) == (plain.accept, plain.take_), channel.name
        assert all(bits == 0 for bits, _, data in rtl.beats if not data)
    assert counts == counted
    return got, error


def latency_interval(kind, params, t):
    unit = kind_of(kind).of(params)
    return unit.latency(t), unit.interval(t)
