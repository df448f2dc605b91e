"""Unit graphs for benches: every unit kind between sources and sinks, several chains in one fabric,
random streams.

One build serves many cases: streams, stall patterns and run-time parameters differ from point to
point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..machine.beat import STOP_DONE, BufferRef, Payload, Scalar, Selector, Tile, Tuple
from ..machine.functions import FUNCTIONS
from ..machine.kinds import kind_of
from ..machine.stimulus import Point
from ..machine.unitgraph import Channel, Tensor, Unit, UnitGraph
from .agents import PATTERNS, beats, releases

__all__ = [
    "Zoo",
    "arithmetic",
    "buffers",
    "each",
    "listed",
    "memory",
    "ragged",
    "regular",
    "rows",
    "scattered",
    "shapes",
    "triggered",
    "value",
]

Items = Sequence[tuple[int | None, int]]


def regular(shape: Sequence[int]) -> list[int]:
    """Stops of a stream of fixed shape, outermost dimension first; the last beat ends all of them."""
    stops = []
    for i in range(1, int(np.prod(shape)) + 1):
        level = 0
        size = 1
        for d in reversed(shape):
            size *= d
            if i % size:
                break
            level += 1
        stops.append(level)
    return stops


def ragged(rng: np.random.Generator, rank: int, most: int) -> list[int]:
    """Stops of a stream of ``rank`` dimensions whose sizes are drawn from 1 to ``most`` each time."""
    if rank == 0:
        return [0]
    stops = [s for _ in range(rng.integers(1, most + 1)) for s in ragged(rng, rank - 1, most)]
    return [*stops[:-1], rank]


def value(
    rng: np.random.Generator,
    payload: Payload,
    rows: int | None = None,
    cols: int | None = None,
    infinite: float = 0.0,
) -> int:
    """Random payload bits; a tile's invalid elements are zero, the share ``infinite`` of the others
    (of a tile alone) is infinite.
    """
    if isinstance(payload, Tuple):
        bits = 0
        at = 0
        for member in payload.members:
            bits |= value(rng, member, rows, cols) << at
            at += member.bits
        return bits
    if not isinstance(payload, Tile):
        return (
            int.from_bytes(rng.bytes((payload.bits + 7) // 8), "little") & (1 << payload.bits) - 1
        )
    t = payload.t
    rows = int(rng.integers(0, t + 1)) if rows is None else rows
    cols = int(rng.integers(0, t + 1)) if cols is None else cols
    a = np.zeros((t, t), np.float32)
    a[:rows, :cols] = rng.standard_normal((rows, cols)) * 2.0 ** rng.integers(-3, 4)
    if infinite:
        a[:rows, :cols][rng.random((rows, cols)) < infinite] = np.inf
    raw = (
        (a.view(np.uint32) >> 16).astype("<u2").tobytes()
        if payload.dtype == "bf16"
        else a.astype("<f4").tobytes()
    )
    n = 8 * len(raw)
    return int.from_bytes(raw, "little") | rows << n | cols << (n + payload.count_bits)


class Draw(np.random.Generator):
    """What the streams of one unit are drawn from: the same numbers at all its inputs, and numbers
    of each one's own.
    """

    def __init__(self, seeds: Sequence[int], port: int):
        super().__init__(np.random.PCG64(np.random.SeedSequence(seeds)))
        self.port = port

    def own(self) -> np.random.Generator:
        return np.random.default_rng([self.port, int(self.integers(1 << 32))])


@dataclass
class Zoo:
    """A unit graph in the making, with the streams of its sources.

    ``add`` puts a unit between new sources and sinks; what cannot be a chain is joined with
    ``unit`` and ``join``.
    """

    name: str
    t: int
    depth: int = 2
    units: list[Unit] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    streams: dict[int, Callable[[Draw], Items]] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    runtime: dict[int, Callable[[np.random.Generator], dict]] = field(default_factory=dict)
    bytes: int = 0

    def unit(self, kind: str, params: Mapping, label: str = "") -> int:
        self.units.append(
            Unit(len(self.units), f"{label or kind}{len(self.units)}", kind, dict(params))
        )
        return len(self.units) - 1

    def join(self, src: tuple[int, int], dst: tuple[int, int], payload: Payload) -> None:
        name = f"{self.units[src[0]].name}_{src[1]}_{self.units[dst[0]].name}_{dst[1]}"
        self.channels.append(Channel(len(self.channels), name, src, dst, self.depth, payload))

    def source(
        self, dst: tuple[int, int], payload: Payload, items: Callable[[np.random.Generator], Items]
    ) -> None:
        u = self.unit("source", {})
        self.streams[u] = items
        self.join((u, 0), dst, payload)

    def sink(self, src: tuple[int, int], payload: Payload) -> None:
        self.join(src, (self.unit("sink", {}), 0), payload)

    def add(
        self,
        kind: str,
        params: Mapping,
        ins: Sequence[tuple[Payload, Callable]],
        outs: Sequence[Payload],
    ) -> int:
        """A unit with a source before every input and a sink behind every output."""
        u = self.unit(kind, params)
        for i, (payload, items) in enumerate(ins):
            self.source((u, i), payload, items)
        for o, payload in enumerate(outs):
            self.sink((u, o), payload)
        return u

    def graph(self, seed: int = 0) -> UnitGraph:
        """The graph, with the run-time parameters of ``seed``."""
        units = tuple(
            replace(
                u, params={**u.params, **self.runtime[u.id](np.random.default_rng([seed, u.id]))}
            )
            if u.id in self.runtime
            else u
            for u in self.units
        )
        ports = tuple(u.id for u in units if kind_of(u.kind).offchip)
        return UnitGraph(
            self.name, self.t, units, tuple(self.channels), tuple(self.tensors), ports, self.bytes
        )

    def point(self, seed: int, source: str = "always", sink: str = "always") -> Point:
        """One case: streams, run-time parameters and stall patterns from a seed."""
        graph = self.graph(seed)
        sources = {}
        sinks = {}
        for u in graph.units:
            if u.kind == "source":
                payload = graph.outputs(u.id)[0].payload
                items = self.streams[u.id](
                    Draw([seed, *self.seed_of(u.id)], graph.outputs(u.id)[0].dst[1])
                )
                sources[u.id] = beats(
                    payload, items, releases(len(items) + 1, source, seed * 100 + u.id)
                )
            if u.kind == "sink":
                sinks[u.id] = releases(200, sink, seed * 100 + u.id)
        rng = np.random.default_rng([seed, 7])
        tensors = {
            x.name: rng.standard_normal((x.rows, x.cols)).astype(np.float32)
            for x in graph.tensors
            if x.role == "input"
        }
        return Point(graph, tensors, sources, sinks)

    def seed_of(self, unit: int) -> tuple[int, ...]:
        """Streams that must agree (the inputs of one unit) share the seed of that unit."""
        return (next(c.dst[0] for c in self.channels if c.src[0] == unit),)

    def points(self, seed: int = 0) -> list[Point]:
        """Every source pattern with {always, random, late} sinks."""
        return [
            self.point(seed + i * 3 + j, source, sink)
            for i, source in enumerate(PATTERNS)
            for j, sink in enumerate(("always", "random", "late"))
        ]


def _ragged(
    payload: Payload, rank: int, most: int, *, full: bool = False, bare: float = 0.0
) -> Callable[[np.random.Generator], Items]:
    """Random beats on a ragged stream; of those that end a group, the share ``bare`` has no data.

    The inputs of one unit agree in stops and that, not in values and valid rows and columns.
    """

    def items(rng: Draw) -> Items:
        stops = ragged(rng, rank, most)
        empty = [s > 0 and rng.random() < bare for s in stops]
        t = payload.t if full else None
        own = rng.own()
        return [
            (None if e else value(own, payload, t, t, 0.02), s)
            for s, e in zip(stops, empty, strict=False)
        ]

    return items


def _regular(
    payload: Payload, shape: Sequence[int], *, groups: int = 3, full: bool = True
) -> Callable[[np.random.Generator], Items]:
    def items(rng: np.random.Generator) -> Items:
        t = payload.t if full else None
        return [(value(rng, payload, t, t), s) for s in regular([groups, *shape])]

    return items


def _every(
    payload: Payload, number: int | None, count: int
) -> Callable[[np.random.Generator], Items]:
    """``count`` beats without stop, of a number or random."""
    return lambda rng: [
        (value(rng, payload) if number is None else number, 0) for _ in range(count)
    ]


def _tiles(payload: Payload, rank: int) -> Callable[[np.random.Generator], Items]:
    """Logical tiles of one row of tiles on a ragged stream of ``rank`` dimensions; groups without a
    tile among them.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        cols = int(rng.integers(1, 4))
        for s in ragged(rng, rank, 3):
            if s and rng.random() < 0.3:
                out.append((None, 2 + s))
            else:
                out += [(value(rng, payload), 0) for _ in range(cols - 1)] + [
                    (value(rng, payload), 2 + s)
                ]
        return out

    return items


