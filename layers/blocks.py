"""Parts of a layer's program, made of operators: what an imported program is written with.

Streams are of fp32 tiles. Tokens lie in tiles of ``height`` rows, [n] of {height, columns}; heads
[n, heads] of {tokens, width}. A product takes its operands in the dtype of its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd, prod

from ..frontend import (
    Accum,
    Bufferize,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Reshape,
    Sink,
    Stream,
    Streamify,
    TensorRef,
    TileType,
    TopK,
    add,
    address,
    address_range,
    all_read,
    cast,
    div,
    exp,
    expert_addresses,
    immediate,
    last_tile_filter,
    mask,
    matmul,
    maximum,
    mul,
    number,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_max,
    row_offset,
    row_sum,
    scale,
    sub,
    where,
)
from ..frontend.user_line import for_caller
from ..machine.errors import ProgramError

# ---- tokens in tiles, and heads
# --------------------------------------------------------------------------


def _tile(x: Stream) -> tuple[int, int]:
    """Rows and columns of a stream's tiles; 0 where the run decides."""
    assert isinstance(x.element, TileType)
    return x.element.rows.value or 0, x.element.cols.value or 0


@for_caller
def rows(tensor: TensorRef, height: int, again: int = 1) -> Stream:
    """The tensor in tiles of ``height`` rows, ``again`` so many times: [n]."""
    if tensor.rows % height:
        raise ProgramError(
            f"tiles of {height} rows do not divide the {tensor.rows} rows of {tensor.name}",
            remedy="set `rows` of the schedule to a divisor",
        )
    load = LinearOffChipLoad(
        tensor, tile=(height, tensor.cols), shape=(again, tensor.rows // height), stride=(0, 1)
    )
    return cast(Flatten(load, lo=0, hi=2), "fp32")


@for_caller
def each(tensor: TensorRef, x: Stream, at: Expert | None = None) -> Stream:
    """The one row of a tensor, or that of an expert, for every element of ``x``."""
    if at:
        return cast(Flatten(at.load(tensor, x, (1, tensor.cols), 1, 1), lo=0, hi=2), "fp32")
    load = LinearOffChipLoad(tensor, tile=(1, tensor.cols), shape=(1,), stride=(1,), ref=x)
    return cast(Flatten(load, lo=0, hi=1), "fp32")


@for_caller
def held(x: Stream) -> Stream:
    """The stream with room for all of it, where another way takes all before it gives its first."""
    return Fifo(x, depth=_count(x)).stream


@for_caller
def regroup(x: Stream, height: int) -> Stream:
    """Tokens in tiles of another height, of which one divides the other."""
    have, _ = _tile(x)
    if have and height and have % height and height % have:
        raise ProgramError(
            f"tiles of {have} rows cannot become tiles of {height}",
            remedy="set `rows` of the schedule to a divisor of both sequences, or to 1",
        )
    if height < have:
        return FlatMap(x, fn=retile_streamify("rows", height)).stream
    if height == have:
        return x
    return Accum(Reshape(x, dim=0, chunk=height // have)[0], fn=retile_row(), rank=1).stream


@for_caller
def heads(x: Stream, height: int, width: int) -> Stream:
    """Columns of tokens as heads: [n, heads] of {height, width}."""
    x = regroup(x, height)
    if _tile(x)[1] == width:
        return Promote(x, level=0).stream
    return FlatMap(x, fn=retile_streamify("cols", width), rank=1).stream


@for_caller
def beside(x: Stream, height: int) -> Stream:
    """Heads side by side again, tokens in tiles of ``height``."""
    return regroup(Accum(x, fn=retile_col(), rank=1).stream, height)


@for_caller
def split(x: Stream, turns: Stream, *widths: int) -> list[Stream]:
    """Columns in parts of these widths. ``turns``: for each piece of a tile, as wide as the parts'
    common divisor, the part that it belongs to.
    """
    size = gcd(*widths)
    count, outer = _count(x), x.shape[1].value if x.rank else None
    pieces = FlatMap(x, fn=retile_streamify("cols", size), rank=1)
    found = []
    for width, part in zip(
        widths, Partition(pieces, turns, rank=0, outputs=len(widths)), strict=True
    ):
        s = part.assert_shape((count * (width // size),))
        if width > size:
            s = Accum(Reshape(s, dim=0, chunk=width // size)[0], fn=retile_col(), rank=1).stream
        found.append(Reshape(s, dim=0, chunk=outer)[0] if outer else s)
    return found


@for_caller
def join(turns: Stream, *parts: Stream) -> Stream:
    """Columns of parts beside each other; ``turns`` as in `split`."""
    size = gcd(*(_tile(p)[1] for p in parts))
    pieces = []
    for p in parts:
        flat = Flatten(p, lo=0, hi=1).stream if p.rank else p
        pieces.append(FlatMap(flat, fn=retile_streamify("cols", size)).stream)
    found = Reassemble(*pieces, turns, rank=0).stream
    found = found.assert_shape((*turns.shape, 1))
    return Accum(Flatten(found, lo=0, hi=1), fn=retile_col(), rank=1).stream


def _count(x: Stream) -> int:
    """Elements of a stream."""
    return prod(d.value or 1 for d in x.shape)


@for_caller
def store(x: Stream, tensor: TensorRef) -> None:
    """The result in the order of its rows."""
    LinearOffChipStore(cast(x, tensor.dtype), tensor, name=f"store_{tensor.name}")


# ---- norms and products
# --------------------------------------------------------------------------


@for_caller
def mean(x: Stream) -> Stream:
    """Mean of each row."""
    return Map(Map(x, fn=row_sum()), fn=scale(1 / _tile(x)[1])).stream


@for_caller
def mean_of_heads(x: Stream) -> Stream:
    """Mean over the heads of [n, heads]: [n]."""
    return Map(Accum(x, fn=add(), rank=1), fn=scale(1 / (x.shape[1].value or 1))).stream


@for_caller
def rms_norm(x: Stream, epsilon: float) -> Stream:
    """Rows over the root of their mean square."""
    root = Map(Map(mean(Map(x, fn="square").stream), fn=immediate("add", epsilon)), fn="rsqrt")
    return Map(Fifo(x, depth=1), root, fn=mul()).stream


@for_caller
def softmax(x: Stream, sink: Stream | None = None) -> Stream:
    """Softmax of each row, of which ``sink`` is another score."""
    top = Map(x, fn=row_max()).stream
    if sink is not None:
        top = Map(top, sink, fn=maximum()).stream
    powers = Map(Map(Fifo(x, depth=1), top, fn=sub()), fn=exp()).stream
    total = _with_sink(Map(powers, fn=row_sum()).stream, top, sink)
    return Map(Fifo(powers, depth=1), total, fn=div()).stream


@for_caller
def _with_sink(total: Stream, top: Stream, sink: Stream | None) -> Stream:
    """The sum of powers, and that of a sink."""
    if sink is None:
        return total
    own = Map(Map(Map(top, Fifo(sink, depth=1), fn=sub()), fn=scale(-1.0)), fn=exp())
    return Map(total, Fifo(own, depth=1), fn=add()).stream


@for_caller
def _each_head(tensor: TensorRef, batch: int, rows: int) -> Stream:
    """Numbers of heads, a column {rows, 1} for each: [batch, heads / rows]."""
    shape = (batch, tensor.rows // rows)
    load = LinearOffChipLoad(tensor, tile=(rows, 1), shape=shape, stride=(0, 1))
    return cast(Flatten(load, lo=1, hi=2), "fp32")


@for_caller
def linear(
    x: Stream,
    weight: TensorRef,
    bias: TensorRef | None = None,
    *,
    columns: int = 0,
    inner: int = 0,
    at: Expert | None = None,
) -> Stream:
    """Product with a weight [out, in], and a bias.

    The weight comes in tiles of ``columns`` results of ``inner`` summands each (0: all). ``at``:
    the expert whose part of the weight it is.
    """
    out = weight.rows // (at.count if at else 1)
    parts = _parts(weight, "columns", out, columns)
    steps = _parts(weight, "inner", weight.cols, inner)
    tile = (out // parts, weight.cols // steps)
    if at and parts * steps > 1 and not _tile(x)[0]:
        raise ProgramError(
            f"{weight.name} comes in {parts * steps} tiles, rows as many as the run sends",
            rule="dynamic tiling takes weights whole",
            remedy="set `tile_rows` of the schedule above 0, or `columns` and `inner` to 0",
        )
    if at:
        loaded = at.load(weight, x, tile, parts, steps)
    else:
        loaded = LinearOffChipLoad(
            weight, tile=tile, shape=(parts, steps), stride=(steps, 1), ref=x
        ).stream
    x = cast(x, weight.dtype)
    if parts == 1:
        loaded = Flatten(loaded, lo=1, hi=2).stream  # no parts
    else:
        x = Expand(x, count=parts).stream
    if steps > 1:
        pieces = FlatMap(x, fn=retile_streamify("cols", tile[1]), rank=1)
        y = Accum(pieces, loaded, fn=matmul(transposed=True), rank=1).stream
    else:
        y = Map(x, Flatten(loaded, lo=0, hi=1), fn=matmul(transposed=True)).stream
    if parts > 1:
        y = Accum(y, fn=retile_col(), rank=1).stream
    return y if bias is None else Map(y, each(bias, y, at), fn=add()).stream


def _parts(weight: TensorRef, key: str, whole: int, size: int) -> int:
    """Tiles of so many results, or summands."""
    if size and whole % size:
        raise ProgramError(
            f"tiles of {size} do not divide the {whole} of {weight.name}",
            remedy=f"set `{key}` of the schedule to a divisor",
        )
    return whole // size if size else 1


# ---- attention
# --------------------------------------------------------------------------


@for_caller
def repeated(x: Stream, groups: int) -> Stream:
    """Each head so many times: [n, heads * groups]."""
    return x if groups == 1 else Flatten(Expand(x, count=groups), lo=0, hi=1).stream


@for_caller
def over_heads(x: Stream, count: int) -> Stream:
    """A tile of each element of [n] for all its heads: [n, count]."""
    return Expand(x, count=count).stream


@for_caller
def attention(
    q: Stream,
    k: Stream,
    v: Stream,
    dtype: str,
    *,
    factor: float,
    groups: int = 1,
    added: Stream | None = None,
    diagonal: Stream | None = None,
    sink: TensorRef | None = None,
) -> Stream:
    """Attention of [n, heads] of {tokens, width} over keys and values in tiles of their own.

    ``added``: a mask that is added to the scores. ``diagonal``: numbers n, one a tile: row r sees
    the columns below r + n. ``sink``: a score of each head's that has no value.
    """
    k, v = repeated(cast(k, dtype), groups), repeated(cast(v, dtype), groups)
    scores = Map(Map(cast(q, dtype), k, fn=matmul(transposed=True)), fn=scale(factor)).stream
    if added is not None:
        scores = Map(scores, added, fn=add()).stream
    if diagonal is not None:
        scores = Map(scores, diagonal, fn=mask("diagonal")).stream
    own = _each_head(sink, q.shape[0].value or 1, 1) if sink else None
    return Map(cast(softmax(scores, own), dtype), Fifo(v, depth=1), fn=matmul()).stream


@dataclass(frozen=True)
class Cache:
    """Keys or values of all heads of all requests, with room for the rows that come.

    Attributes
    ----------
    tensor
        A head's rows lie in ``room`` tiles of ``tile`` rows.
    place
        Row of the tensor of each head's new row: numbers [heads of all requests].
    """

    tensor: TensorRef
    tile: int
    room: int
    place: Stream


@dataclass(frozen=True)
class Lengths:
    """Rows of each head's cache that take part: its index, the tiles that hold them and the next
    one, and how many of the last are valid; numbers [heads of all requests].
    """

    head: Stream
    tiles: Stream
    valid: Stream


@for_caller
def cached_attention(
    q: Stream,
    keys: tuple[Cache, Stream],
    values: tuple[Cache, Stream],
    lengths: Lengths,
    *,
    factor: float,
    groups: int = 1,
    sink: TensorRef | None = None,
) -> Stream:
    """Attention of one token a request over caches of any length and a new row each, which is put
    into the cache: [n, heads] of {1, width}.

    The scores of a request stay on chip until their maximum is known.
    """
    cache = keys[0]
    count = lengths.head.shape[0].value or 1
    by_head = q.shape[1].value or 1
    dtype = cache.tensor.dtype
    if groups > 1:
        q = Accum(Reshape(q, dim=0, chunk=groups)[0], fn=retile_row(), rank=1).stream
    q = Fifo(cast(Flatten(q, lo=0, hi=1), dtype), depth=count).stream
    addresses = FlatMap(lengths.head, lengths.tiles, fn=address_range(cache.room), rank=1).stream
    k = _appended(*keys, addresses, lengths)
    # values are not read before the largest score is known: so long their addresses wait
    later = Fifo(addresses, depth=cache.room * count).stream
    v = _appended(*values, later, lengths)
    every = Expand(Promote(q, level=0), ref=k, rank=1)
    scores = Map(Map(every, k, fn=matmul(transposed=True)), fn=scale(factor)).stream
    top = Map(Accum(scores, fn=maximum(), rank=1), fn=row_max()).stream
    own = None
    if sink:
        own = Flatten(_each_head(sink, count * groups // by_head, groups), lo=0, hi=1).stream
        top = Map(top, own, fn=maximum()).stream
    waiting = Streamify(Bufferize(scores, rank=1))
    powers = Map(
        Map(waiting, Expand(Promote(top, level=0), ref=waiting, rank=1), fn=sub()), fn=exp()
    ).stream
    total = _with_sink(Map(Accum(powers, fn=add(), rank=1), fn=row_sum()).stream, top, own)
    out = Map(Accum(cast(powers, dtype), v, fn=matmul(), rank=1), total, fn=div()).stream
    if groups > 1:
        out = FlatMap(out, fn=retile_streamify()).stream
    return Reshape(out, dim=0, chunk=by_head)[0]


@for_caller
def _appended(cache: Cache, new: Stream, addresses: Stream, lengths: Lengths) -> Stream:
    """Tiles of the rows that take part, the new row below them: [heads, tiles]. It is stored at its
    place when the head's tiles have been read.
    """
    tensor, count = cache.tensor, lengths.head.shape[0].value or 1
    loaded = RandomOffChipLoad(addresses, tensor, tile=(cache.tile, tensor.cols)).stream
    which = FlatMap(lengths.tiles, fn=last_tile_filter(), rank=1).stream
    last, rest = Partition(loaded, which, rank=0, outputs=2)
    row = Flatten(cast(new, tensor.dtype), lo=0, hi=1).stream
    cut = Map(last, Fifo(lengths.valid, depth=count), fn=row_offset())
    filled = Map(cut, Fifo(row, depth=count), fn=row_append())
    read = Map(Accum(loaded, fn=all_read(), rank=1), fn=number("mul", 0))
    at = Map(read, Fifo(cache.place, depth=count), fn=address(1))
    Sink(RandomOffChipStore(at, Fifo(row, depth=count), tensor), name=f"kept_{tensor.name}")
    selector = Fifo(which, depth=cache.room * count)
    return Flatten(Reassemble(filled, rest, selector, rank=0), lo=0, hi=1).stream


# ---- experts
# --------------------------------------------------------------------------


@dataclass(frozen=True)
class Expert:
    """Expert whose weights a product takes: ``number``, or, where experts take turns in one region,
    that which ``which`` names, counted from ``number``.
    """

    count: int
    number: int
    which: Stream | None = None

    def load(
        self, tensor: TensorRef, x: Stream, tile: tuple[int, int], parts: int, steps: int
    ) -> Stream:
        """The expert's tiles for every element of ``x``: [.., parts, steps]."""
        per = tensor.rows // self.count
        if self.which is None:
            return LinearOffChipLoad(
                tensor,
                tile=tile,
                origin=(self.number * per, 0),
                shape=(parts, steps),
                stride=(steps, 1),
                ref=x,
            ).stream
        count = parts * steps
        addresses = FlatMap(self.which, fn=expert_addresses(count), rank=1).stream
        if self.number:
            addresses = Map(addresses, fn=number("add", self.number * count)).stream
        return Reshape(RandomOffChipLoad(addresses, tensor, tile=tile), dim=0, chunk=steps)[0]


@for_caller
def top_k(
    scores: Stream, k: int, choices: tuple[Stream, Stream] | None = None
) -> tuple[Stream, tuple[Stream, Stream]]:
    """The k largest of each row, {1, k}; and whose they are, all at once and one by one, or the
    ``choices`` in their place.
    """
    chosen, order, value = TopK(regroup(scores, 1), k=k)
    largest = Accum(value, fn=retile_col(), rank=1).stream
    if choices is None:
        return largest, (chosen, order)
    Sink(chosen)
    Sink(order)
    return largest, choices


@for_caller
def picked(x: Stream, order: Stream, unit: TensorRef) -> Stream:
    """Elements of each row in the ``order`` of a top-k of as many columns: {1, k}."""
    at = _rows_of(unit, order)
    row = Fifo(regroup(x, 1), depth=_count(x) * (_tile(x)[0] or 1))
    every = Expand(Promote(row, level=0), ref=at, rank=1)
    found = Map(where(at, every, at), fn=row_sum())  # at is 0 where it is not 1
    return Accum(found, fn=retile_col(), rank=1).stream


@for_caller
def marked(order: Stream, unit: TensorRef) -> Stream:
    """A row of 0, and 1 where a top-k has chosen: as long as those of ``unit``."""
    return Accum(_rows_of(unit, order), fn=add(), rank=1).stream


@for_caller
def _rows_of(unit: TensorRef, order: Stream) -> Stream:
    """The row of ``unit`` of each choice: [n, k]."""
    addresses = FlatMap(order, fn=expert_addresses(1)).stream
    return cast(RandomOffChipLoad(addresses, unit, tile=(1, unit.cols)), "fp32")


@for_caller
def experts(
    x: Stream,
    chosen: tuple[Stream, Stream],
    weights: Stream,
    body: Callable[[Stream, Expert], Stream],
    count: int,
    *,
    tile_rows: int = 0,
    regions: int = 0,
) -> Stream:
    """Rows through the experts that are chosen for them, times their weights {1, k}, summed: [rows]
    of {1, columns}.

    ``tile_rows``: rows of an expert's tiles, 0: all its rows, as many as the run sends it.
    ``regions``: experts take turns in so many, 0: each has its own.
    """
    regions = regions or count
    if count % regions:
        raise ProgramError(
            f"{regions} regions do not divide {count} experts",
            remedy="set `regions` of the schedule to a divisor",
        )
    total = weights.shape[0].value or 1
    k = _tile(weights)[1]
    single = Fifo(regroup(x, 1), depth=total)
    routed = Partition(single, chosen[0], rank=0, outputs=count)
    each_weight = FlatMap(weights, fn=retile_streamify("cols", 1), rank=1)
    weighed = Partition(each_weight, Fifo(chosen[1], depth=total * k), rank=0, outputs=count)
    packed = _packed(routed, tile_rows)
    made = []
    for r in range(regions):
        made += _region(packed, r * (count // regions), count // regions, count, body)
    products = []
    for i in range(count):
        done = made[i] if tile_rows == 1 else FlatMap(made[i], fn=retile_streamify(mask=True))
        weight = Fifo(weighed[i], depth=total)
        products.append(Map(done, weight.stream.assert_shape(done.shape), fn=mul()))
    found = Reassemble(products, Fifo(chosen[0], depth=total), rank=0).stream
    return Accum(found.assert_shape((total, k)), fn=add(), rank=1).stream


@for_caller
def _packed(routed: Iterable[Stream], tile_rows: int) -> list[Stream]:
    """Each expert's rows in tiles."""
    found = []
    for x in routed:
        if tile_rows == 1:
            found.append(x)
            continue
        chunks = Reshape(x, dim=0, chunk=tile_rows, pad=0)[0] if tile_rows else Promote(x).stream
        found.append(Accum(chunks, fn=retile_row(), rank=1).stream)
    return found


@for_caller
def _region(
    packed: list[Stream], first: int, per: int, count: int, body: Callable[[Stream, Expert], Stream]
) -> list[Stream]:
    """Results of ``per`` experts that take turns."""
    if per == 1:
        return [body(packed[first], Expert(count, first))]
    tiles, which = EagerMerge(packed[first : first + per])
    made = body(tiles, Expert(count, first, which))
    return list(Partition(made, Fifo(which, depth=4), rank=0, outputs=per))
