"""Routing, references, random access and what makes several tokens of one in the `stepsim` timing:
cycles worked out by hand from its rules.
"""

import pytest
from penstock.machine.errors import RunError
from penstock.model.stepsim import run, selector_words, tile_word, tokens
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


class Streams(Builder):
    """A builder with streams whose tokens are given to the run."""

    def __init__(self):
        super().__init__("routing")
        self.given = {}

    def stream(self, items, name="stream", first=0):
        """A stream of (stop, word or two words)."""
        u = self.unit(name, "stream", first=first)
        self.given[u] = tokens(items)
        return u

    def selectors(self, *targets, stops=None, name="selector"):
        return self.stream(
            [
                (s, selector_words(x))
                for x, s in zip(targets, stops or [0] * len(targets), strict=True)
            ],
            name,
            first=1,
        )

    def tiles(self, *rows, stops=None, name="tiles"):
        return self.stream(
            [(s, tile_word(n, 16, n)) for n, s in zip(rows, stops or [0] * len(rows), strict=True)],
            name,
        )

    def run(self, on=None):
        self.result = run(self.graph(), on or machine(depth=8), trace=True, sources=self.given)
        return self.result

    def into(self, name):
        """Accept cycles, stops and words of the channel into a unit."""
        (c,) = [c for c in self.channels if c.name.endswith(f"->{name}")]
        trace = self.result.channels[c.id]
        words = self.result.extra["words"][c.id]
        return trace.accept.tolist(), trace.stop.tolist(), words[:, 0].tolist()

    def rows_into(self, name):
        return [w >> 41 for w in self.into(name)[2]]


ROUTE = dict(tiles=1, write_back_mu=False)


# -- off-chip memory ------------------------------------------------------------------------------


def test_a_load_by_reference_takes_a_token_and_loads_its_tiles_one_by_one():
    r = chain(
        ("load_ref", dict(rows=1, cols=16, shape=[2], par_dispatch=0)),
        stop=[0, 1],
        on=machine(depth=4),
    )
    assert list(r.channels[1].accept) == [
        20,
        39,
        58,
        77,
    ]  # 19 cycles each, the first asked for when the reference is seen
    assert list(r.channels[1].stop) == [0, 1, 0, 2]
    assert list(r.channels[0].take) == [1, 39]


def test_a_load_at_an_address_is_one_tile_with_the_address_s_stop():
    r = chain(("load_ref", dict(rows=3, cols=16, shape=[], par_dispatch=0)), stop=[0, 2])
    assert (list(r.channels[1].accept), out(r)) == ([22, 43], [0, 2])
    assert r.lines_read == 6


def test_a_store_at_an_address_acknowledges_and_then_takes_both():
    g = Streams()
    at = g.stream([(0, 5), (1, 7)], "at")
    data = g.tiles(2, 2, name="data")
    g.unit("end", "sink", [g.unit("store", "store_at", [at, data], par_dispatch=0)])
    r = g.run()
    assert g.into("end")[:2] == ([21, 41], [0, 1])
    assert [list(r.channels[i].take) for i in (0, 1)] == [[21, 41]] * 2
    assert (r.lines_written, r.cycles) == (
        4,
        41 + 3,
    )  # the off-chip memory ends three cycles after it


# -- partition ------------------------------------------------------------------------------------


def partition(g, data, selector, n=2, rank=0, **more):
    p = g.unit("route", "partition", [data, selector], n=n, rank=rank, **ROUTE | more)
    for i in range(n):
        g.unit(f"out{i}", "sink", [p])
    return p


def test_a_partition_moves_a_token_a_cycle_to_every_target():
    g = Streams()
    partition(g, g.tiles(1, 2, 3, 4), g.selectors({0}, {1}, {0, 1}, {1}))
    g.run()
    assert g.rows_into("out0") == [1, 3] and g.rows_into("out1") == [2, 3, 4]
    assert g.into("out0")[0] == [2, 4] and g.into("out1")[0] == [3, 4, 5]


