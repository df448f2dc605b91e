"""Routing, buffers, references and whole workloads, lowered and run on the model: values bit for
bit, sinks beat for beat.
"""

import penstock
import pytest
from on_the_model import CONFIG, SMALL, Case, ragged, refused
from penstock.frontend import (
    Accum,
    Bufferize,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Flatten,
    LinearOffChipLoad,
    LinearOffChipStore,
    Loop,
    Map,
    Partition,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reassemble,
    Reshape,
    ScalarType,
    Scan,
    Sink,
    Source,
    Streamify,
    StreamType,
    Zip,
    add,
    address,
    address_range,
    all_read,
    exp,
    last_tile_filter,
    matmul,
    maximum,
    retile_col,
    retile_row,
    retile_streamify,
    row_sum,
    scale,
)
from penstock.frontend.program import Program
from penstock.workloads.dealing import deal, turns


def test_reads_and_copies_by_reference():
    c = Case()
    r = c.source("r", (2, ragged(c, "D")), [[1, 2, 3], [4]], scalar=32)
    Sink(Expand(c.tiles("big", (2, 1), (6, 6), 1, 1), ref=r))
    Sink(Expand(c.tiles("small", (2, 1), (3, 3), 1, 1), ref=r))
    Sink(Expand(c.source("s", (2, 1), [[[0]], [[1]]], selector=2), ref=r))
    b = Bufferize(c.tiles("y", (2, ragged(c, "E")), (6, 3), 3, 1), rank=1)
    Sink(Streamify(b, ref=r))
    Sink(Streamify(b))
    c.run()


def test_affine_reads_running_sums_and_padding():
    c = Case()
    x = c.tiles("x", (2, 3), (8, 6), 3, 3)
    b = Bufferize(x, rank=1)
    Sink(Streamify(b, shape=(2, 2), stride=(1, 1)))
    Sink(Streamify(b, shape=(3,), stride=(0,), repeat=2))
    Sink(Scan(x, fn=add(), rank=1))
    Sink(Scan(c.tiles("m", (2, ragged(c, "E")), (6, 3), 3, 1), fn=maximum(), rank=1))
    padded, flags = Reshape(c.tiles("p", (5,), (1, 6)), dim=0, chunk=2, pad=0)
    Sink(Accum(padded, fn=retile_row(), rank=1))
    Sink(padded, name="padded")
    Sink(flags)
    c.run()


def test_a_buffer_read_as_a_matrix_in_other_tiles():
    c = Case()
    t = CONFIG.machine.t
    x = c.tiles("x", (2, 4), (2 * t, t), 4, 4)
    b = Bufferize(x, rank=1)
    stored = [(0, 0), (0, t), (2 * t, t), (2 * t, 0)]
    other = {"stored": stored, "tile": (t, 2 * t)}
    Sink(Streamify(b, **other, places=[(3 * t, 0), (t, 0), (t, 0)]))
    Sink(Streamify(b, **other, places=[(t * i, 0) for i in range(4)], repeat=2))
    c.run()


def test_a_feedback_loop():
    c = Case()
    to, close = deal(c.g, 7, 3)
    c.given |= turns(7, 3)
    route = Partition(c.tiles("x", (7,), (4, 4)), to, rank=0, outputs=3)
    close([route[0], Map(route[1], fn=exp()), route[2]])
    c.run()


def test_a_list_of_repeats_with_empty_buffers():
    c = Case()
    held = Bufferize(
        c.source(
            "x",
            (2, 3, ragged(c, "D")),
            [[[c.tile(4, 6) for _ in range(n)] for n in row] for row in ((0, 2, 0), (1, 0, 0))],
            tile=(4, 6),
        ),
        rank=1,
    )
    for repeat in ((1, 2, 1), (2, 1, 1), (1, 1, 3)):
        Sink(Streamify(held, repeat=repeat))
    c.run()


def test_routing_stores_and_sinks():
    c = Case()
    x = c.g.input("x", (10, 8))
    y = c.g.output("y", (10, 8))
    chosen = c.source(
        "chosen",
        (10,),
        [sorted({int(i) for i in c.rng.integers(0, 3, c.rng.integers(0, 3))}) for _ in range(10)],
        selector=3,
    )
    route = Partition(
        Flatten(LinearOffChipLoad(x, tile=(1, 8)), lo=0, hi=2), chosen, rank=0, outputs=3
    )
    parts = [Map(route[i], fn=scale(float(i + 1))) for i in range(3)]
    total = Accum(Reassemble(parts, chosen, rank=0), fn=add(), rank=1)
    LinearOffChipStore(total, y)
    for s in EagerMerge([Map(p, fn=row_sum()) for p in parts]):
        Sink(s)
    Sink(Accum(Reshape(total, dim=0, chunk=4, pad=0)[0], fn=retile_row(), rank=1))
    for s in (
        *Reshape(chosen, dim=0, chunk=4, pad=0),
        *Reshape(
            c.source("m", (2, ragged(c, "M")), [[1, 2, 3, 4], []], scalar=8), dim=0, chunk=3, pad=0
        ),
    ):
        Sink(s)
    a = c.source("a", (3,), [1, 2, 3], scalar=32)
    n = c.source("n", (3,), [2, 1, 4], scalar=32)
    for s in (
        FlatMap(a, n, fn=address_range(10), rank=1),
        FlatMap(n, fn=last_tile_filter(), rank=1),
        Map(a, n, fn=address(4)),
    ):
        Sink(s)
    c.run()


