"""Stream types, shape rules, and the messages of programs that break them."""

import re
from pathlib import Path
from typing import Any

import pytest
from penstock import frontend
from penstock.frontend import *
from penstock.machine.config import load
from penstock.workloads import WORKLOADS

CALLS: Any = frontend  # its functions are made when they are asked for
SR = DimKind.STATIC_REGULAR
DR = DimKind.DYNAMIC_REGULAR
SX = DimKind.STATIC_RAGGED
DX = DimKind.DYNAMIC_RAGGED


def shape(s) -> str:
    return str(s.stream.type if isinstance(s, Operator) else s.type)


@pytest.fixture
def g():
    return Graph("p")


def source(g, *dims, tile=(4, 8), dtype="fp32", name=None):
    return Source(graph=g, shape=dims, tile=tile, dtype=dtype, name=name)


def select(g, *dims, n=2, name="selector"):
    return Source(graph=g, shape=dims, selector=n, name=name)


def scalar(g, *dims, name="numbers"):
    return Source(graph=g, shape=dims, scalar=32, name=name)


def loop(g):
    return Loop(StreamType(SelectorType(2), (dim(4),)), graph=g, name="again")


def test_acceptance_order_of_dimension_kinds():
    accepts = {(a, b) for a in DimKind for b in DimKind if a.accepts(b)}
    assert accepts == {(k, k) for k in DimKind} | {(DR, SR), (SX, SR), (DX, SR), (DX, DR), (DX, SX)}


def test_shapes_of_the_operators(g):
    x = LinearOffChipLoad(g.input("x", (64, 256)), tile=(16, 64))
    assert shape(x) == "[1, 4, 4] tile {16, 64} fp32"
    assert shape(Flatten(x, lo=0, hi=1)) == "[1, 16] tile {16, 64} fp32"
    assert shape(Promote(x)) == "[1, 1, 4, 4] tile {16, 64} fp32"
    assert shape(Promote(x, level=0)) == "[1, 4, 4, 1] tile {16, 64} fp32"
    assert shape(Reshape(x, dim=1, chunk=2)) == "[1, 2, 2, 4] tile {16, 64} fp32"
    assert shape(Expand(x, count=3)) == "[1, 4, 4, 3] tile {16, 64} fp32"
    b = Bufferize(x, rank=1)
    assert shape(b) == "[1, 4] buffer [4] of tile {16, 64} fp32"
    assert shape(Streamify(b)) == "[1, 4, 4] tile {16, 64} fp32"
    assert shape(Streamify(b, repeat=2)) == "[1, 4, 2, 4] tile {16, 64} fp32"
    assert shape(Accum(x, fn=add(), rank=1)) == "[1, 4] tile {16, 64} fp32"
    w = LinearOffChipLoad(g.input("w", (64, 32)), tile=(64, 32), shape=(4, 4), stride=(0, 0))
    assert shape(Map(x, w, fn=matmul())) == "[1, 4, 4] tile {16, 32} fp32"
    assert shape(Zip(x, x)) == "[1, 4, 4] (tile {16, 64} fp32, tile {16, 64} fp32)"
    assert (
        shape(LinearOffChipLoad(g.tensors["w"], tile=(64, 32), ref=x))
        == "[1, 4, 4, 1, 1] tile {64, 32} fp32"
    )
    assert shape(cast(x, "bf16")) == "[1, 4, 4] tile {16, 64} bf16"
    assert [str(t) for t in Reshape(x, dim=0, chunk=3, pad=0).outputs] == [
        "[1, 4, 2, 3] tile {16, 64} fp32",
        "[1, 4, 2, 3] scalar 1",
    ]


def test_dynamic_and_ragged_dimensions(g):
    n = g.dynamic("N")
    r = g.ragged("D0")
    s = source(g, 2, n, 4)
    assert shape(Flatten(s, lo=0, hi=1)) == "[2, 4*N] tile {4, 8} fp32"
    assert Flatten(s, lo=0, hi=1).stream.shape[1].kind is DR
    ragged = Flatten(
        source(g, 2, 2, r), lo=0, hi=1
    ).stream  # the paper's example 1: a new ragged symbol
    assert (str(ragged.type), ragged.shape[1].kind) == ("[2, R0] tile {4, 8} fp32", SX)
    mixed = Flatten(source(g, 2, n, r), lo=0, hi=1).stream
    assert mixed.shape[1].kind is DX
    padded = Reshape(source(g, n), dim=0, chunk=4, pad=0)
    assert str(padded.stream.type) == "[ceiling(N/4), 4] tile {4, 8} fp32"
    assert str(Promote(source(g, n)).stream.shape[0].size) == "Piecewise((1, N >= 1), (0, True))"


