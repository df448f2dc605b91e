"""Each rule of the `stepsim` timing on the smallest graph that shows it, with the cycles worked out
by hand.
"""

from dataclasses import replace

import pytest
from penstock.machine.errors import RunError
from penstock.model.stepsim import run, tokens
from penstock.testing.stepsim_graphs import (
    Builder,
    chain,
    function,
    load,
    machine,
    map_of,
    out,
    sink,
    source,
)

ROUTE = dict(n=2, rank=0, tiles=1, write_back_mu=False)


def _to(g):
    """Selectors: the run gives them."""
    return g.unit("to", "stream", first=0)


# -- channels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth, interval", [(1, 2), (2, 1), (5, 1)])
def test_a_channel_of_depth_1_passes_a_token_every_second_cycle(depth, interval):
    r = chain(stop=[0] * 20, on=machine(depth))
    take = [1 + interval * i for i in range(20)]
    assert list(r.channels[0].take) == take
    assert list(r.channels[0].accept) == [0] * depth + [t + 1 for t in take[:-depth]]


def test_a_token_is_seen_at_its_stamp_if_that_is_later():
    r = chain(stop=[0, 0, 0], stamp=[7, 8, 12])
    assert list(r.channels[0].take) == [7, 8, 12]
    assert r.cycles == 13


def test_an_end_is_seen_in_its_cycle_and_takes_none():
    assert chain(stop=[], on=machine()).cycles == 0


def test_a_waiting_unit_sees_an_end_in_the_cycle_of_the_last_step():
    """The token that a chunk holds back leaves when its stream ends: a cycle before the one that
    left with the end itself is visible.
    """
    g = Builder("end")
    copies = g.unit("copies", "partition", [source(g, [0, 0], "x"), _to(g)], **ROUTE)
    ends = [
        g.unit(f"hold{i}", "reshape", [copies], dim=0, chunk=1, pad=False, add_outer=True)
        for i in range(2)
    ]
    for i, end in enumerate(ends):
        sink(g, end, f"end{i}")
    r = run(g.graph(), machine(), trace=True, sources={1: tokens([(0, (1, 0)), (0, (2, 0))])})
    first, last = (r.channels[c.id].accept.tolist() for c in g.channels if "->end" in c.name)
    assert (first, last) == ([3], [4])


# -- roofline -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, cycles",
    [
        ({}, 16),  # compute: 8 x 4 x 32 / 64
        (dict(compute_bw=60), 18),  # rounded up
        (dict(compute_bw=4096), 8),  # load: 8 x 16 x 4 / 64
        (dict(compute_bw=4096, onchip_bw=100), 6),
    ],
)
def test_map_takes_the_longest_of_load_and_compute(change, cycles):
    g = Builder("roofline")
    u = load(g, 1, rows=8, cols=16)
    u = g.unit("map", "map", [u], **map_of("f", "elementwise", 8, 1))
    sink(g, u)
    r = run(g.graph(), machine(**change), trace=True)
    assert r.channels[1].accept[0] - r.channels[0].accept[0] == 1 + cycles
    assert r.busy[1] == cycles


def test_a_streamed_tile_costs_no_load_and_a_stored_one_is_charged_to_both_sides():
    steps = [
        ("map", map_of("f", "elementwise", 0, 1)),
        ("map", map_of("f", "elementwise", 0, 1, write_back_mu=True)),
        ("map", map_of("f", "elementwise", 0, 1)),
    ]
    r = chain(*steps, rows=8)
    assert list(r.busy[1:4]) == [0, 8, 8]


@pytest.mark.parametrize(
    "rule, b, flops, shape",
    [
        ("matmul", (16, 5), 2 * 4 * 16 * 5, [4, 5, 4]),
        ("matmul_t", (5, 16), 2 * 4 * 16 * 5, [4, 5, 4]),
        ("elementwise", (1, 16), 2 * 4 * 16, [4, 16, 4]),
        ("elementwise", (4, 1), 2 * 4 * 16, [4, 16, 4]),
    ],
)
def test_flops_and_shape_follow_from_the_operands(rule, b, flops, shape):
    g = Builder("rule")
    u = g.unit(
        "map",
        "map",
        [source(g, [0], "a", 4, 16), source(g, [0], "b", *b)],
        **map_of("f", rule, 2, 2),
    )
    sink(g, u)
    r = run(g.graph(), machine(compute_bw=1), trace=True)
    assert r.busy[2] == flops
    assert r.extra["tiles"][-1].tolist() == [shape]


def test_only_the_last_application_of_a_group_stores():
    step = function("f", "elementwise", 0, rank=1, init_rows=8, init_cols=16, write_back_mu=True)
    r = chain(("accum", step), stop=[0, 0, 1, 0, 0, 2], rows=8)
    assert r.busy[1] == 2 * 8
    assert out(r) == [0, 1]