def test_a_token_of_an_empty_selector_is_dropped_at_no_cost():
    g = Streams()
    partition(g, g.tiles(1, 2, 3), g.selectors({0}, set(), {1}))
    g.run()
    assert (g.into("out0")[0], g.into("out1")[0]) == ([2], [4])
    assert g.result.busy[2] == 2


@pytest.mark.parametrize("dim, cycles", [(2048, 65), (4096, 129)])
def test_a_loaded_row_costs_its_transfer_and_the_switch(dim, cycles):
    """The published figures for a token of the two models: 65 and 129 cycles."""
    g = Streams()
    partition(g, load(g, 3, rows=1, cols=dim), g.selectors({0}, {1}, {0, 1}, stops=[0, 0, 1]))
    r = g.run(machine(depth=8, element_bytes=2))
    assert r.busy[2] == 3 * cycles
    assert all(w & 1 == 0 for w in g.into("out0")[2])  # streamed on, not in a memory unit any more


def test_units_keep_their_inner_stops_and_end_with_their_rank():
    g = Streams()
    partition(
        g, g.tiles(1, 2, 3, 4, stops=[0, 1, 0, 2]), g.selectors({0}, {0, 1}, stops=[0, 1]), rank=1
    )
    g.run()
    assert g.into("out0")[1] == [0, 1, 0, 1] and g.into("out1")[1] == [0, 1]


def test_an_output_that_is_full_does_not_keep_a_token_from_those_before_it():
    g = Streams()
    p = g.unit(
        "route", "partition", [g.tiles(*[1] * 4), g.selectors(*[{0, 1}] * 4)], n=2, rank=0, **ROUTE
    )
    g.unit("fast", "sink", [p])
    g.unit("end", "sink", [g.unit("slow", "map", [p], **map_of("slow", "elementwise", 40, 1))])
    g.run(machine(depth=1))
    fast = g.into("fast")[0]
    slow = g.into("slow")[0]
    assert slow[2] > fast[2] + 5 and fast[1] < slow[1]


def test_selectors_beyond_64_targets():
    g = Streams()
    partition(g, g.tiles(1, 2, 3), g.selectors({0}, {63, 64}, {127}), n=128)
    g.run()
    assert [i for i in range(128) if g.rows_into(f"out{i}")] == [0, 63, 64, 127]
    assert g.rows_into("out63") == g.rows_into("out64") == [2]


# -- reassemble -----------------------------------------------------------------------------------


def reassemble(g, inputs, selector, rank=0):
    return g.unit(
        "end",
        "sink",
        [g.unit("gather", "reassemble", [*inputs, selector], n=len(inputs), rank=rank, **ROUTE)],
    )


def test_a_reassemble_waits_for_all_and_sends_them_in_order_of_arrival():
    g = Streams()
    a, b, c = (
        source(g, [0], name, rows=i + 1, stamp=[at])
        for i, (name, at) in enumerate((("a", 5), ("b", 3), ("c", 9)))
    )
    reassemble(g, (a, b, c), g.selectors({0, 1}, {2}))
    g.run()
    assert g.rows_into("end") == [2, 1, 3]
    # all there at 5: b has been for a switch, a is switched by 6, c by 10
    assert g.into("end")[:2] == ([5, 6, 10], [0, 1, 1])


def test_equal_arrivals_go_by_index():
    g = Streams()
    reassemble(
        g,
        [source(g, [0], f"s{i}", rows=i + 1, stamp=[4]) for i in range(3)],
        g.selectors({0, 1, 2}, stops=[1]),
    )
    g.run()
    assert g.rows_into("end") == [1, 2, 3]
    assert g.into("end")[:2] == ([5, 5, 5], [0, 0, 2])


# -- eager merge ----------------------------------------------------------------------------------


def merge(g, inputs, rank=0):
    m = g.unit("merge", "eager_merge", inputs, n=len(inputs), rank=rank)
    g.unit("data", "sink", [m])
    g.unit("which", "sink", [m])