def test_function_forms_and_outputs(g):
    x = CALLS.linear_off_chip_load(g.input("x", (8, 8)), tile=(4, 8))
    assert CALLS.flatten(x, lo=0, hi=1).rank == 1
    data, padding = CALLS.reshape(x, dim=0, chunk=2, pad=0)
    assert (data.port, padding.port) == (0, 1)
    assert (
        Flatten((data.node, 0), lo=0, hi=1).inputs[0].node is data.node
    )  # (operator, output), as in the paper's listing 1


def test_an_operator_is_added_by_one_registration(g):
    @operator
    class Twice(Operator):
        """Sends every element twice."""

        def shape_rule(self):
            return [Expand.shape_rule(self)[0]]

        def check(self):
            self.args.count = 2

        def lower_machine(self, low):
            return [low.expand(self)]

    try:
        s = CALLS.twice(source(g, 3))
        assert str(s.type) == "[3, 2] tile {4, 8} fp32"
        Sink(s)
        assert "s.repeat: repeat(count=2)" in str(lower(g, load("paper_hdl")))
    finally:
        del OPERATORS["Twice"], FUNCTIONAL["twice"]


WHERE = re.compile(r" at [^ ]*test_types_and_rules\.py:\d+")


def breaks(make) -> str:
    with pytest.raises(ProgramError) as e:
        make()
    text, n = WHERE.subn(" at FILE:LINE", str(e.value))
    assert n or " at /" not in str(e.value)
    return text


def load_of(g, name, size, tile, **kw):
    return LinearOffChipLoad(g.input(name, size), tile=tile, name=name, **kw)


