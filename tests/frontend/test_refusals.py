"""Refusals of the elements of a run, and of the text of a program: one message each."""

from dataclasses import replace

import numpy as np
import pytest
from penstock.frontend import *
from penstock.frontend import Graph, Source
from penstock.frontend.meaning.evaluator import evaluate64
from penstock.frontend.meaning.given import check_sizes
from penstock.machine.errors import PenstockError, ProgramError, RunError
from penstock.machine.functions import FUNCTIONS
from penstock.runs.expected import expected


def tiles(g, *shape, tile=(4, 4), name=None):
    return Source(graph=g, shape=shape, tile=tile, name=name)


def numbers(g, *shape, name=None):
    return Source(graph=g, shape=shape, scalar=32, name=name)


def whole(n, *size):
    return [np.ones(size, np.float32) for _ in range(n)]


def run_time(g, name="N"):
    return g.dynamic(name, ragged=True)


RUN = {
    "more rows than a bound": (
        lambda g: Accum(
            tiles(g, 2, g.dynamic("N", ragged=True, most=3), tile=(1, 4), name="a"),
            fn=retile_row(),
            rank=1,
        ),
        {"a": [whole(2, 1, 4), whole(5, 1, 4)]},
        r"dimension 0 is 5 in the run, N is at most 3 \(rule: the program guarantees the bounds "
        r"of its symbols \(most\)\); raise the bound",
    ),
    "no elements": (
        lambda g: tiles(g, 2, name="a"),
        {},
        "operator a .*: no elements given; give them as nested lists",
    ),
    "references without a buffer": (
        lambda g: Streamify(
            Bufferize(tiles(g, g.dynamic("N"), 1, name="a"), rank=1),
            ref=numbers(g, g.dynamic("M"), name="r"),
        ),
        {"a": [whole(1, 4, 4)], "r": [1, 2]},
        "its reference goes on when the buffers have ended",
    ),
    "references of another group": (
        lambda g: Streamify(
            Bufferize(tiles(g, 2, run_time(g), 1, name="a"), rank=1),
            ref=numbers(g, 2, run_time(g, "M"), name="r"),
        ),
        {"a": [[whole(1, 4, 4)], [whole(1, 4, 4)] * 2], "r": [[1, 2], [3]]},
        "a buffer of stop 1 meets references that end with 0",
    ),
    "a reference where nothing is": (
        lambda g: (
            lambda k: Expand(
                Promote(tiles(g, 1, k, name="a"), level=0),
                ref=numbers(g, 1, k, g.dynamic("M"), name="r"),
            )
        )(run_time(g)),
        {"a": [[]], "r": [[[1]]]},
        "its reference has an element where its input is empty, before stop 2",
    ),
    "buffers without references": (
        lambda g: Streamify(
            Bufferize(tiles(g, g.dynamic("N"), 1, name="a"), rank=1),
            ref=numbers(g, g.dynamic("M"), name="r"),
        ),
        {"a": [whole(1, 4, 4)] * 2, "r": [1]},
        "has buffers left when its reference has ended",
    ),
    "tiles that differ in a reduction": (
        lambda g: Accum(
            Accum(tiles(g, 1, 2, run_time(g), tile=(1, 4), name="a"), fn=retile_row(), rank=1),
            fn=add(),
            rank=1,
        ),
        {"a": [[whole(9, 1, 4), whole(3, 1, 4)]]},
        "reduces tiles of 9 and 3 rows: those of a group take as many physical tiles",
    ),
    "operands of other sizes": (
        lambda g: Map(
            *(tiles(g, 1, tile=(run_time(g, f"R{x}"), 4), name=x) for x in "ab"), fn=add()
        ),
        {"a": whole(1, 5, 4), "b": whole(1, 4, 4)},
        r"operator Map at .*: add takes tiles of 5 and 4 rows \(rule: tiles that are taken "
        r"together have one size",
    ),
    "an empty buffer alone in its list": (
        lambda g: Streamify(Promote(Bufferize(tiles(g, 1, run_time(g), name="a"), rank=1))),
        {"a": [[]]},
        "operator Streamify at .*: gives an empty list that stands alone in its list",
    ),
    "a row too many": (
        lambda g: Map(tiles(g, 1, name="a"), tiles(g, 1, tile=(1, 4), name="b"), fn=row_append()),
        {"a": whole(1, 4, 4), "b": whole(1, 1, 4)},
        "a tile of 4 valid rows has no room",
    ),
    "two experts": (
        lambda g: FlatMap(
            Source(graph=g, shape=(1,), selector=3, name="s"), fn=expert_addresses(2), rank=1
        ),
        {"s": [[0, 2]]},
        r"selector \[0, 2\] has 2 targets, not one",
    ),
    "addresses without tiles": (
        lambda g: RandomOffChipStore(
            numbers(g, g.dynamic("N"), name="a"),
            tiles(g, g.dynamic("M"), name="b"),
            g.output("y", (8, 4)),
        ),
        {"a": [0, 1], "b": whole(1, 4, 4)},
        "has more addresses than tiles",
    ),
    "tiles beyond a tensor": (
        lambda g: LinearOffChipStore(tiles(g, g.dynamic("N"), name="a"), g.output("y", (8, 4))),
        {"a": whole(3, 4, 4)},
        "has more tiles than its tensor",
    ),
    "an offset of a tile's rows": (
        lambda g: Map(tiles(g, 2, name="a"), numbers(g, g.dynamic("N"), name="b"), fn=row_offset()),
        {"a": whole(2, 4, 4), "b": [1]},
        "operands have equal shapes",
    ),
}


