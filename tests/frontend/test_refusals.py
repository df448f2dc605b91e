"""Faults that only lowering, the elements of a run, or the text of a program can show: one message
each.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from penstock.frontend import (
    Accum,
    Bufferize,
    EagerMerge,
    Expand,
    Fifo,
    FlatMap,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    LoweringError,
    Map,
    Operator,
    Partition,
    ProgramError,
    Promote,
    RandomOffChipLoad,
    RandomOffChipStore,
    Reshape,
    Sink,
    Source,
    Streamify,
    Zip,
    add,
    address,
    address_range,
    all_read,
    build,
    expert_addresses,
    lower,
    matmul,
    mul,
    operator,
    retile_col,
    retile_row,
    retile_streamify,
    row_append,
    row_offset,
    row_sum,
)
from penstock.frontend.functions.streams import Collect, Expanding
from penstock.frontend.functions.tiles import Function
from penstock.frontend.graph import FUNCTIONAL, OPERATORS
from penstock.frontend.meaning.evaluator import evaluate64
from penstock.frontend.types import dim
from penstock.machine.config import load
from penstock.machine.errors import PenstockError, RunError
from penstock.machine.functions import FUNCTIONS
from penstock.runs.expected import expected

SMALL = load("small_fpga")
CONFIG = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32", pages=16))


def tiles(g, *shape, tile=(4, 4), dtype="fp32", name=None):
    return Source(graph=g, shape=shape, tile=tile, dtype=dtype, name=name)


def numbers(g, *shape, name=None):
    return Source(graph=g, shape=shape, scalar=32, name=name)


def pairs(g):
    return Zip(tiles(g, 2), tiles(g, 2))


@dataclass(frozen=True)
class Bare(Function):
    """A function without a unit."""

    name = rule = "bare"
    arity = 1

    def result(self, *operands):
        return operands[0]


@dataclass(frozen=True)
class BareCollect(Collect):
    name = rule = "bare_collect"

    def result_of(self, graph, element, dims):
        return element


@dataclass(frozen=True)
class BareParts(Expanding):
    name = "bare_parts"
    arity = 1

    def parts(self, graph, key, *operands):
        return operands[0], dim(2)


LOWERED = {
    "a function without a unit": (
        lambda g: Map(tiles(g, 2), fn=Bare()),
        r"bare\(\) has no unit on this machine",
    ),
    "a reduction without a unit": (
        lambda g: Accum(tiles(g, 2, 2), fn=BareCollect(), rank=1),
        r"bare_collect\(\) has no unit on this machine",
    ),
    "parts without a unit": (
        lambda g: FlatMap(tiles(g, 2), fn=BareParts(), rank=1),
        r"bare_parts\(\) has no unit on this machine",
    ),
    "copies of pairs": (
        lambda g: Expand(pairs(g), count=2),
        "cannot be expanded on this machine; expand in front of Zip",
    ),
    "copies of pairs by reference": (
        lambda g: Expand(Zip(tiles(g, 2, 1), tiles(g, 2, 1)), ref=numbers(g, 2, 3)),
        "cannot be expanded on this machine; expand in front of Zip",
    ),
    "pairs of other sizes": (
        lambda g: Zip(tiles(g, 2), tiles(g, 2, tile=(8, 4))),
        "both elements take as many physical tiles",
    ),
    "more levels than stops": (
        lambda g: tiles(g, *[1] * 13),
        "needs stops up to 15, a beat has 14; flatten dimensions",
    ),
    "more levels than stops within a cut": (
        lambda g: FlatMap(tiles(g, *[1] * 12, tile=(6, 4)), fn=retile_streamify("rows", 3)),
        "needs stops up to 15 where it is cut, a beat has 14; flatten dimensions",
    ),
    "tensors beyond 32 bits": (
        lambda g: LinearOffChipLoad(
            g.input("x", (1 << 20, 1 << 12)), tile=(4, 4), shape=(1,), stride=(0,)
        ),
        "tensors take 17179869184 B .* addresses have 32 bits",
    ),
    "a row spread in pairs": (
        lambda g: Map(Zip(tiles(g, 2, tile=(4, 8)), tiles(g, 2, tile=(1, 8))), fn=mul()),
        "in a stream of pairs; pass the two streams, not their Zip",
    ),
    "a column spread over columns without a bound": (
        lambda g: Map(tiles(g, 2, tile=(4, g.dynamic("N"))), tiles(g, 2, tile=(4, 1)), fn=mul()),
        r"whose columns have no bound .*bound the size: graph.dynamic\(name, most=...\)",
    ),
    "more levels than stops where rows are reduced": (
        lambda g: Map(tiles(g, *[1] * 12, tile=(4, g.dynamic("N"))), fn=row_sum()),
        "needs stops up to 15 where its rows are reduced, a beat has 14; flatten dimensions",
    ),
    "products of another dtype": (
        lambda g: Map(tiles(g, 2, dtype="bf16"), tiles(g, 2, dtype="bf16"), fn=matmul()),
        "carries bf16, matmul units of machine small_fpga take fp32; put cast",
    ),
    "products of K without a bound": (
        lambda g: Map(
            *(tiles(g, 2, tile=(g.dynamic(n), k)) for k in (g.dynamic("K"),) for n in "MN"),
            fn=matmul(True),
        ),
        r"deep as the physical tiles along K that wait in it.* bound the size: "
        r"graph.dynamic\(name, most=...\)",
    ),
    "addresses in pairs": (
        lambda g: Map(Zip(numbers(g, 2), numbers(g, 2)), fn=address(3)),
        "a unit `address` has two inputs",
    ),
    "numbers in pairs": (
        lambda g: FlatMap(Zip(numbers(g, 2), numbers(g, 2)), fn=address_range(3)),
        "a unit `generate` has two inputs.* pass the two streams, not their Zip",
    ),
    "a product of pairs": (
        lambda g: Map(pairs(g), fn=matmul()),
        "a unit `matmul` has two inputs.* pass the two streams, not their Zip",
    ),
    "tokens of buffers": (
        lambda g: LinearOffChipLoad(
            g.input("x", (4, 4)), tile=(4, 4), ref=Bufferize(tiles(g, 2, 3), rank=1)
        ),
        "tokens are made of tiles, selectors or scalars",
    ),
    "rows of run-time width": (
        lambda g: Accum(tiles(g, 2, 3, tile=(1, g.dynamic("N"))), fn=retile_row(), rank=1),
        "tiles are packed by rows of a static number of columns",
    ),
    "rows too wide": (
        lambda g: Accum(tiles(g, 2, 3, tile=(1, 260)), fn=retile_row(), rank=1),
        "a band takes 65 tiles of 4 x 4, a row packer holds 64",
    ),
    "a channel for tiles without a bound": (
        lambda g: Fifo(tiles(g, 2, tile=(g.dynamic("N"), 4)), depth=2),
        r"bound the size: graph.dynamic\(name, most=...\)",
    ),
    "a buffer larger than a scratchpad": (
        lambda g: Streamify(Bufferize(tiles(g, 2, g.dynamic("N", most=9), tile=(32, 32)), rank=1)),
        "takes 576 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128",
    ),
    "an operand larger than a scratchpad": (
        lambda g: Map(
            tiles(g, 2, tile=(4, 60)), tiles(g, 2, tile=(60, g.dynamic("N", most=40))), fn=matmul()
        ),
        "operand B {60, N} takes 150 tiles of 4 x 4, a scratchpad holds 16 pages x 8 frames = 128",
    ),
    "sums larger than an accumulator": (
        lambda g: Accum(
            tiles(g, 2, 2, tile=(40, 4)), tiles(g, 2, 2, tile=(4, 60)), fn=matmul(), rank=1
        ),
        "its result takes 150 tiles of 4 x 4 of partial sums, an accumulator holds 64",
    ),
    "partial columns side by side": (
        lambda g: Accum(tiles(g, 2, 3, tile=(8, 6)), fn=retile_col(), rank=1),
        r"have full columns \(a multiple of 4\) side by side",
    ),
    "several bands side by side": (
        lambda g: Accum(tiles(g, 2, g.dynamic("N"), tile=(8, 4)), fn=retile_col(), rank=1),
        r"tiles of several bands \(more than 4 rows\) stand side by side in groups of static size",
    ),
    "a row of too many tiles": (
        lambda g: Accum(tiles(g, 2, 80, tile=(8, 4)), fn=retile_col(), rank=1),
        "a row of 80 tiles tile {8, 4} fp32 takes 160 tiles of 4 x 4",
    ),
    "references in pairs": (
        lambda g: Zip(numbers(g, 2), Bufferize(tiles(g, 2, 3), rank=1)),
        "references to buffers are counted on streams of their own",
    ),
    "columns of tiles of run-time height": (
        lambda g: FlatMap(
            tiles(g, 2, tile=(g.dynamic("N"), 6)), fn=retile_streamify("cols", 3, mask=True)
        ),
        "this machine cuts rows of tiles of static width; columns of static tiles",
    ),
    "columns of wide tiles of run-time height": (
        lambda g: FlatMap(
            Accum(tiles(g, 2, 3, tile=(g.dynamic("N"), 8)), fn=add(), rank=1),
            fn=retile_streamify("cols", mask=True),
        ),
        "a tile of run-time size is cut by columns where it is one physical tile high or wide",
    ),
    "a started walk that wraps within a row": (
        lambda g: LinearOffChipLoad(
            g.input("a", (12, 12)), tile=(4, 4), shape=(4,), stride=(2,), ref=tiles(g, 2)
        ),
        r"the walk over \[4\] tiles with strides \[2\] passes the end of a row of 3 tiles inside",
    ),
    "a tensor of another dtype": (
        lambda g: LinearOffChipLoad(g.input("a", (8, 8), "bf16"), tile=(4, 4)),
        "tensor a holds bf16, machine small_fpga moves fp32; declare the tensor as fp32",
    ),
    "addresses of three columns": (
        lambda g: RandomOffChipLoad(numbers(g, 2), g.input("w", (8, 12)), tile=(4, 4)),
        "has 3 tiles of 4 columns in a row .*a power of two",
    ),
}


@pytest.mark.parametrize("case", LOWERED)
def test_lowering_refuses(case):
    make, message = LOWERED[case]
    g = Graph("p")
    Sink(make(g))
    with pytest.raises(LoweringError, match=message) as e:
        lower(g, CONFIG)
    assert "operator " in str(e.value)


def test_what_the_published_timing_has_no_form_for():
    for make, message in (
        (
            lambda g: Reshape(numbers(g, 3), dim=0, chunk=2, pad=0)[0],
            "padding of scalar 32 has no form in the published simulator",
        ),
        (
            lambda g: Accum(Source(graph=g, shape=(2, 2), selector=2), fn=all_read(), rank=1),
            "its functions take and give tiles and numbers",
        ),
        (
            lambda g: FlatMap(Zip(numbers(g, 2), numbers(g, 2)), fn=address_range(3)),
            "a unit `address_range` has two inputs",
        ),
        (
            lambda g: FlatMap(tiles(g, 2), fn=BareParts(), rank=1),
            r"bare_parts\(\) has no form in the published simulator",
        ),
    ):
        g = Graph("p")
        Sink(make(g))
        with pytest.raises(PenstockError, match=message):
            lower(g, CONFIG, timing="stepsim")
    with pytest.raises(LoweringError, match="no timing 'exact'; one of machine, stepsim"):
        lower(g, CONFIG, timing="exact")


@pytest.fixture
def idle():
    """An operator of which only the types are known."""

    @operator
    class Idle(Operator):
        """Does nothing."""

        def shape_rule(self):
            return [self.inputs[0].type]

    yield Idle
    del OPERATORS["Idle"], FUNCTIONAL["idle"]


def test_an_operator_without_lowering_or_meaning(idle):
    g = Graph("p")
    Sink(idle(tiles(g, 2, name="x")))
    for timing in ("machine", "stepsim"):
        with pytest.raises(LoweringError, match=f"Idle has no lowering for the timing `{timing}`"):
            lower(g, CONFIG, timing=timing)
    with pytest.raises(
        ProgramError, match=r"operator Idle at .* has no NumPy meaning; define evaluate"
    ):
        expected(g, {}, 4, {"x": [np.ones((4, 4))] * 2})
    for wrong, error, message in (
        (
            lambda self, ev, x: list(x),
            ProgramError,
            "evaluate returns list; write it as a generator",
        ),
        (
            lambda self, ev, x: ((v, s + 1) for v, s in x),
            RunError,
            "has a stop of level 1, its rank is 0",
        ),
        (lambda self, ev, x: iter([next(x)]), RunError, "dimension 0 is 1 in the run, not 2"),
    ):
        idle.evaluate = wrong
        with pytest.raises(error, match=message):
            expected(g, {}, 4, {"x": [np.ones((4, 4))] * 2})

    class Other(Operator):
        """An operator of the same name from elsewhere."""

        __module__ = "elsewhere"

    Other.__name__ = "Idle"
    with pytest.raises(ProgramError, match="an operator named 'Idle' is already registered"):
        operator(Other)


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
    "references without an element": (
        lambda g: Expand(
            tiles(g, g.dynamic("N"), 1, name="a"),
            ref=numbers(g, g.dynamic("M"), run_time(g, "L"), name="r"),
        ),
        {"a": [whole(1, 4, 4)], "r": [[1], [2]]},
        "its reference goes on when the input has ended",
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
    "elements without references": (
        lambda g: Expand(
            tiles(g, g.dynamic("N"), 1, name="a"),
            ref=numbers(g, g.dynamic("M"), run_time(g, "L"), name="r"),
        ),
        {"a": [whole(1, 4, 4)] * 2, "r": [[1, 2]]},
        "has elements left when its reference has ended",
    ),
    "empty selectors without units": (
        lambda g: Partition(
            tiles(g, 1, g.dynamic("N"), name="a"),
            Source(graph=g, shape=(g.dynamic("M"), run_time(g, "L")), selector=2, name="s"),
            rank=0,
            outputs=2,
        ),
        {"a": [whole(1, 4, 4)], "s": [[0], []]},
        "has more selectors than units",
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
    "pairs of other sizes": (
        lambda g: Zip(*(tiles(g, 1, tile=(4, run_time(g, f"R{x}")), name=x) for x in "ab")),
        {"a": whole(1, 4, 4), "b": whole(1, 4, 9)},
        r"operator Zip at .*: pairs tiles of 4 and 9 columns \(rule",
    ),
    "rows of other widths": (
        lambda g: Accum(tiles(g, 1, 2, tile=(1, 4), name="a"), fn=retile_row(), rank=1),
        {"a": [[*whole(1, 1, 4), *whole(1, 1, 3)]]},
        "concatenates tiles of .* by rows",
    ),
    "columns of other heights": (
        lambda g: Accum(tiles(g, 1, 2, name="a"), fn=retile_col(), rank=1),
        {"a": [[*whole(1, 4, 4), *whole(1, 3, 4)]]},
        "concatenates tiles of .* by cols",
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
    "tiles without addresses": (
        lambda g: RandomOffChipStore(
            numbers(g, g.dynamic("N"), name="a"),
            tiles(g, g.dynamic("M"), name="b"),
            g.output("y", (8, 4)),
        ),
        {"a": [0], "b": whole(2, 4, 4)},
        "has more tiles than addresses",
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