# -- inputs held, or not --------------------------------------------------------------------------


def slow_end(kind, params, depth=1):
    """source -> unit under test -> a map of 10 cycles -> sink."""
    return chain(
        (kind, params),
        ("map", map_of("slow", "elementwise", 40, 1)),
        stop=[1] * 6,
        on=machine(depth),
    )


def test_map_holds_its_input_until_its_output_is_accepted():
    r = slow_end("map", map_of("f", "elementwise", 0, 1))
    assert list(r.channels[0].take) == list(r.channels[1].accept)
    # 10 cycles of work, and two more from the freed slot to the next token seen in it
    assert r.channels[1].accept[3] - r.channels[1].accept[2] == 12


def test_an_accumulator_takes_its_input_before_its_output_is_accepted():
    r = slow_end("accum", function("f", "elementwise", 0, rank=1, init_rows=1, init_cols=16))
    assert all(r.channels[0].take[2:] < r.channels[1].accept[2:])


def test_broadcast_takes_a_token_and_waits_until_all_outputs_have_room():
    g = Builder("broadcast")
    b = g.unit("copies", "broadcast", [source(g, [0] * 6)], n=2)
    sink(g, b, "fast")
    sink(g, g.unit("slow", "map", [b], **map_of("slow", "elementwise", 40, 1)), "end")
    r = run(g.graph(), machine(1), trace=True)
    assert list(r.channels[1].accept) == list(r.channels[2].accept)
    assert r.channels[0].take[3] < r.channels[1].accept[3]


# -- shape operators ------------------------------------------------------------------------------


def reshape(dim, chunk, pad=False, add_outer=False):
    return "reshape", dict(dim=dim, chunk=chunk, pad=pad, add_outer=add_outer)


@pytest.mark.parametrize(
    "step, stop, expected",
    [
        (("flatten", dict(lo=0, hi=1)), [0, 1, 0, 2, 3], [0, 0, 0, 1, 2]),
        (("flatten", dict(lo=1, hi=2)), [0, 1, 2, 3], [0, 1, 1, 2]),
        (("promote", dict(level=0)), [0, 1, 0, 2], [1, 2, 1, 3]),
        (("promote", dict(level=2)), [0, 1, 2], [0, 1, 3]),
        (reshape(0, 2), [0, 0, 0, 1], [0, 1, 0, 2]),
        (reshape(0, 2, pad=True), [0, 0, 1, 0, 2], [0, 1, 0, 2, 0, 3]),
        (reshape(0, 3, pad=True), [0] * 4, [0, 0, 1, 0, 0, 1]),
        (reshape(0, 3, pad=True, add_outer=True), [0] * 4, [0, 0, 1, 0, 0, 2]),
        (reshape(0, 2, pad=True, add_outer=True), [0] * 4, [0, 1, 0, 2]),
        (reshape(0, 1, add_outer=True), [0] * 3, [1, 1, 2]),
        (reshape(1, 1), [0, 1, 0, 2], [0, 2, 0, 3]),
        (reshape(1, 2), [0, 1, 0, 1, 1, 2], [0, 1, 0, 2, 1, 3]),
        (("repeat", dict(count=3)), [0, 2], [0, 0, 1, 0, 0, 3]),
    ],
)
def test_stops(step, stop, expected):
    assert out(chain(step, stop=stop)) == expected


def test_the_last_of_a_full_chunk_waits_for_the_next_token_or_the_end():
    r = chain(reshape(0, 1, add_outer=True), stop=[0, 0], stamp=[0, 40])
    assert list(r.channels[1].accept) == [40, 40]
    assert chain(reshape(0, 1), stop=[0, 0], stamp=[0, 40]).channels[1].accept[0] == 1


def test_repeat_sends_a_copy_a_cycle_and_takes_its_input_after_the_last():
    r = chain(("repeat", dict(count=4)), stop=[0, 0], on=machine(depth=8))
    assert list(r.channels[1].take) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert list(r.channels[0].take) == [5, 9]


@pytest.mark.parametrize(
    "repeat, passes",
    [([], [0, 0, 1]), ([2], [0, 0, 1, 0, 0, 2]), ([2, 2], [0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 3])],
)
def test_buffers_are_read_out_with_their_stops(repeat, passes):
    r = chain(
        ("bufferize", dict(rank=1)),
        ("streamify", dict(rank=1, repeat=repeat)),
        stop=[0, 0, 1, 0, 0, 2],
    )
    last = [*passes[:-1], passes[-1] + 1]
    assert out(r) == passes + last
    assert list(r.channels[1].stop) == [0, 1]