CASES = {
    "mismatched shapes": lambda g: Map(
        load_of(g, "a", (8, 8), (4, 8)), load_of(g, "b", (12, 8), (4, 8)), fn=mul(), name="product"
    ),
    "mismatched ranks": lambda g: Zip(source(g, 2, 3, name="a"), source(g, 3, name="b")),
    "mismatched K": lambda g: Accum(
        load_of(g, "a", (8, 8), (8, 8)),
        load_of(g, "b", (16, 8), (16, 8)),
        fn=matmul(),
        rank=1,
        name="product",
    ),
    "mixed dtypes": lambda g: Map(
        source(g, 2, tile=(4, 4), name="a"),
        source(g, 2, tile=(4, 4), dtype="bf16", name="b"),
        fn=matmul(),
    ),
    "wrong dtype of a function": lambda g: Map(source(g, 2, dtype="bf16", name="a"), fn=silu()),
    "unknown dtype": lambda g: g.input("a", (8, 8), "int8"),
    "zero-size tensor": lambda g: g.input("a", (0, 8)),
    "non-positive tile": lambda g: load_of(g, "a", (8, 8), (0, 8)),
    "load outside its tensor": lambda g: load_of(
        g, "a", (8, 8), (4, 8), shape=(2, 2), stride=(2, 1)
    ),
    "stride of another rank": lambda g: load_of(g, "a", (8, 8), (4, 8), shape=(2, 2), stride=(1,)),
    "accum rank": lambda g: Accum(source(g, 2, 3, name="a"), fn=add(), rank=2),
    "accum function": lambda g: Accum(source(g, 2, 3, name="a"), fn=silu(), rank=1),
    "flatten range": lambda g: Flatten(source(g, 2, 3, name="a"), lo=1, hi=2),
    "reshape not divisible": lambda g: Reshape(source(g, 2, 3, name="a"), dim=0, chunk=2),
    "reshape dynamic outer": lambda g: Reshape(
        source(g, g.dynamic("N"), 3, name="a"), dim=1, chunk=2
    ),
    "reshape padding outer": lambda g: Reshape(source(g, 2, 3, name="a"), dim=1, chunk=2, pad=0),
    "bufferize ragged inside": lambda g: Bufferize(
        source(g, 2, 3, g.ragged("D"), name="a"), rank=2
    ),
    "streamify no buffer": lambda g: Streamify(source(g, 2, name="a")),
    "number of operands": lambda g: Map(source(g, 2, name="a"), fn=mul()),
    "number of streams": lambda g: Flatten(
        source(g, 2, name="a"), source(g, 2, name="b"), lo=0, hi=0
    ),
    "missing argument": lambda g: Flatten(source(g, 2, name="a"), lo=0),
    "unknown argument": lambda g: Flatten(source(g, 2, name="a"), lo=0, hi=0, top=1),
    "no stream": lambda g: Flatten(3, lo=0, hi=0),
    "selector wider than outputs": lambda g: Partition(
        source(g, 4, name="a"), select(g, 4, n=3), rank=0, outputs=2
    ),
    "selector narrower than inputs": lambda g: Reassemble(
        source(g, 4, name="a"), source(g, 4, name="b"), source(g, 4, name="c"), select(g, 4), rank=0
    ),
    "selector of tiles": lambda g: Partition(
        source(g, 4, name="a"), source(g, 4, name="b"), rank=0, outputs=2
    ),
    "one selector per unit": lambda g: Partition(
        source(g, 4, 3, name="a"), select(g, 5), rank=1, outputs=2
    ),
    "partition rank": lambda g: Partition(
        source(g, 4, 3, name="a"), select(g, 4), rank=2, outputs=2
    ),
    "merged shapes": lambda g: EagerMerge(source(g, 4, 3, name="a"), source(g, 4, 2, name="b")),
    "references of two memories": lambda g: EagerMerge(
        *(Bufferize(source(g, 4, name=n), rank=0, name=f"buffer_{n}") for n in "ab")
    ),
    "store of a run-time tile": lambda g: LinearOffChipStore(
        source(g, 2, tile=(g.dynamic("N"), 8), name="a"), g.output("y", (8, 8))
    ),
    "bufferize a run-time tile": lambda g: Bufferize(
        source(g, 2, tile=(g.dynamic("N"), 8), name="a"), rank=0
    ),
    "function on buffers": lambda g: Map(
        Bufferize(source(g, 2, name="a"), rank=0, name="b"), fn=silu()
    ),
    "reshape of buffers": lambda g: Reshape(
        Bufferize(source(g, 2, name="a"), rank=0, name="b"), dim=0, chunk=2
    ),
    "address of tiles": lambda g: RandomOffChipLoad(
        source(g, 2, name="a"), g.input("w", (8, 8)), tile=(4, 8)
    ),
    "addresses and tiles": lambda g: RandomOffChipStore(
        scalar(g, 3), source(g, 2, name="a"), g.output("y", (8, 8))
    ),
    "affine read of a run-time buffer": lambda g: Streamify(
        Bufferize(source(g, 2, g.dynamic("N"), name="a"), rank=1, name="b"), shape=(2,)
    ),
    "affine read outside the buffer": lambda g: Streamify(
        Bufferize(source(g, 2, 4, name="a"), rank=1, name="b"), shape=(2, 2), stride=(3, 1)
    ),
    "stride without shape": lambda g: Streamify(
        Bufferize(source(g, 2, 4, name="a"), rank=1, name="b"), stride=(1,)
    ),
    "reference of another shape": lambda g: Streamify(
        Bufferize(source(g, 2, 4, name="a"), rank=1, name="b"), ref=scalar(g, 3, 2)
    ),
    "repeat and reference": lambda g: Streamify(
        Bufferize(source(g, 2, 4, name="a"), rank=1, name="b"), ref=scalar(g, 2), repeat=2
    ),
    "two dtypes in one memory": lambda g: [
        Bufferize(source(g, 2, name=n, dtype=t), rank=0, memory="pad")
        for n, t in (("a", "fp32"), ("b", "bf16"))
    ],
    "expand of a long dimension": lambda g: Expand(source(g, 2, 3, name="a"), ref=scalar(g, 2, 4)),
    "scan function": lambda g: Scan(source(g, 2, 3, name="a"), fn=matmul(), rank=1),
    "flat map function": lambda g: FlatMap(source(g, 2, name="a"), fn=silu()),
    "map of a collecting function": lambda g: Map(source(g, 2, name="a"), fn=retile_row()),
    "cut without mask": lambda g: FlatMap(
        source(g, 2, tile=(g.dynamic("N"), 8), name="a"), fn=retile_streamify()
    ),
    "cut by another size": lambda g: FlatMap(source(g, 2, name="a"), fn=retile_streamify(size=3)),
    "cut by nothing": lambda g: retile_streamify(along="diagonal"),
    "expert addresses of scalars": lambda g: FlatMap(scalar(g, 2), fn=expert_addresses(3)),
    "address stride": lambda g: address(-1),
    "scale by a word": lambda g: scale("half"),
    "source of nothing": lambda g: Source(graph=g, shape=(2,)),
    "source of two": lambda g: Source(graph=g, shape=(2,), selector=2, scalar=3),
    "loop closed twice": lambda g: [
        (a := loop(g)).close(select(g, 4, name="a")),
        a.close(select(g, 4, name="b")),
    ],
    "loop left open": lambda g: Sink(loop(g)).graph.check(),
    "no streams to merge": lambda g: Reassemble(select(g, 4), rank=0),
    "a bound of nothing": lambda g: g.dynamic("N", most=0),
    "two graphs": lambda g: Zip(source(g, 2), source(Graph("q"), 2)),
    "unknown function": lambda g: Map(source(g, 2), fn="softsign"),
    "store of another size": lambda g: LinearOffChipStore(
        source(g, 2, 2, name="a"), g.output("y", (8, 8))
    ),
    "stored twice": lambda g: [
        LinearOffChipStore(s, g.tensors.get("y") or g.output("y", (8, 8)))
        for s in (source(g, 2), source(g, 2))
    ],
    "stored in two ways": lambda g: [
        LinearOffChipStore(source(g, 2), y := g.output("y", (8, 8))),
        Sink(RandomOffChipStore(scalar(g, 2), source(g, 2), y)).graph.check(),
    ],
    "a read of what is stored in order": lambda g: [
        LinearOffChipStore(source(g, 2), y := g.output("y", (8, 8))),
        Sink(LinearOffChipLoad(y, tile=(4, 8))).graph.check(),
    ],
    "asserted another size": lambda g: source(g, 2, 3, name="a").stream.assert_shape([2, 4]),
    "asserted another rank": lambda g: source(g, 2, 3, name="a").stream.assert_shape([6]),
    "nothing stores": lambda g: (g.output("out", (8, 8)), Sink(source(g, 2, name="a")), g.check()),
    "copies that only the run knows": lambda g: Expand(
        source(g, 2, name="a"), count=g.dynamic("N")
    ),
    "tiles that only the run knows": lambda g: LinearOffChipLoad(
        g.input("x", (8, 8)), tile=(g.dynamic("N"), 8)
    ),
    "chunks that only the run knows": lambda g: Reshape(
        source(g, 4, name="a"), dim=0, chunk=g.dynamic("N")
    ),
    "rank of a single dimension": lambda g: Accum(source(g, 2, name="a"), fn=add(), rank=1),
    "a word of Python": lambda g: Sink(source(g, 2, name="a"), name="in"),
    "nothing reads": lambda g: Flatten(source(g, 2, 3, name="a"), lo=0, hi=1).graph.check(),
    "no operators": lambda g: g.check(),
    "a program's name": lambda g: Graph("2x"),
    "a symbol twice": lambda g: [g.dynamic("N"), g.ragged("N")],
    "tensor of one dimension": lambda g: g.input("a", (8,)),
    "no graph": lambda g: Source(shape=(2,), selector=2),
    "no such output": lambda g: source(g, 2)[1],
    "a size of half a tile": lambda g: source(g, 2.5),
    "loop closed from another graph": lambda g: loop(g).close(select(Graph("q"), 4)),
    "buffer rank": lambda g: Bufferize(source(g, 2, 3, name="a"), rank=2),
    "memory's name": lambda g: Bufferize(source(g, 2, 3, name="a"), rank=1, memory="2x"),
    "affine read of other ranks": lambda g: Streamify(
        Bufferize(source(g, 2, 4, name="a"), rank=1, name="b"), shape=(2, 2), stride=(1,)
    ),
    "function on numbers": lambda g: Map(scalar(g, 2), fn=silu()),
    "row sums of bf16": lambda g: Map(source(g, 2, dtype="bf16", name="a"), fn=row_sum()),
    "no function": lambda g: Map(source(g, 2, name="a"), fn=3),
    "store to an input": lambda g: LinearOffChipStore(source(g, 2, name="a"), g.input("y", (8, 8))),
    "order of nothing": lambda g: load_of(g, "a", (8, 8), (4, 8), order=[]),
    "order that visits a tile twice": lambda g: LinearOffChipStore(
        source(g, 2, name="a"), g.output("y", (8, 8)), order=[(0, 0), (0, 0)]
    ),
    "a rule twice": lambda g: register_rule("paper", lambda graph: 0),
    "tensor twice": lambda g: [g.input("a", (8, 8)), g.input("a", (8, 8))],
}