def test_what_the_machine_cannot_do_is_refused():
    assert "takes 576 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128" in refused(
        lambda c: Streamify(
            Bufferize(Source(graph=c.g, shape=(2, c.g.dynamic("N", most=9)), tile=(32, 32)), rank=1)
        )
    )
    assert (
        "its result takes 150 tiles of 4 x 4 of partial sums, an accumulator holds 64"
        in refused(
            lambda c: Accum(
                Expand(
                    Accum(
                        Source(graph=c.g, shape=(2, c.g.dynamic("N", most=100)), tile=(1, 4)),
                        fn=retile_row(),
                        rank=1,
                    ),
                    count=2,
                ),
                Source(graph=c.g, shape=(2, 2), tile=(4, 24)),
                fn=matmul(),
                rank=1,
            )
        )
    )
    assert "have full columns (a multiple of 4) side by side" in refused(
        lambda c: Accum(Source(graph=c.g, shape=(2, 3), tile=(8, 6)), fn=retile_col(), rank=1)
    )
    assert (
        "tiles of several bands (more than 4 rows) stand side by side in groups of static size"
        in refused(
            lambda c: Accum(
                Source(graph=c.g, shape=(2, c.g.dynamic("N")), tile=(8, 4)), fn=retile_col(), rank=1
            )
        )
    )
    assert "a row of 80 tiles tile {8, 4} fp32 takes 160 tiles of 4 x 4" in refused(
        lambda c: Accum(Source(graph=c.g, shape=(2, 80), tile=(8, 4)), fn=retile_col(), rank=1)
    )
    assert "references to buffers are counted on streams of their own" in refused(
        lambda c: Zip(
            Source(graph=c.g, shape=(2,), scalar=8),
            Bufferize(Source(graph=c.g, shape=(2, 3), tile=(4, 4)), rank=1),
        )
    )
    assert "this machine cuts rows of tiles of static width; columns of static tiles" in refused(
        lambda c: FlatMap(
            Source(graph=c.g, shape=(2,), tile=(c.g.dynamic("N"), 6)),
            fn=retile_streamify("cols", 3, mask=True),
        )
    )
    assert (
        "a tile of run-time size is cut by columns where it is one physical tile high or wide"
        in refused(
            lambda c: FlatMap(
                Accum(
                    Source(graph=c.g, shape=(2, 3), tile=(c.g.dynamic("N"), 8)), fn=add(), rank=1
                ),
                fn=retile_streamify("cols", mask=True),
            )
        )
    )
    assert "a band takes 65 tiles of 4 x 4, a row packer holds 64" in refused(
        lambda c: FlatMap(
            Source(graph=c.g, shape=(2,), tile=(4, 260)), fn=retile_streamify("rows", 2)
        )
    )
    assert (
        "operand B {60, N} takes 150 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128"
        in refused(
            lambda c: Map(
                Source(graph=c.g, shape=(2,), tile=(4, 60)),
                Source(graph=c.g, shape=(2,), tile=(60, c.g.dynamic("N", most=40))),
                fn=matmul(),
            )
        )
    )


@pytest.mark.parametrize(
    "shape, stride, started",
    [
        ((16,), (1,), True),
        ((2, 8, 2), (0, 2, 1), True),
        ((2, 16), (0, 1), False),
        ((6,), (1,), False),
        ((2, 3, 2), (1, 4, 3), False),
    ],
)
def test_a_walk_goes_on_in_the_next_row_of_tiles(shape, stride, started):
    c = Case()
    ref = {"ref": c.source("r", (2, ragged(c, "N")), [[1, 1], [0]], selector=2)} if started else {}
    Sink(
        LinearOffChipLoad(c.g.input("w", (14, 15)), tile=(4, 4), shape=shape, stride=stride, **ref)
    )
    c.run()


@pytest.mark.parametrize("level", [0, 1, 2, None])
def test_a_new_dimension_around_an_empty_one_is_empty(level):
    c = Case()
    x = c.source(
        "x",
        (3, 2, ragged(c, "D")),
        [[[c.tile(6, 4) for _ in range(n)] for n in part] for part in ((2, 0), (0, 1), (0, 0))],
        tile=(6, 4),
    )
    new = Promote(x, level=level)
    assert new.stream.shape[-1 - (3 if level is None else level)].value == (
        None if level in (1,) else 1
    )
    Sink(new)
    c.run()