@pytest.mark.parametrize("case", RUN)
def test_a_run_refuses(case):
    make, given, message = RUN[case]
    g = Graph("p")
    for s in make(g):
        Sink(s)
    with pytest.raises(PenstockError, match=message):
        expected(g, {}, 4, given)


@pytest.mark.parametrize(
    "kind, given, message",
    [
        (dict(scalar=4), [16, 0], "scalar 16 does not fit into 4 bits; give the Source more bits"),
        (
            dict(scalar=4),
            [1.5, 0],
            "a scalar of 1.5 .rule: a scalar is an integer.; give the elements of .2. scalar 4 "
            "as a list nested 1 deep",
        ),
        (dict(scalar=4), [[1], [0]], r"a scalar of \[1\] "),
        (
            dict(selector=3),
            [3, 0],
            r"selector \[3\] names a target outside 0 to 2; give the Source more targets",
        ),
        (
            dict(selector=3),
            [None, 0],
            "a selector of None .rule: a selector is the numbers of its targets, each once",
        ),
        (dict(selector=3), [[[1], 2], 0], r"a selector of \[\[1\], 2\] "),
        (
            dict(selector=3),
            [[0, 1, 1], 0],
            r"a selector of \[0, 1, 1\] .rule: a selector is the numbers of its targets, each once",
        ),
        (dict(selector=3), np.eye(2, 3, dtype=bool), "a selector of array"),
        (
            dict(tile=(4, 4)),
            ["x", "y"],
            "a tile of str that is no array of numbers .rule: the stream carries tile",
        ),
        (dict(tile=(4, 4)), [[[1, 2], [3]], [[1]]], "a tile of list that is no array of numbers"),
        (
            dict(tile=(4, 4)),
            np.ones((2, 5, 4)),
            r"a tile of shape \[5, 4\] .rule: the stream carries tile",
        ),
    ],
)
def test_elements_that_a_source_cannot_stream(kind, given, message):
    g = Graph("p")
    Sink(Source(graph=g, shape=(2,), name="a", **kind))
    with pytest.raises(ProgramError, match=message):
        expected(g, {}, 4, {"a": given})


def test_tensors_that_a_run_lacks_or_cannot_take():
    g = Graph("p")
    LinearOffChipStore(LinearOffChipLoad(g.input("x", (4, 4)), tile=(4, 4)), g.output("y", (4, 4)))
    with pytest.raises(
        ProgramError, match=r"input tensor x: no values given; pass an array of shape \[4, 4\]"
    ):
        expected(g, {}, 4)
    with pytest.raises(
        ProgramError, match=r"input tensor x: has shape \[4, 3\], the program says \[4, 4\]"
    ):
        expected(g, {"x": np.ones((4, 3))}, 4)


def test_a_record_of_arrivals_that_cannot_be():
    g = Graph("p")
    merge = EagerMerge(tiles(g, 1, name="a"), tiles(g, 1, name="b"), name="merge")
    for s in merge:
        Sink(s)
    with pytest.raises(
        RunError, match=r"merge.*: input 5 arrives in the record, \[0, 1\] are possible"
    ):
        expected(g, {}, 4, {"a": whole(1, 4, 4), "b": whole(1, 4, 4)}, {"merge": [5, 0]})


def test_a_function_without_a_float64_meaning(monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "exp", replace(FUNCTIONS["exp"], float64=None))
    g = Graph("p")
    LinearOffChipStore(
        Map(LinearOffChipLoad(g.input("x", (4, 4)), tile=(4, 4)), fn="exp"), g.output("y", (4, 4))
    )
    with pytest.raises(ProgramError, match="function 'exp' has no float64 meaning"):
        evaluate64(g, {"x": np.ones((4, 4))})


