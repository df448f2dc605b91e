"""Steps that route and merge streams."""

from __future__ import annotations

from ...frontend.meaning.elements import nested
from ...frontend.types import TileType, TupleType
from ..drawer import Drawer, Live, told


def partition(d: Drawer):
    s = d.any(lambda s: s.fixed and not isinstance(d.element(s), TupleType))
    rank = d.number(0, d.rank(s))
    n = d.one_of(1, 2, 3, 4, 4)
    sel = d.like(s, d.rank(s) + 1 - rank, selector=n)
    outs = d.add("Partition", [s, sel], args={"rank": rank, "outputs": n})
    if d.chance(0.4):  # back together, in the order of the same selector
        worked = [_work(d, x) for x in outs]
        if len({str(d.element(x)) for x in worked}) == 1:
            d.add("Reassemble", [*worked, sel], fixed=_one_each(d, sel), args={"rank": rank})


def top_k(d: Drawer):
    columns = d.number(1, 2 * d.t)
    d.add(
        "TopK", [d.source(tile=(1, columns), full=True)], args={"k": d.number(1, min(8, columns))}
    )


def _work(d: Drawer, s: Live) -> Live:
    e = d.element(s)
    return (
        d.add("Map", [s], fn=["scale", {"factor": 2.0}])[0]
        if isinstance(e, TileType) and e.dtype == "fp32" and d.chance(0.5)
        else s
    )


def _one_each(d: Drawer, sel: Live) -> bool:
    return all(v is None or len(v) < 2 for v, _ in d.items(sel))


def _units(d: Drawer, s: Live) -> int:
    """Units of a stream: elements of its outermost dimension."""
    return len(nested([(v if v is None else 0, stop) for v, stop in d.items(s)], d.rank(s)))


def _siblings(d: Drawer, n: int) -> list[Live]:
    """Streams that can be merged: a new source, and others of its shape but for the outermost
    dimension.
    """
    kind = d.one_of(
        {"tile": (d.size(), d.size())},
        {"tile": (d.one_of("ragged", d.size()), d.one_of("ragged", d.size()))},
        {"selector": d.number(1, 4)},
        {"scalar": 8},
        {},
    )
    rank = d.one_of(0, 0, 1, 2)
    if not kind:
        return _buffers(d, n, rank)
    kinds = [d.one_of("static", "ragged") for _ in range(rank)]
    fixed = [d.number(1, 3) for _ in range(rank)]

    def counts(i):
        return [
            counts(i + 1) if i < rank - 1 else None
            for _ in range(fixed[i] if kinds[i] == "static" else d.count(0, 1, 2, 3))
        ]

    out = []
    for _ in range(n):
        elements = [counts(0) if rank else None for _ in range(d.count(0, 0, 1, 2, 3, 5))]
        out.append(d.filled(told(["dynamic", *kinds], elements), elements, rank, **kind))
    return out


def _buffers(d: Drawer, n: int, rank: int) -> list[Live]:
    """References to buffers of one memory that can be merged."""
    tile = (d.size(), d.size())
    memory = f"merged{len(d.recipe.steps)}"
    depth = d.number(0, 1)
    inner = [d.number(1, 2) for _ in range(rank)]
    held = ["static" if d.chance(0.5) else "ragged"] * depth

    def counts(i):
        if i < rank:
            return [counts(i + 1) for _ in range(inner[i])]
        return [None] * (2 if held[0] == "static" else d.count(0, 1, 2, 3)) if depth else None

    out = []
    for _ in range(n):
        elements = [counts(0) for _ in range(d.count(0, 1, 2, 3))]
        s = d.filled(
            told(["dynamic", *["static"] * rank, *held], elements),
            elements,
            rank + depth,
            tile=tile,
        )
        out += d.add("Bufferize", [s], args={"rank": depth, "memory": memory})
    return out


def reassemble(d: Drawer):
    n = d.number(1, 4)
    data = _siblings(d, n)
    left = [_units(d, s) for s in data]
    hot = []
    while any(left):
        targets = [i for i in range(n) if left[i] and d.chance(0.5)]
        for i in targets:
            left[i] -= 1
        hot.append(targets)
    rank = d.number(0, 1)
    counts = [None] * len(hot)
    if rank:
        cut = d.number(0, len(hot))
        counts = [[None] * cut, [None] * (len(hot) - cut)]
    sel = d.filled(
        ["dynamic", "ragged"] if rank else ["dynamic"], counts, rank, selector=n, values=hot
    )
    d.add("Reassemble", [*data, sel], fixed=_one_each(d, sel), args={"rank": d.rank(data[0])})


def eager_merge(d: Drawer):
    n = d.one_of(1, 2, 3, 4, 4)
    data = _siblings(d, n)
    merged = d.add("EagerMerge", data, fixed=n == 1)
    if n > 1 and d.chance(0.5):  # back to where they came from
        d.add("Partition", merged, fixed=False, args={"rank": d.rank(data[0]), "outputs": n})


def merged_references(d: Drawer):
    """References to buffers of one memory, merged, routed, dropped or read."""
    rows = d.number(1, d.t + 1)
    cols = d.number(1, d.t)
    rank = d.number(1, 2)
    refs = [
        d.add(
            "Bufferize",
            [d.source(rank, tile=(rows, cols))],
            args={"rank": rank, "memory": "shared"},
        )[0]
        for _ in range(2)
    ]
    merged = d.add("EagerMerge", refs, fixed=False)
    if d.chance(0.5):
        parts = d.add("Partition", merged, fixed=False, args={"rank": 0, "outputs": 2})
        for p in parts[: d.number(0, 2)]:
            d.add("Streamify", [p], fixed=False)
    else:
        d.add("Streamify", [merged[0]], fixed=False, args=d.one_of({}, {"repeat": 2}))


def feedback(d: Drawer):
    regions = d.number(2, 3)
    n = d.number(regions + 1, 7)
    s = d.filled(["static"], [None] * n, 0, tile=(d.size(), d.size()))
    d.add("Feedback", [s], regions=regions)