def test_an_eager_merge_takes_what_arrives_first_and_says_which():
    g = Streams()
    merge(
        g,
        [
            source(g, [0, 0], "a", rows=1, stamp=[4, 9]),
            source(g, [0, 0], "b", rows=2, stamp=[2, 4]),
        ],
    )
    g.run()
    assert g.rows_into("data") == [2, 1, 2, 1]
    assert g.into("data")[0] == g.into("which")[0] == [2, 4, 4, 9]
    assert g.into("which")[2] == [2, 1, 2, 1]  # one-hot


def test_tokens_of_a_merged_unit_are_a_cycle_apart():
    g = Streams()
    merge(
        g,
        [
            source(g, [0, 0, 1], "a", rows=1, stamp=[3, 3, 3]),
            source(g, [1, 1], "b", rows=2, stamp=[4, 5]),
        ],
        rank=1,
    )
    g.run()
    assert g.into("data")[:2] == ([3, 4, 5, 5, 5], [0, 0, 1, 1, 1])
    assert g.rows_into("data") == [1, 1, 1, 2, 2]
    assert g.into("which")[0] == [3, 5, 5]


# -- by reference ---------------------------------------------------------------------------------


def test_expand_sends_its_token_for_each_of_the_reference():
    g = Streams()
    g.unit(
        "end",
        "sink",
        [
            g.unit(
                "expand",
                "expand",
                [g.tiles(1, 2, stops=[1, 2]), source(g, [0, 0, 1, 2], "ref")],
                rank=1,
            )
        ],
    )
    r = g.run()
    assert g.rows_into("end") == [1, 1, 1, 2]
    assert g.into("end")[:2] == ([1, 1, 1, 1], [0, 0, 1, 2])
    assert list(r.channels[0].take) == [1, 1]


def test_buffers_are_read_for_each_token_of_a_reference():
    g = Streams()
    b = g.unit("fill", "bufferize", [g.tiles(1, 2, 3, stops=[0, 1, 2])], rank=1)
    g.unit(
        "end",
        "sink",
        [g.unit("read", "streamify_ref", [b, source(g, [0, 1, 2], "ref")], rank=1, level=1)],
    )
    g.run()
    assert g.rows_into("end") == [1, 2, 1, 2, 3]
    assert g.into("end")[:2] == (
        [3, 4, 5, 6, 7],
        [0, 1, 0, 2, 3],
    )  # filled by 2, then a token a cycle


def test_an_affine_read_picks_a_buffer_s_tokens():
    g = Streams()
    b = g.unit("fill", "bufferize", [g.tiles(1, 2, 3, 4, 5, 6, stops=[0] * 5 + [1])], rank=1)
    g.unit(
        "end",
        "sink",
        [g.unit("read", "streamify", [b], rank=2, repeat=[2], shape=[3, 2], stride=[1, 3])],
    )
    g.run()
    assert g.rows_into("end") == [1, 4, 2, 5, 3, 6] * 2
    assert g.into("end")[1] == [0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 3]


# -- scan, flat map, functions of metadata
# ----------------------------------------------------------


def test_a_scan_gives_its_state_after_every_token():
    step = function("add", "elementwise", 1, rank=1, init_rows=1, init_cols=16, compute_bw=16)
    r = chain(("scan", step), stop=[0, 0, 1, 0, 2], on=machine(depth=8))
    assert out(r) == [0, 0, 1, 0, 2]
    assert list(r.channels[1].accept) == [2, 3, 4, 5, 6]  # a cycle of work each


@pytest.mark.parametrize(
    "params, stops, parts",
    [
        (
            dict(along="rows", size=1, mask=False, new=False),
            [0, 0, 0, 0, 0, 0, 0, 2],
            [[1, 16, 1]] * 3 + [[1, 16, 0]] + [[1, 16, 1]] + [[1, 16, 0]] * 3,
        ),
        (dict(along="rows", size=1, mask=True, new=False), [0, 0, 0, 2], [[1, 16, 1]] * 4),
        (
            dict(along="rows", size=2, mask=True, new=True),
            [0, 1, 3],
            [[2, 16, 2], [2, 16, 1], [2, 16, 1]],
        ),
        (
            dict(along="cols", size=8, mask=False, new=True),
            [0, 1, 0, 3],
            [[4, 8, 3]] * 2 + [[4, 8, 1]] * 2,
        ),
    ],
)
def test_tiles_are_cut_in_no_time(params, stops, parts):
    g = Streams()
    tiles = g.stream([(0, tile_word(4, 16, 3)), (2, tile_word(4, 16, 1))])
    g.unit("end", "sink", [g.unit("cut", "split", [tiles], **params)])
    r = g.run(machine(depth=16))
    assert g.into("end")[1] == stops and r.extra["tiles"][-1].tolist() == parts
    assert set(g.into("end")[0]) == {1}