def test_programs_that_cannot_be_built(tmp_path):
    with pytest.raises(ProgramError, match=r"no such file: nothing.py"):
        build("nothing.py")
    g = Graph("p")
    Sink(tiles(g, 2))
    with pytest.raises(
        ProgramError, match="unknown parameter 'n'; a graph that is built takes none"
    ):
        build(g, {"n": 1})
    path = tmp_path / "mine.py"
    path.write_text(
        "from penstock.frontend import *\ndef program():\n    g = Graph('mine')\n    "
        "Sink(Source(graph=g, shape=(2,), scalar=8))\n    return g\ndef streams(seed):\n    "
        "return 3\n"
    )
    with pytest.raises(ProgramError, match=r"streams\(\) returns int, not a dict of nested lists"):
        build(str(path)).streams(0)
    path.write_text(
        "from penstock.frontend import *\ndef program():\n    g = Graph('mine')\n    "
        "Sink(LinearOffChipLoad(g.input('x', (4, 4)), tile=(4, 4)))\n    return g\n"
        "def inputs(seed):\n    return {'x': [['a']]}\n"
    )
    with pytest.raises(
        ProgramError,
        match=(
            r"inputs\(\) gives 'x' as no array of real numbers; return {'x': array of shape \[4, "
            r"4\], ...}"
        ),
    ):
        build(str(path)).inputs(0)


@pytest.mark.parametrize(
    "name, params, message",
    [
        (
            "operators",
            dict(part="everything"),
            "part must be one of routing, memory, compute, not 'everything'",
        ),
        ("attention", dict(regions=0), r"requests \(16\) are not a multiple of the regions \(0\)"),
        (
            "attention",
            dict(skew="flat"),
            "parameter 'skew' takes a number, not 'flat'; its default is 1.0",
        ),
        ("swiglu", dict(silu="lisp"), "silu must be unit or spelled, not 'lisp'"),
        ("moe", dict(regions=0, top_k=9), "top_k must be from 1 to the 8 experts, not 9"),
        ("attention", dict(parallel="static"), "parallel must be one of coarse, interleaved, dyn"),
    ],
)
def test_parameters_of_workloads(name, params, message):
    with pytest.raises(ProgramError, match=message):
        build(name, params).streams(0)


def test_traces_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "experts.npz", data=np.full((4, 2), 9))
    np.save(tmp_path / "lengths.npy", np.full(4, 10**6))
    with pytest.raises(ProgramError, match=r"has \[4, 2\] experts from 9 to 9"):
        build(
            "published_moe",
            dict(
                tokens=4, dim=64, inter=64, experts=8, top_k=2, trace=str(tmp_path / "experts.npz")
            ),
        ).streams(0)
    with pytest.raises(ProgramError, match=r"has \[4\] lengths of up to 1000000"):
        build(
            "published_attention", dict(requests=4, regions=2, trace=str(tmp_path / "lengths.npy"))
        ).streams(0)


@pytest.mark.parametrize(
    "calculated, text",
    [
        (lambda x: x + 1.0, r"takes no '\+'.*Map\(first, second, fn=add\(\)\)"),
        (lambda x: 2 * x, r"takes no '\*'.*fn=scale\(factor\)"),
        (lambda x: np.ones(3) - x, "takes no '-'"),
        (lambda x: x.stream @ x.stream, r"takes no '@'.*fn=matmul\(\)"),
    ],
)
def test_streams_are_no_numbers(calculated, text):
    g = Graph("numbers")
    with pytest.raises(ProgramError, match=rf"test_refusals.py:\d+: stream xs {text}"):
        calculated(Source(graph=g, shape=(1,), tile=(4, 4), name="xs"))


def two(most=None, ragged=False):
    """Sources [N] and [N, 2, M], M ragged where it is asked for."""
    g = Graph("two")
    n = g.dynamic("N", most=most)
    m = g.dynamic("M", ragged=ragged, most=most)
    Source(graph=g, shape=(n,), scalar=8, name="a")
    Source(graph=g, shape=(n, 2, m), scalar=8, name="b")
    return g


def rows(*lengths):
    return [[[0] * k, [1] * k] for k in lengths]


@pytest.mark.parametrize(
    ("graph", "a", "b", "message"),
    [
        (two(), [1, 2, 3], rows(4, 4), r"operator b .* given 2 elements .* N, and a 3"),
        (two(), [1, 2], rows(4, 5), r"b .* given 5 elements in dimension M, and b 4"),
        (two(2), [1, 2, 3], rows(1, 1, 1), r"a .* given 3 elements in dimension N, .* most 2"),
        (two(2, True), [1], rows(3), r"b .* given 3 elements in dimension M, .* most 2"),
        (two(), [1], [[[0], [1], [2]]], r"b .* given 3 elements in dimension 2;"),
    ],
)
def test_sizes_that_do_not_suit_are_refused(graph, a, b, message):
    with pytest.raises(ProgramError, match=message):
        check_sizes(graph, {"a": a, "b": b})


def test_sizes_that_suit():
    check_sizes(two(), {"a": np.arange(2), "b": np.zeros((2, 2, 7), int)})
    check_sizes(two(3, True), {"a": [1, 2], "b": rows(0, 3)})
    check_sizes(two(), {"a": [], "b": []})