def _sometimes_bare(rng: np.random.Generator, rank: int, share: float) -> list[tuple[bool, int]]:
    """(data, stop) of a ragged stream: of the beats that end a group, ``share`` have no data.

    Drawn first, so that inputs of one unit agree.
    """
    stops = ragged(rng, rank, 3)
    return [(not s or rng.random() >= share, s) for s in stops]


def _banded(
    payload: Payload, rank: int, bands: int, cols: int, *, valid: tuple[int, int], bare: float = 0.0
) -> Callable[[np.random.Generator], Items]:
    """Logical tiles of ``bands`` x ``cols`` physical ones on a ragged stream, their valid rows
    drawn from ``valid`` and contiguous.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for data, s in _sometimes_bare(rng, rank, bare):
            if not data:
                out.append((None, 2 + s))
                continue
            rows = int(rng.integers(*valid))
            for b in range(bands):
                here = min(max(rows - b * t, 0), t)
                stops = [0] * (cols - 1) + [2 + s if b == bands - 1 else 1]
                out += [(value(rng, payload, here, t if here else 0), stop) for stop in stops]
        return out

    return items


def _upright(
    payload: Payload, rank: int, high: int, wide: int
) -> Callable[[np.random.Generator], Items]:
    """Logical tiles of ``high`` x ``wide`` physical ones, column by column, with valid parts of any
    size and empty groups among them.
    """

    def items(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for data, s in _sometimes_bare(rng, rank, 0.2):
            if not data:
                out.append((None, 2 + s))
                continue
            rows = int(rng.integers(0, high * t + 1))
            cols = int(rng.integers(0, wide * t + 1))
            for j in range(wide):
                here = min(max(cols - j * t, 0), t)
                stops = [0] * (high - 1) + [2 + s if j == wide - 1 else 1]
                out += [
                    (value(rng, payload, min(max(rows - i * t, 0), t), here), stop)
                    for i, stop in enumerate(stops)
                ]
        return out

    return items


def _counts(
    payload: Payload, rank: int, most: int, bare: float = 0.0
) -> Callable[[np.random.Generator], Items]:
    """Numbers below ``most`` on a ragged stream of tiles, with the stops that `_banded` draws."""

    def items(rng: np.random.Generator) -> Items:
        return [
            (int(rng.integers(0, most)) if data else None, s)
            for data, s in _sometimes_bare(rng, rank, bare)
        ]

    return items


def rows(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Rows packed to tiles and streamed again, appended, and cut off."""
    z = Zoo("rows", t)
    tile = Tile(t, dtype)
    number = Scalar(8)
    for cols in (1, 2):
        u = z.add(
            "row_pack",
            {"depth": 2, "level": 3, "bands": 0, "cols": cols * t},
            [(tile, _banded(tile, 3, 1, cols, valid=(0, 2), bare=0.2))],
            [tile],
        )
        z.runtime[u] = lambda rng: {"bands": int(rng.choice([0, 2, 5])), "cols": cols * t}
        for mask in (False, True):
            z.add(
                "row_unpack",
                {"depth": 2, "mask": mask, "rows": 2 * t},
                [(tile, _banded(tile, 2, 2, cols, valid=(0, 2 * t + 1), bare=0.2))],
                [tile],
            )
            z.add(
                "row_unpack",
                {"depth": cols, "mask": mask, "rows": 2 * t, "along": "cols"},
                [(tile, _upright(tile, 2, cols, 2))],
                [tile],
            )
        u = z.unit(
            "row_pack", {"depth": cols, "level": 4, "bands": 0, "cols": cols * t, "along": "cols"}
        )
        single = z.unit("row_unpack", {"depth": cols, "mask": True, "rows": 2 * t, "along": "cols"})
        z.runtime[u] = lambda rng: {"bands": int(rng.choice([0, 2, 5])), "cols": cols * t - 1}
        z.source((single, 0), tile, _upright(tile, 2, cols, 2))
        z.join((single, 0), (u, 0), tile)
        z.sink((u, 0), tile)
        z.add(
            "row_append",
            {},
            [
                (tile, _banded(tile, 2, 2, cols, valid=(0, 2 * t), bare=0.2)),
                (tile, _banded(tile, 2, 1, cols, valid=(1, 2), bare=0.2)),
            ],
            [tile],
        )
        z.add(
            "row_offset",
            {},
            [
                (tile, _banded(tile, 2, 2, cols, valid=(0, 2 * t + 1), bare=0.2)),
                (number, _counts(number, 2, 2 * t + 2, 0.2)),
            ],
            [tile],
        )
    return z