def test_error_messages(request):
    import os

    lines = []
    for name, make in CASES.items():
        lines.append(f"{name}:\n    {breaks(lambda make=make: make(Graph('p')))}\n")
    path = Path(__file__).with_name("golden") / "program_errors.txt"
    text = "".join(lines)
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_assertion_replaces_a_dynamic_shape(g):
    s = source(g, g.dynamic("N"), 3).stream
    assert s.assert_shape([2, 3]).type.count == 6


PROGRAM = """
from penstock.frontend import *

def program(n=8, wrong=0):
    g = Graph("mine")
    s = LinearOffChipLoad(g.input("a", (n, 8)), tile=(4, 8))
    if wrong:
        1 / 0
    LinearOffChipStore(Map(s, fn=silu()), g.output("y", (n, 8)))
    return g
"""


def test_a_program_file_runs_like_a_workload(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    p = build(str(path), {"n": 16}, load("paper_hdl"))
    assert (p.name, p.params) == ("mine", {"wrong": 0, "n": 16})
    x = p.inputs(0)
    assert x["a"].shape == (16, 8)
    want = x["a"].astype(float) / (1 + 2.718281828459045 ** -x["a"].astype(float))
    assert abs(p.reference64(x)["y"] - want).max() < 1e-12


@pytest.mark.parametrize(
    "text,params,message",
    [
        (
            PROGRAM,
            {"wrong": 1},
            r"program .*mine.py \(.*mine.py:8\): raises ZeroDivisionError: division by zero",
        ),
        (PROGRAM, {"m": 1}, r"program .*mine.py: unknown parameter 'm'; parameters are n, wrong"),
        (
            PROGRAM,
            {"n": 0},
            r"tensor a at .*mine.py:6: rows and cols must be integers of at least 1, not \[0, 8\]",
        ),
        ("def program(:\n", {}, r"program .*mine.py:1: is not Python"),
        ("def program():\n    raise SystemExit(0)\n", {}, "raises SystemExit: 0"),
        ("import nothing_of_this_name\n", {}, r"raises ModuleNotFoundError"),
        ("x = 1\n", {}, r"defines no function program\(\)"),
        ("def program():\n    return 3\n", {}, r"program\(\) returns int, not a Graph"),
        ("def program(n):\n    return n\n", {}, r"parameter 'n' is not given; pass n=..."),
    ],
)
def test_program_files_that_fail(tmp_path, text, params, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ProgramError, match=message):
        build(str(path), params)


def test_unknown_program():
    with pytest.raises(
        ProgramError,
        match=(
            f"no program named 'swigloo'; did you mean 'swiglu'. known: {', '.join(WORKLOADS)}; "
            "or give the path of a .py file"
        ),
    ):
        build("swigloo")


def test_cuts_of_one_stream_into_parts_of_other_sizes_have_numbers_of_their_own():
    g = Graph("cuts")
    x = Source(graph=g, shape=(2,), tile=(2, 6), dtype="bf16").stream
    by_2, by_3, again = (
        FlatMap(x, fn=retile_streamify("cols", n, mask=True)).stream.shape[-1] for n in (2, 3, 2)
    )
    assert by_2.size == again.size != by_3.size
    assert (g.most(by_2), g.most(by_3)) == (2 * 3, 2 * 2)