def test_addresses_and_selectors_are_generated():
    g = Streams()
    index = g.stream([(0, 3), (1, 5)], "index")
    length = g.stream([(0, 2), (1, 3)], "length")
    g.unit(
        "range", "sink", [g.unit("addresses", "address_range", [index, length], step=10, new=True)]
    )
    g.unit(
        "experts",
        "sink",
        [g.unit("expert", "expert_addresses", [g.selectors({2}, {100})], step=3, new=True)],
    )
    g.unit(
        "filters",
        "sink",
        [g.unit("last", "last_filter", [g.stream([(0, 2), (1, 3)], "n")], new=True)],
    )
    g.run()
    # stamped a cycle apart (the sink takes one a cycle all the same)
    assert g.into("range")[1:] == ([0, 1, 0, 0, 2], [30, 31, 50, 51, 52])
    assert g.into("experts")[1:] == ([0, 0, 1, 0, 0, 1], [6, 7, 8, 300, 301, 302])
    assert g.into("filters")[1:] == ([0, 1, 0, 0, 2], [2, 1, 2, 2, 1])
    assert g.into("filters")[0] == [1] * 5


def test_valid_rows_and_addresses_follow_from_numbers():
    g = Streams()
    cut = g.unit(
        "cut",
        "map",
        [g.tiles(8), g.stream([(0, 5)], "count")],
        **map_of("row_offset", "row_offset", 0, 2),
    )
    grown = g.unit(
        "grown", "map", [cut, g.tiles(1, name="row")], **map_of("row_append", "row_append", 0, 2)
    )
    g.unit("tile", "sink", [grown])
    at = g.unit(
        "at",
        "map",
        [g.stream([(0, 3)], "a"), g.stream([(0, 4)], "b")],
        **map_of("address", "address", 0, 2),
        stride=10,
    )
    g.unit("address", "sink", [at])
    r = g.run()
    (c,) = [c for c in g.channels if c.name.endswith("->tile")]
    assert r.extra["tiles"][c.id].tolist() == [[8, 16, 6]]
    assert g.into("address") == ([2], [0], [34])  # one cycle
    assert r.busy[cut] == r.busy[grown] == 1


def test_a_function_of_one_cycle_takes_its_operands_from_memory_first():
    g = Streams()
    grown = g.unit(
        "grown",
        "map",
        [g.tiles(4, stops=[1]), load(g, 1, rows=1, cols=80, name="row")],
        **map_of("row_append", "row_append", 0, 2),
    )
    sink(
        g,
        g.unit(
            "signal",
            "accum",
            [load(g, 1, rows=4, cols=16)],
            **function("all_read", "fixed", 0, rank=1, init_rows=0, init_cols=0),
        ),
        "read",
    )
    sink(g, grown)
    r = g.run()
    assert (
        r.busy[grown] == 320 // 64
        and r.busy[next(u.id for u in g.units if u.name == "signal")] == 256 // 64
    )


# -- errors ---------------------------------------------------------------------------------------


def test_an_empty_dimension_is_an_error():
    g = Streams()
    reassemble(g, [g.tiles(1)], g.selectors(set()))
    with pytest.raises(RunError, match=r"unit gather .reassemble.: a dimension without an element"):
        g.run()
    g = Streams()
    g.unit("end", "sink", [g.unit("last", "last_filter", [g.stream([(1, 0)])], new=True)])
    with pytest.raises(RunError, match=r"unit last .last_filter.: a dimension without an element"):
        g.run()