def shapes(t: int = 2, dtype: str = "fp32") -> Zoo:
    """The units that only change stops, order or number of beats."""
    z = Zoo("shapes", t)
    tile = Tile(t, dtype)
    ref = BufferRef(8)
    some = 0.3
    z.add(
        "broadcast",
        {"n": 3, "scratchpad": None},
        [(tile, _ragged(tile, 2, 4, bare=some))],
        [tile] * 3,
    )
    for lo, hi in ((0, 1), (1, 2), (0, 2)):
        z.add(
            "flatten",
            {"lo": lo, "hi": hi},
            [(tile, _ragged(tile, 4, 2, bare=0 if lo else some))],
            [tile],
        )
    for level in (0, 1, 2):
        z.add(
            "promote",
            {"level": level, "outermost": False},
            [(ref, _ragged(ref, 2, 4, bare=some))],
            [ref],
        )
    z.add(
        "promote", {"level": 3, "outermost": True}, [(tile, _ragged(tile, 2, 4, bare=some))], [tile]
    )
    for dim, pad, shape in (
        (0, False, (6,)),
        (0, True, (5,)),
        (1, False, (6, 2)),
        (2, True, (5, 2, 2)),
        (2, False, (6, 1, 2)),
    ):
        u = z.add(
            "reshape",
            {
                "dim": dim,
                "chunk": 2,
                "pad": pad,
                "pad_rows": 2 if dim else 1,
                "pad_cols": 2 if dim else 1,
            },
            [(tile, _regular(tile, shape, full=False))],
            [tile],
        )
        z.runtime[u] = lambda rng: {"chunk": int(rng.choice([1, 2, 3]))}
    for dim in (0, 2):
        u = z.add(
            "reshape",
            {
                "dim": dim,
                "chunk": 2,
                "pad": True,
                "pad_rows": 2 if dim else 1,
                "pad_cols": 1,
                "flags": dim,
            },
            [(tile, _ragged(tile, dim + 2, 2, bare=0 if dim else some))],
            [tile, Scalar(1)],
        )
        z.runtime[u] = lambda rng: {"chunk": int(rng.choice([1, 2, 3]))}
    u = z.add("repeat", {"count": 2}, [(tile, _ragged(tile, 2, 4, bare=some))], [tile])
    z.runtime[u] = lambda rng: {"count": int(rng.integers(1, 5))}
    u = z.add("pace", {"interval": 40}, [(tile, _ragged(tile, 2, 4, bare=some))], [tile])
    z.runtime[u] = lambda rng: {"interval": int(rng.integers(16, 100))}
    z.add(
        "zip",
        {},
        [(tile, _ragged(tile, 2, 4, bare=some)), (ref, _ragged(ref, 2, 4, bare=some))],
        [Tuple((tile, ref))],
    )
    z.add("split", {"n": 3}, [(tile, _ragged(tile, 2, 4))], [tile] * 3)

    def dealt(k: int) -> Callable:
        def items(rng: np.random.Generator) -> Items:
            stops = ragged(rng, 2, 4)[k::3]
            return [(value(rng, ref), s) for s in stops]

        return items

    z.add("merge", {"n": 3}, [(ref, dealt(k)) for k in range(3)], [ref])
    return z


