"""Small unit graphs, and the streams that feed them."""

from typing import NamedTuple

import numpy as np

from .. import model
from ..machine.beat import STOP_DONE, Payload, Tile, tile_bits
from ..machine.builder import Builder, End
from ..machine.config import Config, Dram, Machine, Stepsim
from ..machine.kinds.ends import Sink, Source
from ..machine.kinds.scratchpad import Scratchpad
from ..machine.spilling import spilling
from ..machine.trace import SourceBeats

T = 4
TILE = Tile(T, "fp32")
FULL = (T, T)


class Beat(NamedTuple):
    """A beat; ``numbers`` are a tile's valid rows and columns, or a reference's page and tiles."""

    stop: int
    data: int = 1
    numbers: tuple[int, ...] = ()


END = Beat(STOP_DONE, 0)


def configuration(**machine) -> Config:
    dram = machine.pop("dram", Dram())
    return Config(
        "test",
        Machine(
            t=T,
            rows_per_cycle=T,
            port_lanes=machine.pop("port_lanes", 2),
            load_lines=machine.pop("load_lines", 16),
            dram=dram,
            **machine,
        ),
        Stepsim(),
    )


class Build(Builder):
    """Builds a unit graph, one call a unit or channel, beats of sources, pauses of sinks."""

    off_chip = Builder.offchip

    def __init__(self, depth=2):
        super().__init__("test", T, depth)
        self.sources = {}
        self.sinks = {}

    def link(self, a: End, b: End, payload: Payload = TILE, depth: int | None = None) -> int:
        """Connect `a` to `b`; a unit id, or (unit id, port)."""
        return self.join(a, b, payload, depth, f"c{len(self.channels)}")

    def scratchpad(self, pages=8, *, frames=2, limit=None, repeat=1, repeat_dim=False):
        """A scratchpad of one writer and one reader, of buffers of rank
        1.
        """
        return self.unit(
            Scratchpad(
                pages=pages,
                frames=frames,
                writers=[{"rank": 1}],
                limit=[pages if limit is None else limit],
                readers=[{"rank": 1, "repeat_dim": repeat_dim}],
                repeat=[repeat],
            )
        )

    def source(self, beats, release=None, held=None):
        """A source of beats (stop, numbers; None: a bare one), then Done."""
        u = self.unit(Source(beats=held))
        beats = [Beat(s, 0) if n is None else Beat(s, 1, n) for s, n in beats] + [END]
        at = release if release is not None else [0] * len(beats)
        self.sources[u] = list(zip(at, beats, strict=True))
        return u

    def sink(self, release=(), kept=None):
        u = self.unit(Sink(beats=kept))
        self.sinks[u] = list(release)
        return u


def source_beats(payload, given):
    """The engine's form of source beats; tiles are all ones where they are valid."""
    words = np.zeros((len(given), (payload.bits + 31) // 32), np.uint32)
    for i, (_, beat) in enumerate(given):
        if beat.data:
            words[i] = payload_words(payload, beat.numbers)
    return SourceBeats(
        np.array([r for r, _ in given], np.int64),
        np.array([b.stop for _, b in given], np.uint8),
        np.array([b.data for _, b in given], np.uint8),
        words,
    )


def payload_words(payload, numbers):
    """Payload words of a tile of ones, a reference, a scalar or a selector."""
    if isinstance(payload, Tile):
        rows, cols = numbers
        return tile_words(np.ones(FULL, np.float32), rows, cols, payload)
    if len(numbers) > 2:
        return words_of(payload, sum(x << 64 * k for k, x in enumerate(numbers)))
    low, high = numbers
    return words_of(payload, low | high << (payload.page_bits if payload.kind == "ref" else 64))


def tile_words(values, rows, cols, tile=TILE):
    """A [T, T] tile's payload words: elements, rows, cols."""
    return words_of(tile, tile_bits(tile, values, rows, cols))


def words_of(payload, bits):
    """Payload bits as 32-bit words, least significant first."""
    return np.frombuffer(bits.to_bytes(4 * ((payload.bits + 31) // 32), "little"), np.uint32)


def run(build, config, **options):
    graph = spilling(build.graph(), config.machine)
    outs = {u: graph.outputs(u)[0].payload for u in build.sources}
    return model.run(
        graph,
        config,
        sources={u: source_beats(outs[u], b) for u, b in build.sources.items()},
        sinks=build.sinks,
        **options,
    )
