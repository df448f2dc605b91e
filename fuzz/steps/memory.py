"""Steps that move tensors, and buffers on chip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...frontend.types import BufferType, ScalarType, TupleType
from ...machine.errors import RunError
from ..drawer import CannotDrawError, Drawer, Live, sizes, static


def linear_load(by_reference: bool) -> Callable:
    def make(d: Drawer):
        tile = (d.size(), d.size())
        down = d.number(1, 3)
        across = d.number(1, 3)
        step: dict[str, Any] = {
            "load_tile": list(tile),
            "tensor": [
                down * tile[0] - d.number(0, tile[0] - 1),
                across * tile[1] - d.number(0, tile[1] - 1),
            ],
        }
        if d.chance(0.2):
            step["dtype"] = d.one_of("fp32", "bf16")
        if by_reference or d.chance(0.7):
            loops = [
                (d.number(1, down), d.one_of(0, across)),
                (d.number(1, across), d.one_of(0, 1)),
            ][: d.number(1, 2)]
            if d.chance(0.3):
                loops.insert(0, (d.number(1, 2), 0))
            step["args"] = {"shape": [n for n, _ in loops], "stride": [k for _, k in loops]}
            if d.chance(0.4):  # a tensor that is larger by what lies before the origin
                origin = [d.number(0, 3), d.one_of(0, 0, 32)]
                step["tensor"] = [n + k for n, k in zip(step["tensor"], origin, strict=True)]
                step["args"]["origin"] = origin
        elif d.chance(0.5):
            places = [[i * tile[0], j * tile[1]] for i in range(down + 1) for j in range(across)]
            step["args"] = {"order": [d.one_of(*places) for _ in range(d.number(1, 5))]}
        if by_reference:
            step["ref"] = list(
                d.any(lambda s: not isinstance(d.element(s), (BufferType, TupleType))).at
            )
        d.add("LinearOffChipLoad", **step)

    return make


def integers(d: Drawer):
    """Numbers that lie in memory; tiles of them are read by nothing else."""
    cols = d.number(1, 2 * d.t + 1)
    tensor = [d.number(1, 3), cols * d.number(1, 2)]
    (s,) = d.add("LinearOffChipLoad", load_tile=[1, cols], tensor=tensor, dtype="int32")
    d.live.remove(s)
    d.add("FlatMap", [s], fn=["integers", {}], args={"rank": d.one_of(0, 1, 2)})


def linear_store(d: Drawer):
    s = d.tile(
        d.one_of(d.dtype, "fp32", "bf16"),
        suits=lambda s: static(d, s) and d.type(s).count.is_Integer,
        full=True,
        regular=True,
    )
    if not d.type(s).count.is_Integer or not d.items(s):
        raise CannotDrawError
    width = d.one_of(1, 2, 3)
    more = {"backwards": True} if d.chance(0.3) else {}
    for trim in ([1, 1], [1, 0], [0, 1], [0, 0]):  # the tensor is as small as its last tiles allow
        try:
            return d.add("LinearOffChipStore", [s], width=width, trim=trim, **more)
        except RunError:
            continue
    raise CannotDrawError


def copied(d: Drawer):
    """A tensor loaded tile by tile and stored again: the last tiles are partial on both sides."""
    rows = d.size()
    cols = d.size()
    down = d.number(1, 3)
    across = d.number(1, 3)
    trim = [min(d.number(0, 2), rows - 1), min(d.number(0, 2), cols - 1)]
    (s,) = d.add(
        "LinearOffChipLoad",
        load_tile=[rows, cols],
        tensor=[down * rows - trim[0], across * cols - trim[1]],
    )
    if d.dtype == "fp32" and d.chance(0.5):
        (s,) = d.add("Map", [s], fn=["exp", {}])
    d.add("LinearOffChipStore", [s], width=across, trim=trim)


def random_load(d: Drawer):
    down = d.number(1, 3)
    across = d.number(1, 4)
    tile = (d.size(), d.size())
    a = d.pick(
        lambda s: (
            isinstance(e := d.element(s), ScalarType)
            and all(v is None or v < down * across for v, _ in d.items(s))
            and e.bits > 2
        ),
        lambda: d.source(scalar=d.one_of(8, 32), most=down * across - 1),
    )
    d.add("RandomOffChipLoad", [a], **_by_address(d, down, across, tile))


def _by_address(d: Drawer, down: int, across: int, tile: tuple[int, int]) -> dict[str, Any]:
    """Arguments of a load from a tensor of so many tiles, the last ones partial."""
    tensor = [down * tile[0], across * tile[1]]
    return {
        "load_tile": list(tile),
        "tensor": [n - d.number(0, of - 1) for n, of in zip(tensor, tile, strict=True)],
        "dtype": d.one_of(d.dtype, d.dtype, "fp32", "bf16"),
    }


def random_store(d: Drawer) -> Live:
    dtype = d.one_of(d.dtype, d.dtype, "fp32", "bf16")
    s = d.tile(dtype, fixed=True, suits=lambda s: static(d, s), full=d.chance(0.5))
    down, across, (rows, cols) = d.number(1, 3), d.number(1, 3), sizes(d, s)
    a = d.like(s, scalar=d.one_of(8, 32), most=down * across - 1)
    return d.add("RandomOffChipStore", [a, s], tensor=[down * rows, cols * across])[0]


def read_again(d: Drawer):
    """A tensor that is loaded when all that is stored to it has been acknowledged."""
    acks = random_store(d)
    store = d.built.stream(acks.at).node
    rank = d.rank(acks)
    (whole,) = d.add("Promote", [acks])
    (whole,) = d.add("Accum", [whole], fn=["all_read", {}], args={"rank": rank + 1})
    tile = store.inputs[1].type.tile
    d.add(
        "LinearOffChipLoad",
        load_tile=[tile.rows.value, tile.cols.value],
        ref=list(whole.at),
        again=acks.at[0],
    )


def in_place(d: Drawer):
    """Tiles of a tensor that are put elsewhere in it when all of them are in a buffer."""
    down, across = d.number(1, 3), d.number(1, 3)
    given = _by_address(d, down, across, (d.size(), d.size()))
    numbers: dict[str, Any] = {"scalar": d.one_of(8, 32), "most": down * across - 1}
    if d.chance(0.3):
        (s,) = d.add("LinearOffChipLoad", inout=True, **given)
    else:
        (s,) = d.add("RandomOffChipLoad", [d.source(**numbers)], inout=True, **given)
    load = s.at[0]
    if d.type(s).tile.dtype == "fp32" and d.chance(0.5):
        (s,) = d.add("Map", [s], fn=["exp", {}])
    (whole,) = d.add("Promote", [s])
    (held,) = d.add("Bufferize", [whole], args={"rank": d.rank(whole)})
    (s,) = d.add("Streamify", [held])
    d.add("RandomOffChipStore", [d.like(s, **numbers), s], changes=load)


def bufferize(d: Drawer, regular: bool = False) -> Live:
    if regular:
        return d.buffers(d.number(0, 2), d.number(0, 1), regular=True)
    s = d.tile(None, suits=lambda s: static(d, s))
    memory = {"memory": d.one_of("cache", "other")} if d.chance(0.4) else {}
    if memory and d.chance(0.4):  # two write it
        other = d.source(d.number(0, 2), tile=(d.size(), d.size()), dtype=d.type(s).tile.dtype)
        d.add("Bufferize", [other], args={"rank": d.number(0, d.rank(other)), **memory})
    return d.add("Bufferize", [s], args={"rank": d.number(0, d.rank(s)), **memory})[0]


def buffers(d: Drawer, suits: Callable | None = None, regular: bool = False) -> Live:
    """A stream of references to buffers."""

    def ok(s: Live) -> bool:
        return isinstance(d.element(s), BufferType) and (suits is None or suits(s))

    def new() -> Live:
        s = bufferize(d, regular)
        if not ok(s):
            raise CannotDrawError
        return s

    return d.pick(ok, new)


def _static_buffer(d: Drawer, s: Live) -> bool:
    buffer = d.type(s).buffer
    return bool(buffer.shape) and buffer.static


def streamify(how: str) -> Callable:
    def make(d: Drawer):
        affine = how == "affine"
        turns = d.one_of("once", "repeat", "list", "ref") if affine else how
        s = buffers(
            d,
            lambda s: (
                (not affine or _static_buffer(d, s))
                and (turns != "ref" or s.fixed)
                and (turns != "list" or d.type(s).shape[-1].value is not None)
            ),
            affine or (turns == "list" and d.chance(0.3)),
        )
        args: dict[str, int | list[int]] = {}
        if affine:
            size = math.prod(x.number for x in d.type(s).buffer.shape)
            n = d.number(1, 3)
            k = d.number(1, 2)
            step = d.number(0, max(0, (size - 1) // max(n * k - 1, 1)))
            args = {
                "shape": [n] if k == 1 else [n, k],
                "stride": [step] if k == 1 else [step, step],
            }
        read(d, s, turns, args)

    return make


def read(d: Drawer, s: Live, turns: str, args: dict) -> None:
    """A Streamify of buffers, each as often as ``turns`` says."""
    if turns == "repeat":
        args["repeat"] = d.number(1, 3)
    if turns == "list":
        args["repeat"] = [d.number(1, 3) for _ in range(d.type(s).shape[-1].number)]
    if turns == "ref":
        d.add("Streamify", [s], args=args, ref=list(d.inner(s, d.number(0, 2)).at))
    else:
        d.add("Streamify", [s], args=args)


def streamify_matrix(d: Drawer) -> None:
    """A buffer that is a matrix, read in its own tiles or in physical ones."""
    rows, cols = d.number(1, 2) * d.t, d.number(1, 2) * d.t
    tiles = d.source(d.number(1, 2), tile=(rows, cols), regular=True, full=True)
    s = d.add("Bufferize", [tiles], args={"rank": 1})[0]
    size = math.prod(x.number for x in d.type(s).buffer.shape)
    wide = d.number(1, size)
    stored = [[i // wide * rows, i % wide * cols] for i in range(size)]
    tile = d.one_of((rows, cols), (d.t, d.t))
    places = []
    for _ in range(d.number(1, 4)):
        row, col = stored[d.number(0, size - 1)]
        inner = d.number(0, rows // tile[0] - 1), d.number(0, cols // tile[1] - 1)
        places.append([row + inner[0] * d.t, col + inner[1] * d.t])
    args = {"stored": stored, "tile": list(tile), "places": places}
    read(d, s, d.one_of("once", "repeat", "list", "ref"), args)