def test_buffers_fill_and_empty_at_a_tile_a_cycle():
    r = chain(
        ("bufferize", dict(rank=1)),
        ("streamify", dict(rank=1, repeat=[2])),
        stop=[0] * 9 + [1],
        on=machine(depth=32),
    )
    assert list(r.channels[0].take) == list(range(1, 11))
    assert list(r.channels[1].accept) == [10]
    assert list(r.channels[2].accept) == list(range(11, 31))
    assert list(r.channels[1].take) == [31]


def test_zip_feeds_a_map_of_pairs():
    g = Builder("pairs")
    z = g.unit("zip", "zip", [source(g, [0, 1], "a", 4, 16), source(g, [0, 1], "b", 16, 8)])
    sink(g, g.unit("map", "map", [z], **map_of("matmul", "matmul", 2, 2) | {"tuple_in": True}))
    r = run(g.graph(), machine(), trace=True)
    assert out(r) == [0, 1]
    assert r.extra["tiles"][-1].tolist() == [[4, 8, 4]] * 2
    assert r.busy[3] == 2 * (2 * 4 * 16 * 8 // 64)


# -- off-chip memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("rows, cols, lines", [(1, 1, 1), (1, 16, 1), (3, 17, 6), (7, 64, 28)])
def test_a_lone_tile_arrives_after_19_cycles_and_one_for_each_further_chunk(rows, cols, lines):
    g = Builder("load")
    sink(g, load(g, 1, rows, cols))
    for par in (1, 4):
        r = run(g.graph(), machine(par_dispatch=par, channels=32), trace=True)
        assert r.channels[0].accept[0] == 19 + -(-lines // par) - 1
        assert (r.lines_read, r.first_request) == (lines, 0)


def test_a_load_asks_for_the_next_tile_when_the_last_has_been_accepted():
    g = Builder("double buffering")
    sink(g, g.unit("slow", "map", [load(g, 6)], **map_of("slow", "elementwise", 1600 // 16 * 4, 1)))
    r = run(g.graph(), machine(1), trace=True)
    accept = r.channels[0].accept
    take = r.channels[0].take
    assert accept[1] == take[0] + 1  # loaded during the work on tile 0, waiting for its slot
    assert accept[0] == 19 and r.busy[0] == 6 * 19


def test_ports_are_served_in_the_graph_s_order():
    g = Builder("order")
    for name in ("a", "b", "c"):
        sink(g, load(g, 1, name=name), f"{name} end")
    graph = replace(g.graph(), ports=(2, 4, 0))
    r = run(graph, machine(channels=1), trace=True)
    assert [int(c.accept[0]) for c in r.channels] == [23, 19, 21]


def test_lines_of_one_cycle_go_to_channels_a_growing_step_apart():
    """The lines of 5 ports on 4 channels go to channels 0, 1, 3, 2 and again 2."""
    g = Builder("spread")
    for i in range(5):
        sink(g, load(g, 1, name=f"load{i}"), f"end{i}")
    r = run(g.graph(), machine(channels=4), trace=True)
    assert [int(c.accept[0]) for c in r.channels] == [19, 19, 19, 19, 21]


def test_a_store_holds_its_input_during_the_write():
    g = Builder("store")
    g.unit("store", "store", [source(g, [0] * 3)], par_dispatch=0)
    r = run(g.graph(), machine(), trace=True)
    assert list(r.channels[0].take) == [20, 39, 58]
    assert (r.cycles, r.lines_written) == (58 + 2, 3)


# -- errors ---------------------------------------------------------------------------------------


def test_a_deadlock_names_waiting_units_and_a_depth_frees_it():
    def graph():
        g = Builder("softmax")
        b = g.unit("copies", "broadcast", [source(g, [0, 0, 0, 1] * 2)], n=2)
        total = g.unit(
            "sum",
            "accum",
            [b],
            **function("add", "elementwise", 1, rank=1, init_rows=1, init_cols=16),
        )
        each = g.unit("each", "repeat", [total], count=4)
        sink(g, g.unit("divide", "map", [b, each], **map_of("div", "elementwise", 1, 2)))
        return g.graph()

    with pytest.raises(RunError, match="deadlock") as e:
        run(graph(), machine(1))
    for text in (
        "copies waits for room in copies.1->divide (full, depth 1)",
        "divide waits for a token on each.0->divide (empty)",
        "sum waits for a token on copies.0->sum (empty)",
        "make one of the full channels deeper: copies.1->divide",
    ):
        assert text in str(e.value)
    assert run(graph(), machine(4)).cycles > 0


# -- long runs ------------------------------------------------------------------------------------


def test_waits_longer_than_the_calendar():
    r = chain(
        ("map", map_of("f", "elementwise", 1, 1)),
        stop=[0] * 4,
        rows=10000,
        cols=1000,
        on=machine(compute_bw=100),
    )
    assert r.busy[1] == 4 * 100000
    assert r.cycles == 1 + 400000 + 2