def arithmetic(
    t: int = 2, dtype: str = "fp32", kinds: Sequence[str] = ("map", "matmul", "accum")
) -> Zoo:
    """Element-wise functions, matrix products and accumulators, at several widths."""
    z = Zoo("arithmetic", t)
    tile = Tile(t, dtype)
    wide = Tile(t, "fp32")
    if "map" in kinds:
        for i, f in enumerate(sorted(FUNCTIONS)):
            before = Tile(t, "bf16" if f == "cast_fp32" else "fp32")
            after = Tile(t, "bf16" if f == "cast_bf16" else "fp32")
            arity = FUNCTIONS[f].arity
            lanes = t * t // (1, 2, t * t)[i % 3]
            z.add(
                "map",
                {"fn": f, "arity": arity, "lanes": lanes, "tuple_in": False},
                [(before, _ragged(before, 2, 4, bare=0.2))] * arity,
                [after],
            )
        for i, spread in enumerate(("cols", "rows", "both")):
            z.add(
                "map",
                {
                    "fn": ("sub", "mul", "div")[i],
                    "arity": 2,
                    "lanes": t * t // (1, 2, t)[i],
                    "tuple_in": False,
                    "spread": spread,
                },
                [(wide, _ragged(wide, 2, 4, full=True))] * 2,
                [wide],
            )
        z.add(
            "map",
            {"fn": "mul", "arity": 2, "lanes": t, "tuple_in": False, "constant": 0x3E000000},
            [(wide, _ragged(wide, 2, 4, bare=0.2))],
            [wide],
        )
        for fn in ("add", "max"):
            z.add("row_reduce", {"fn": fn}, [(wide, _ragged(wide, 2, 4, bare=0.2))], [wide])
        pair = Tuple((wide, wide))
        z.add(
            "map",
            {"fn": "sub", "arity": 2, "lanes": t * t, "tuple_in": True},
            [(pair, _ragged(pair, 2, 4))],
            [wide],
        )
    if "matmul" in kinds:
        for transposed in (False, True):
            for rows in {t, 1}:
                z.add(
                    "matmul",
                    {"rows_per_cycle": rows, "transposed": transposed},
                    [(tile, _ragged(tile, 2, 4))] * 2,
                    [wide],
                )
    if "accum" in kinds:
        for reduce, lanes, shape in (
            (0b1, t * t, (4,)),
            (0b10, t * t, (3, 4)),
            (0b1010, t * t, (2, 2, 3, 2)),
            (0b11, t * t // 2, (2, 3)),
            (0b10, t, (2, 3)),
        ):
            z.add(
                "accum",
                {
                    "fn": "add",
                    "reduce": reduce,
                    "depth": 8,
                    "lanes": lanes,
                    "init_rows": 0,
                    "init_cols": 0,
                },
                [(wide, _regular(wide, shape))],
                [wide],
            )
        for fn, lanes in (("add", t), ("max", t * t)):
            u = z.add(
                "accum",
                {
                    "fn": fn,
                    "reduce": 0b1100,
                    "depth": 8,
                    "lanes": lanes,
                    "init_rows": 0,
                    "init_cols": 0,
                },
                [(wide, _tiles(wide, 3))],
                [wide],
            )
            z.runtime[u] = lambda rng: {
                "init_rows": int(rng.choice([0, 1, 2 * t - 1])),
                "init_cols": int(rng.integers(1, 2 * t + 1)),
            }
            z.add(
                "accum",
                {
                    "fn": fn,
                    "reduce": 0b1100,
                    "depth": 8,
                    "lanes": lanes,
                    "init_rows": 0,
                    "init_cols": 0,
                    "scan": True,
                },
                [(wide, _tiles(wide, 3))],
                [wide],
            )
    return z


def buffers(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Scratchpads: one writer and reader, several of each, references copied."""
    z = Zoo("buffers", t)
    tile = Tile(t, dtype)

    def pad(
        pages: int,
        frames: int,
        ranks: Sequence[int],
        repeats: Sequence[Sequence[bool]],
        turns: Sequence[int] = (),
    ) -> None:
        """Writer w has rank ranks[w] and one reader per entry of repeats[w]; ``turns``: repeats of
        each buffer in turn.
        """
        readers = [
            {"rank": rank, "repeat_dim": r} | ({"turns": list(turns)} if turns else {})
            for rank, rs in zip(ranks, repeats, strict=False)
            for r in rs
        ]
        ref = BufferRef(pages)
        u = z.unit(
            "scratchpad",
            {
                "pages": pages,
                "frames": frames,
                "writers": [{"rank": r} for r in ranks],
                "limit": [pages] * len(ranks),
                "readers": readers,
                "repeat": [1] * len(readers),
            },
        )
        z.runtime[u] = lambda rng: {
            "limit": rng.integers(1, 5, len(ranks)).tolist(),
            "repeat": [int(rng.integers(1, 4)) for _ in readers],
        }
        r = len(ranks)
        for w, (rank, rs) in enumerate(zip(ranks, repeats, strict=False)):
            z.source((u, w), tile, _ragged(tile, rank + 1, 3, bare=0.2))
            if len(rs) > 1:
                b = z.unit("broadcast", {"n": len(rs), "scratchpad": u})
                z.join((u, w), (b, 0), ref)
            for k in range(len(rs)):
                z.join((b, k) if len(rs) > 1 else (u, w), (u, r), ref)
                z.sink((u, r), tile)
                r += 1

    pad(8, 2, [1], [[False]])
    pad(16, 1, [2], [[True]])
    pad(16, 4, [1], [[True, False]])
    pad(32, 2, [1, 2], [[True], [False, True]])
    pad(16, 2, [1], [[True, False]], [2, 1, 3])
    u = z.unit(
        "scratchpad",
        {
            "pages": 8,
            "frames": 1,
            "writers": [{"rank": 1}],
            "limit": [8],
            "readers": [{"rank": 1, "repeat_dim": False}],
            "repeat": [0],
        },
    )
    ref = BufferRef(8)
    copies = z.unit("broadcast", {"n": 2, "scratchpad": u})
    route = z.unit("partition", {"n": 2, "rank": 0, "scratchpad": u})
    z.source((u, 0), tile, _regular(tile, (7, 2)))
    z.join((u, 0), (copies, 0), ref)
    z.join((copies, 0), (route, 0), ref)
    z.source((route, 1), Selector(2), _regular(Selector(2), (7,), full=False))
    z.join((route, 0), (u, 1), ref)
    for src in ((copies, 1), (route, 1)):
        z.join(src, (z.unit("sink", {"scratchpad": u}), 0), ref)
    z.sink((u, 1), tile)
    u = z.unit(
        "scratchpad",
        {
            "pages": 32,
            "frames": 2,
            "writers": [{"rank": 1}],
            "limit": [32],
            "readers": [{"rank": 2, "repeat_dim": True, "affine": 2}],
            "repeat": [1],
            "shape": [2, 2],
            "stride": [0, 1],
        },
    )
    z.runtime[u] = lambda rng: {
        "repeat": [int(rng.integers(1, 4))],
        "shape": [int(x) for x in rng.integers(1, 4, 2)],
        "stride": [int(x) for x in rng.integers(0, 2, 2)],
    }
    z.source((u, 0), tile, _regular(tile, (3, 5)))
    z.join((u, 0), (u, 1), BufferRef(32))
    z.sink((u, 1), tile)
    for rank, level in ((1, 1), (2, 0), (0, 2)):
        u = z.unit(
            "scratchpad",
            {
                "pages": 32,
                "frames": 2,
                "writers": [{"rank": rank}],
                "limit": [32],
                "readers": [{"rank": rank, "repeat_dim": False, "ref": level}],
                "repeat": [0],
            },
        )
        z.source((u, 0), tile, _ragged(tile, rank + 2, 3, bare=0.2))
        z.join((u, 0), (u, 1), BufferRef(32))
        z.source((u, 2), Scalar(1), _drive(rank, level))
        z.sink((u, 1), tile)
    return z


def _drive(rank: int, level: int) -> Callable[[np.random.Generator], Items]:
    """A stream that drives the reads of the buffers of ``rank`` dimensions that `_ragged` gives:
    some passes each, some of them empty.
    """

    def items(rng: np.random.Generator) -> Items:
        stops = ragged(rng, rank + 2, 3)
        empty = [s > 0 and rng.random() < 0.2 for s in stops]
        out = []
        last = STOP_DONE
        for s, e in zip(stops, empty, strict=False):
            if e and min(s, last) > rank:
                out.append((None, level + s - rank))
            elif s >= rank:
                for inner in rng.integers(0, max(level, 1), rng.integers(0, 3) if level else 0):
                    out.append((1 if not inner or rng.random() < 0.7 else None, int(inner)))
                out.append((None if level and rng.random() < 0.3 else 1, level + s - rank))
            last = s
        return out

    return items


def _tensor(z: Zoo, name: str, rows: int, cols: int, dtype: str, role: str) -> Tensor:
    pitch = -(-cols * {"fp32": 4, "bf16": 2}[dtype] // 64) * 64
    x = Tensor(name, rows, cols, dtype, z.bytes, pitch, role)
    z.bytes += x.bytes
    z.tensors.append(x)
    return x


def _common(x: Tensor, tr: int, tc: int) -> dict:
    return {
        "tensor": x.name,
        "base": x.base,
        "pitch": x.pitch,
        "tensor_rows": x.rows,
        "tensor_cols": x.cols,
        "rows": tr,
        "cols": tc,
    }


def memory(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """Two loads into sinks, and a store that copies a third load; sizes and alignment from
    ``seed``, the structure always the same.
    """
    z = Zoo("memory", t)
    rng = np.random.default_rng([seed, 11])
    tile = Tile(t, dtype)
    width = {"fp32": 4, "bf16": 2}[dtype]

    def load(name: str, rows: int, cols: int, tr: int, tc: int) -> int:
        x = _tensor(z, name, rows, cols, dtype, "input")
        return z.unit(
            "load",
            {
                **_common(x, tr, tc),
                "rank": 2,
                "shape": [-(-rows // tr), -(-cols // tc)],
                "row_step": [tr, 0],
                "col_step": [0, tc],
            },
            name,
        )

    for i in range(3):
        rows, cols = (int(x) for x in rng.integers(1, [4 * t + 1, 60]))
        tr = int(rng.integers(1, rows + 1))
        tc = int(rng.integers(max(1, cols // 4), cols + 1))
        if seed % 2:  # whole tiles, aligned to lines
            rows = 4 * t
            cols = 128 // width
            tr = t * int(rng.choice([1, 2]))
            tc = 64 // width
        u = load(f"in{i}", rows, cols, tr, tc)
        if i < 2:
            z.sink((u, 0), tile)
        else:
            y = _tensor(z, "out", rows, cols, dtype, "output")
            z.join((u, 0), (z.unit("store", _common(y, tr, tc), "out"), 0), tile)
    return z


def listed(t: int = 2, dtype: str = "fp32") -> Zoo:
    """Loads and stores in listed orders: aligned and misaligned tiles back and forth, and a load
    that comes back to tiles it had.
    """
    z = Zoo("listed", t)
    tile = Tile(t, dtype)
    for name, rows, cols, tr, tc in (("a", 3 * t, 64, t, 32), ("b", 4 * t + 1, 45, 2 * t, 13)):
        grid = [
            [(i, j) for j in range(0, cols, tc)][:: -1 if i // tr % 2 else 1]
            for i in range(0, rows, tr)
        ]
        order = [list(place) for row in grid for place in row]
        x = _tensor(z, name, rows, cols, dtype, "input")
        y = _tensor(z, f"{name}_copy", rows, cols, dtype, "output")
        walk = {"rank": 1, "row_step": [0], "col_step": [0]}
        u = z.unit(
            "load", {**_common(x, tr, tc), **walk, "shape": [len(order)], "order": order}, name
        )
        z.join(
            (u, 0),
            (z.unit("store", {**_common(y, tr, tc), "order": order}, f"{name}_copy"), 0),
            tile,
        )
        again = [order[k] for k in (2, 0, 1, 1, 0)] + [[rows, 0]]
        u = z.unit(
            "load",
            {**_common(x, tr, tc), **walk, "shape": [len(again)], "order": again},
            f"{name}_again",
        )
        z.sink((u, 0), tile)
    return z


def triggered(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """Loads that streams start, by any beat and by the number of a tile, one of them copied by a
    store; sizes and alignment from ``seed``, the structure always the same.
    """
    z = Zoo("triggered", t)
    rng = np.random.default_rng([seed, 12])
    tile = Tile(t, dtype)
    width = {"fp32": 4, "bf16": 2}[dtype]
    for i, (trigger, payload) in enumerate(
        (("ref", BufferRef(8)), ("address", Scalar(12)), ("address", Scalar(32)))
    ):
        tr, tc, shift, down = (int(x) for x in rng.integers(1, [3 * t, 30, 3, 4]))
        if seed % 2:  # whole tiles, aligned to lines
            tr = t
            tc = 64 // width
        rows = down * tr - int(rng.integers(0, tr))
        cols = tc << shift
        x = _tensor(z, f"in{i}", rows, cols, dtype, "input")
        if trigger == "ref":
            loops = {
                "rank": 2,
                "shape": [int(rng.integers(0 if seed % 5 == 2 else 1, 3)), 2],
                "row_step": [tr, 0],
                "col_step": [0, tc],
                "trigger": trigger,
            }
        else:
            loops = {
                "rank": 0,
                "shape": [],
                "row_step": [],
                "col_step": [],
                "trigger": trigger,
                "shift": shift,
            }
        u = z.unit("load", _common(x, tr, tc) | loops, f"in{i}")
        z.source((u, 0), payload, _numbers(2, down << shift if trigger == "address" else 8))
        z.sink((u, 0), tile)
    x, y = (
        _tensor(z, name, 3 * t, 30, dtype, role)
        for name, role in (("original", "input"), ("copy", "output"))
    )
    u = z.unit(
        "load",
        _common(x, t, 30)
        | {"rank": 1, "shape": [3], "row_step": [t], "col_step": [0], "trigger": "ref"},
        "original",
    )
    z.source((u, 0), Scalar(1), _numbers(1, 2))
    z.join(
        (u, 0),
        (z.unit("store", _common(y, t, 30) | {"order": [[0, 0], [t, 0], [2 * t, 0]]}, "copy"), 0),
        tile,
    )
    return z


def scattered(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """Random stores: one into a sink of acknowledgements, one whose acknowledgements start a load
    of what has been stored.
    """
    z = Zoo("scattered", t)
    rng = np.random.default_rng([seed, 13])
    tile = Tile(t, dtype)
    number = Scalar(16)
    for i in range(2):
        bands, cols, shift, down = (int(x) for x in rng.integers(1, [3, 20, 3, 4]))
        y = _tensor(z, f"out{i}", down * bands * t, (cols * t) << shift, dtype, "output")
        u = z.unit("random_store", _common(y, bands * t, cols * t) | {"shift": shift}, f"out{i}")
        for port, items in enumerate(_scatter(tile, bands, cols, down << shift)):
            z.source((u, port), (number, tile)[port], items)
        if i:
            again = z.unit(
                "load",
                _common(y, bands * t, cols * t)
                | {
                    "rank": 1,
                    "shape": [down],
                    "row_step": [bands * t],
                    "col_step": [0],
                    "trigger": "ref",
                },
                "again",
            )
            z.join((u, 0), (again, 0), Scalar(1))
            u = again
        z.sink((u, 0), tile if i else Scalar(1))
    return z


def _scatter(payload: Tile, bands: int, cols: int, most: int) -> tuple[Callable, Callable]:
    """Numbers of tiles, on a ragged stream with empty groups, and the tiles, of which some have few
    valid rows.
    """

    def draw(rng: np.random.Generator) -> Items:
        return [
            (None if s and rng.random() < 0.2 else int(rng.integers(0, most)), s)
            for s in ragged(rng, 2, 3)
        ]

    def tiles(rng: np.random.Generator) -> Items:
        out = []
        t = payload.t
        for number, s in draw(rng):
            rows = int(rng.integers(0, bands * t + 1)) if rng.random() < 0.5 else bands * t
            for b in range(bands if number is not None else 0):
                here = min(max(rows - b * t, 0), t)
                out += [
                    (value(rng, payload, here, t if here else 0), stop)
                    for stop in [0] * (cols - 1) + [2 + s if b == bands - 1 else 1]
                ]
        return out

    return draw, tiles


def _numbers(rank: int, most: int) -> Callable[[np.random.Generator], Items]:
    """Numbers below ``most`` on a ragged stream, with empty groups among them."""

    def items(rng: np.random.Generator) -> Items:
        return [
            (None if s and rng.random() < 0.3 else int(rng.integers(0, most)), s)
            for s in ragged(rng, rank, 4)
        ]

    return items


def each(t: int = 2, dtype: str = "fp32") -> Zoo:
    """One unit of every kind, each with a stream that it can pass at full rate; those whose
    interval is a parameter have one of two cycles.
    """
    z = memory(t, dtype, 1)
    z.name = "each"
    tile = Tile(t, dtype)
    wide = Tile(t, "fp32")
    ref = BufferRef(16)
    row = _regular(tile, (8,))
    z.add("broadcast", {"n": 2, "scratchpad": None}, [(tile, row)], [tile] * 2)
    z.add(
        "flatten", {"lo": 0, "hi": 1}, [(ref, _regular(ref, (100,), full=False))], [ref]
    )  # a sink has the last word in the run's length
    z.add("promote", {"level": 1, "outermost": False}, [(tile, row)], [tile])
    z.add(
        "reshape",
        {"dim": 0, "chunk": 2, "pad": False, "pad_rows": 1, "pad_cols": 1},
        [(tile, row)],
        [tile],
    )
    z.add("repeat", {"count": 2}, [(tile, row)], [tile])
    z.add("pace", {"interval": 32}, [(tile, row)], [tile])
    z.add("zip", {}, [(tile, row)] * 2, [Tuple((tile, tile))])
    z.add("split", {"n": 1}, [(tile, row)], [tile])
    z.add("merge", {"n": 1}, [(tile, row)], [tile])
    z.add(
        "map",
        {"fn": "div", "arity": 2, "lanes": t * t // 2, "tuple_in": False},
        [(wide, _regular(wide, (8,)))] * 2,
        [wide],
    )
    z.add("row_reduce", {"fn": "add"}, [(wide, _regular(wide, (8,)))], [wide])
    z.add(
        "row_pack",
        {"depth": 2, "level": 2, "bands": 0, "cols": 2 * t},
        [(tile, _banded(tile, 3, 1, 2, valid=(1, 2)))],
        [tile],
    )
    z.add(
        "row_unpack",
        {"depth": 2, "mask": True, "rows": t},
        [(tile, _banded(tile, 3, 1, 1, valid=(t, t + 1)))],
        [tile],
    )
    z.add(
        "row_append",
        {},
        [
            (tile, _banded(tile, 2, 1, 1, valid=(0, t))),
            (tile, _banded(tile, 2, 1, 1, valid=(1, 2))),
        ],
        [tile],
    )
    z.add("matmul", {"rows_per_cycle": t // 2, "transposed": False}, [(tile, row)] * 2, [wide])
    z.add(
        "accum",
        {
            "fn": "add",
            "reduce": 0b10,
            "depth": 8,
            "lanes": t * t // 2,
            "init_rows": 0,
            "init_cols": 0,
        },
        [(wide, _regular(wide, (2, 4)))],
        [wide],
    )
    one = _every(Selector(1), 1, 24)
    word = Scalar(16)
    z.add(
        "partition",
        {"n": 1, "rank": 0, "scratchpad": None},
        [(tile, _every(tile, None, 24)), (Selector(1), one)],
        [tile],
    )
    z.add(
        "reassemble",
        {"n": 1, "rank": 0},
        [(tile, _every(tile, None, 24)), (Selector(1), one)],
        [tile],
    )
    z.add("eager_merge", {"n": 1, "rank": 0}, [(tile, _every(tile, None, 24))], [tile, Selector(1)])
    z.add(
        "expand",
        {"level": 1, "scratchpad": None},
        [(word, _regular(word, (1,), full=False)), (tile, _regular(tile, (8,)))],
        [word],
    )
    z.add("signal", {"level": 0}, [(word, _every(word, None, 24))], [Scalar(1)])
    z.add(
        "generate",
        {"fn": "last", "stride": 0, "count": 0},
        [(word, _every(word, 2, 24))],
        [Selector(2)],
    )
    z.add("address", {"stride": 4}, [(word, _every(word, None, 24))] * 2, [Scalar(32)])
    y = _tensor(z, "scattered", t, 16 * t, dtype, "output")
    u = z.unit("random_store", _common(y, t, t) | {"shift": 4}, "scattered")
    z.source((u, 0), Scalar(4), _counts(Scalar(4), 2, 16))
    z.source((u, 1), tile, _banded(tile, 2, 1, 1, valid=(t, t + 1)))
    z.sink((u, 0), Scalar(1))
    pad = z.unit(
        "scratchpad",
        {
            "pages": 16,
            "frames": 2,
            "writers": [{"rank": 1}],
            "limit": [16],
            "readers": [{"rank": 1, "repeat_dim": True}],
            "repeat": [2],
        },
    )
    z.source((pad, 0), tile, row)
    z.join((pad, 0), (pad, 1), ref)
    z.sink((pad, 1), tile)
    return z
