"""The operators of the paper's tables 3-7: shape rules, NumPy meaning on streams with empty, ragged
and routed parts, text form, metrics.
"""

import numpy as np
import pytest
from penstock.frontend import *
from penstock.frontend.meaning.elements import nested, tokens
from penstock.machine.errors import RunError
from penstock.runs.expected import evaluator


@pytest.fixture
def g():
    return Graph("p")


def tiles(g, *dims, tile=(2, 4), name=None):
    return Source(graph=g, shape=dims, tile=tile, name=name)


def selectors(g, *dims, n=2, name=None):
    return Source(graph=g, shape=dims, selector=n, name=name)


def scalars(g, *dims, name=None):
    return Source(graph=g, shape=dims, scalar=32, name=name)


def run(g, order=None, **sources) -> dict:
    """Elements that each Sink takes, as nested lists of first elements (tiles) or plain values."""
    e = evaluator({}, 2, sources, order)
    e.run(g)
    ranks = {n.name: n.inputs[0].rank for n in g.nodes if isinstance(n, Sink)}

    def plain(v):
        if isinstance(v, list):
            return [plain(x) for x in v]
        if isinstance(v, np.ndarray):
            return (v.shape[0], float(v[0, 0])) if v.size else (0,)
        return sorted(v) if isinstance(v, frozenset) else v

    return {name: plain(nested(items, ranks[name])) for name, items in e.sinks.items()}


def show(s) -> str:
    return str(s.stream.type if hasattr(s, "outputs") else s.type)


# ---- streams
# --------------------


@pytest.mark.parametrize(
    "value,want",
    [
        ([[1, 2], [3]], [(1, 0), (2, 1), (3, 1)]),
        ([], []),
        ([[], [3]], [(None, 1), (3, 1)]),
        ([[3], []], [(3, 1), (None, 1)]),
        ([[[1], []], []], [(1, 1), (None, 2), (None, 2)]),
        ([[[], []]], [(None, 1), (None, 2)]),
    ],
)
def test_nested_lists_and_stops(value, want):
    rank = max(s for _, s in want) if want else 1
    t = Source(graph=Graph(), shape=[dim(9)] * (rank + 1), scalar=32).stream.type
    assert tokens(value, t, "here") == want
    assert nested(want, rank) == value


# ---- shapes
# --------------------


def test_shapes_of_routing(g):
    x = tiles(g, 10, 3)
    sel = selectors(g, 10, n=4)
    route = Partition(x, sel, rank=1, outputs=4, name="route")
    assert [show(s) for s in route] == [f"[route_{i}, 3] tile {{2, 4}} fp32" for i in range(4)]
    assert route[0].shape[0].kind is DimKind.DYNAMIC_REGULAR and g.most(route[0].shape[0]) == 10
    back = Reassemble([route[i] for i in range(4)], sel, rank=1)
    assert (
        show(back) == "[10, S0, 3] tile {2, 4} fp32"
        and back.stream.shape[1].kind is DimKind.DYNAMIC_RAGGED
    )
    merged = EagerMerge([route[0], route[1]])
    assert [show(s) for s in merged] == [
        "[route_0 + route_1, 3] tile {2, 4} fp32",
        "[route_0 + route_1] selector 2",
    ]


def test_equal_expressions_are_one_symbol(g):
    s = tiles(g, 2, 3, g.ragged("D"))
    a = Flatten(s, lo=0, hi=1)
    b = Flatten(s, lo=0, hi=1)
    assert (
        a.stream.type == b.stream.type
        and show(Zip(a, b)) == "[2, R0] (tile {2, 4} fp32, tile {2, 4} fp32)"
    )


def test_an_assertion_holds_for_readers_before_and_after(g):
    route = Partition(tiles(g, 10), selectors(g, 10), rank=0, outputs=2, name="route")
    before = Promote(Flatten(Expand(route[0], count=2), lo=0, hi=1))
    route[0].assert_shape([6])
    after = Promote(Flatten(Expand(route[0], count=2), lo=0, hi=1))
    assert show(before) == show(after) == "[1, 12] tile {2, 4} fp32"
    with pytest.raises(ProgramError, match="dimension 0 is 12, not 13"):
        before.inputs[0].assert_shape([13])
    for s in (route[1], before, after):
        Sink(s)
    text = print_graph(g)
    assert "assert_shape(route[0], [6])" in text and print_graph(read_graph(text)) == text


def test_an_assertion_that_breaks_a_reader_changes_nothing(g):
    n = g.dynamic("N")
    s = tiles(g, n, name="s")
    Zip(s, tiles(g, 4))
    with pytest.raises(ProgramError, match="both inputs have one shape"):
        s.stream.assert_shape([5])
    assert show(s) == "[N] tile {2, 4} fp32"


def test_bounds(g):
    n = g.dynamic("N", most=10)
    assert g.most(Flatten(Expand(tiles(g, n), count=3), lo=0, hi=1).stream.shape[0]) == 30
    assert g.most(g.dynamic("M")) is None


def test_text_of_every_operator(g):
    t = g.input("kv", (64, 4))
    y = g.output("y", (64, 4))
    a = scalars(g, 5, name="a")
    n = scalars(g, 5, name="n")
    x = RandomOffChipLoad(FlatMap(a, n, fn=address_range(8), rank=1), t, tile=(4, 4))
    parts = Partition(x, FlatMap(n, fn=last_tile_filter(), rank=1), rank=0, outputs=2)
    last = Map(
        Map(parts[0], Source(graph=g, shape=parts[0].shape, scalar=32), fn=row_offset()),
        Source(graph=g, shape=parts[0].shape, tile=(1, 4)),
        fn=row_append(),
    )
    whole = Reassemble(last, parts[1], FlatMap(n, fn=last_tile_filter(), rank=1), rank=0)
    b = Bufferize(whole, rank=1, memory="cache")
    Sink(
        Scan(
            Map(Streamify(b, ref=tiles(g, 5, g.symbols["L0"])), fn=scale(-0.5)),
            fn=maximum(),
            rank=1,
        )
    )
    RandomOffChipStore(a, tiles(g, 5, tile=(4, 4)), y)
    loop = Loop(StreamType(SelectorType(2), (dim(4),)), graph=g, name="again")
    merged = EagerMerge(
        Partition(tiles(g, 4), loop, rank=0, outputs=2)[0], tiles(g, g.dynamic("Q", most=3))
    )
    Sink(merged[0])
    text = print_graph(g)
    assert print_graph(read_graph(text)) == text
    with pytest.raises(ProgramError, match=r"operator again \(Loop\).*: is open"):
        g.check()


# ---- meaning
# --------------------


def test_a_loop_that_waits_for_itself(g):
    loop = Loop(StreamType(SelectorType(2), (dim(4),)), graph=g, name="again")
    loop.close(Flatten(loop, lo=0, hi=0))
    Sink(loop)
    with pytest.raises(RunError, match="waits for its own output"):
        run(g)


def test_metrics_of_run_time_sizes(g):
    t = g.input("w", (8, 8), "bf16")
    n = g.dynamic("N")
    x = Accum(tiles(g, 3, n, tile=(1, 8)), fn=retile_row(), rank=1, name="pack")
    w = LinearOffChipLoad(t, tile=(8, 8), shape=(1,), stride=(0,), ref=x, name="w")
    Sink(w)
    assert (
        str(analyse(g, "paper").offchip.total) == "384"
        and str(analyse(g, "paper").onchip.per_node["pack"]) == "32*N"
    )