def test_pairs_of_pairs():
    c = Case()
    a, b, d = (
        c.source(n, (2, ragged(c, n.upper())), [[1, 2], [3]], scalar=k)
        for n, k in (("a", 8), ("b", 3), ("d", 32))
    )
    Sink(
        Zip(
            Zip(a, b), Zip(d, c.source("s", (2, ragged(c, "S")), [[[0, 1], []], [[2]]], selector=3))
        )
    )
    c.run()


def test_the_symbolic_figure_holds_the_largest_buffers():
    """Two of 32 tiles one after the other, and small ones: the requirement is that of the large
    ones, which fill whole pages.
    """
    c = Case()
    Sink(
        Streamify(
            Bufferize(c.tiles("x", (8, ragged(c, "D")), (4, 4), 32, 32, *[8] * 6), rank=1), repeat=2
        )
    )
    (r,) = penstock.run(
        Program("case", {}, c.g, None, None, lambda seed: c.given), CONFIG, onchip_rule="paper"
    )
    assert r.onchip_peak_bytes == 2 * 32 * 64 and r.onchip_bytes == r.onchip_peak_bytes + 64


def test_traffic_and_flop_are_counted_where_two_sizes_are_ragged():
    """Buffers of 1, 2 and 5 tiles, read 4 times, once and twice: 16 tiles, not 3 x 8/3 x 7/3."""
    c = Case()
    held = Bufferize(c.tiles("x", (3, ragged(c, "D")), (4, 4), 1, 2, 5), rank=1)
    again = Streamify(
        held, ref=c.source("times", (3, ragged(c, "R")), [[0] * 4, [0], [0, 0]], scalar=8)
    )
    Sink(Accum(again, fn=add(), rank=2))
    w = LinearOffChipLoad(c.g.input("w", (4, 16)), tile=(4, 16), shape=(1,), stride=(1,), ref=again)
    Sink(Accum(w, fn=all_read(), rank=3))
    (r,) = c.run()
    assert (r.flops, r.offchip_bytes, r.dram_bytes) == (16 * 16, 16 * 4 * 64, 16 * 4 * 64)


@pytest.mark.parametrize("by", ["reference", "address"])
def test_a_read_after_the_acknowledgement_sees_what_was_stored(by):
    c = Case()
    y = c.g.output("y", (16, 8), "fp32")
    stored = RandomOffChipStore(
        c.source("at", (2, 4), [[3, 0, 2, 0], [1, 3, 6, 5]], scalar=8),
        c.tiles("x", (8,), (4, 4)),
        y,
    )
    whole = Accum(
        Flatten(Promote(stored), lo=0, hi=1), fn=all_read(), rank=1
    )  # one token when all are stored
    if by == "reference":
        Sink(LinearOffChipLoad(y, tile=(4, 4), ref=whole))
    else:
        places = FlatMap(
            Map(whole, c.source("zero", (1,), [0], scalar=8), fn=address(0)),
            c.source("n", (1,), [8], scalar=8),
            fn=address_range(8),
        )
        Sink(RandomOffChipLoad(places, y, tile=(4, 4)))
    c.run()


def test_tiles_off_chip_that_are_read_changed_and_written_in_a_loop():
    """A sum for each address: the next address waits for the acknowledgement of the one before."""
    c = Case()
    n = 6
    y = c.g.output("y", (8, 4), "fp32")
    acks = Loop(StreamType(ScalarType(1), (c.g.dynamic("A"),)), graph=c.g, name="acks")
    turn = c.source("turn", (n,), [0] + [1] * (n - 1), selector=2)
    gate = Flatten(
        Reassemble(c.source("first", (1,), [1], scalar=1), acks, turn, rank=0), lo=0, hi=1
    ).stream.assert_shape([n])
    at = Map(gate, c.source("at", (n,), [0, 1, 1, 0, 1, 1], scalar=8), fn=address(0))
    tiles = Map(RandomOffChipLoad(at, y, tile=(4, 4)), c.tiles("x", (n,), (4, 4)), fn=add())
    stored = Partition(
        RandomOffChipStore(Fifo(at, depth=2), tiles, y),
        c.source("keep", (n,), [0] * (n - 1) + [1], selector=2),
        rank=0,
        outputs=2,
    )
    acks.close(stored[0])
    Sink(stored[1])
    c.run()


@pytest.mark.parametrize(
    "name, params",
    [
        ("swiglu", dict(batch=16, dim=16, inter=32, tile_b=8, tile_inter=16)),
        ("moe", dict(tile_rows=16, regions=4)),
        ("attention", dict(parallel="dynamic", most=8, softmax="stable")),
    ],
)
def test_pages_in_use_stay_within_the_symbolic_figure(name, params):
    """Two of each buffer, by the text's equations (rule `paper`).

    The RTL's peak is the model's (tb/check.py).
    """
    for seed in (1, 2):
        (r,) = penstock.run(name, SMALL, params, seed=seed, onchip_rule="paper")
        assert 0 < r.onchip_peak_bytes <= r.onchip_bytes
    (fast,) = penstock.run(name, SMALL, params, seed=seed, values=False)
    assert (fast.cycles, fast.onchip_peak_bytes) == (r.cycles, r.onchip_peak_bytes)
