"""Dataflow graphs: the operations' results bit for bit, counts, the file form and its errors."""

import numpy as np
import pytest
from penstock.machine.errors import ProgramError
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.ops import ARITY, FORMATS, Op, apply

TEXT = """\
graph half_sum
x = input 1.5
y = input 0.0
%2 = add x y
k = const 0.5
half = mul %2 k
output z = half
output x = x
"""
NAN = {
    "fp32": np.array([0x7FC00000], np.uint32).view(np.float32)[0],
    "fp64": np.array([0x7FF8 << 48], np.uint64).view(np.float64)[0],
}


def words(fmt, seed=0, n=4000):
    """Values of a format: corners with each other, then random words (half of them of moderate
    size).
    """
    f = FORMATS[fmt]
    info = np.finfo(f.dtype)
    tiny = [info.tiny, -info.tiny, info.tiny / 2, -info.tiny / 2]
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, *tiny, info.max, info.eps, 3]
    corners = np.array(special, f.dtype)
    a, b = (m.ravel() for m in np.meshgrid(corners, corners))
    rng = np.random.default_rng(seed)
    random = [
        np.where(
            rng.random(n) < 0.5,
            rng.integers(0, 1 << f.word.itemsize * 8, n, dtype=f.word).view(f.dtype),
            rng.standard_normal(n).astype(f.dtype),
        )
        for _ in "ab"
    ]
    return tuple(np.concatenate(p).astype(f.dtype) for p in zip((a, b), random, strict=True))


def bits(x):
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_select_is_exact_and_leaks_nothing(fmt):
    x, y = words(fmt)
    for c in words(fmt, 1):
        tiny = np.finfo(x.dtype).tiny
        chosen = np.where(np.isnan(c) | (np.abs(c) >= tiny), bits(x), bits(y))
        got = apply(
            Op.JOIN, apply(Op.GATE, c, x), apply(Op.GATE, apply(Op.EQ, c, np.zeros_like(c)), y)
        )
        assert np.array_equal(bits(got), chosen)


@pytest.mark.parametrize("fmt", FORMATS)
def test_comparisons_and_arithmetic_against_python(fmt):
    a, b = words(fmt)
    tiny = np.finfo(a.dtype).tiny
    flushed = [np.where(np.abs(v) < tiny, np.copysign(0, v), v).astype(v.dtype) for v in (a, b)]
    with np.errstate(all="ignore"):
        for op, f in ((Op.LT, np.less), (Op.LE, np.less_equal), (Op.EQ, np.equal)):
            assert np.array_equal(bits(apply(op, a, b)), bits(f(*flushed).astype(a.dtype)))
        for op, f in (
            (Op.ADD, np.add),
            (Op.SUB, np.subtract),
            (Op.MUL, np.multiply),
            (Op.DIV, np.divide),
        ):
            want = f(*flushed)
            want = np.where(
                np.abs(want) < tiny, np.copysign(0, want), np.where(np.isnan(want), NAN[fmt], want)
            ).astype(a.dtype)
            assert np.array_equal(bits(apply(op, a, b)), bits(want))
    negated = apply(Op.SUB, np.full_like(a, -0.0), a)
    assert np.array_equal(bits(negated)[~np.isnan(a)], bits(-flushed[0])[~np.isnan(a)])


def test_a_format_refuses_what_it_has_not():
    with pytest.raises(ProgramError, match="EXP has no meaning on float64"):
        apply(Op.EXP, np.ones(1))
    graph = DataflowGraph.parse("x = input\ny = log x\noutput y = y")
    with pytest.raises(ProgramError, match="node y: fp64 has no log; use fp32"):
        graph.evaluate(fmt="fp64")


def test_the_file_form_reads_back_and_counts():
    g = DataflowGraph.parse(TEXT)
    assert g.text() == TEXT
    assert (len(g), len(g.edges), g.depth, g.statistics.max_fan_out) == (5, 4, 3, 1)
    assert g.edges.tolist() == [[0, 2, 0], [1, 2, 1], [2, 4, 0], [3, 4, 1]]
    out = g.results(g.evaluate({"y": np.arange(3.0)}))
    assert out["z"].tolist() == [0.75, 1.25, 1.75] and out["x"].tolist() == [1.5] * 3
    assert np.array_equal(
        g.evaluate(np.array([[1.5] * 3, [0, 1, 2]])), g.evaluate({"y": np.arange(3.0)})
    )
    # lines in another order make the same graph, but for node numbers
    shuffled = DataflowGraph.parse("\n".join(reversed(TEXT.splitlines())))
    assert (
        shuffled.statistics == g.statistics and shuffled.results(shuffled.evaluate())["z"] == 0.75
    )


def test_values_agree_with_a_walk_in_order():
    rng = np.random.default_rng(5)
    n = 400
    sources = 20
    op = np.r_[
        np.zeros(sources // 2, int),
        np.ones(sources // 2, int),
        rng.integers(2, Op.THEN, n - sources),
    ].astype(np.uint8)
    a, b = (
        np.array([int(rng.integers(0, i)) if ARITY[Op(o)] > k else -1 for i, o in enumerate(op)])
        for k in (0, 1)
    )
    g = DataflowGraph(
        op,
        a,
        b,
        rng.standard_normal(n) * (op < 2),
        {i: f"x{i}" for i in range(10)} | {n - 1: "y"},
        [n - 1],
    )
    batch = rng.standard_normal((10, 7)).astype(np.float32)
    got = g.evaluate(batch)
    want = np.zeros((n, 7), np.float32)
    for i, o in enumerate(op):
        if o == 0:
            want[i] = batch[i]
        elif o == 1:
            want[i] = np.float32(g.value[i])
        else:
            want[i] = apply(Op(o), want[a[i]], want[b[i]] if b[i] >= 0 else None)
    assert np.array_equal(bits(got), bits(want))
    copies = g.repeated(3)
    again = copies.evaluate(np.concatenate([batch, batch * 2, batch]))
    assert np.array_equal(bits(copies.results(again)["2.y"]), bits(want[-1]))
    assert (len(copies), copies.statistics.edges, copies.depth) == (
        3 * n,
        3 * g.statistics.edges,
        g.depth,
    )
    assert all(
        len({i // n for i in edge[:2]}) == 1 for edge in copies.edges.tolist()
    )  # instances share nothing
    used = g.subgraph_of_outputs()
    assert np.array_equal(
        bits(
            used.results(
                used.evaluate(
                    {used.name[int(i)]: batch[int(used.name[int(i)][1:])] for i in used.inputs}
                )
            )["y"]
        ),
        bits(want[-1]),
    )


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "a = add b c\nb = input\nc = add a b\noutput z = a",
            "f.dfg:1: the graph has a cycle: a <- c <- a",
        ),
        ("a = add a a\noutput z = a", "f.dfg:1: the graph has a cycle: a <- a"),
        (
            "a = input\nb = add a\noutput z = b",
            "f.dfg:2: add has 1 operand .rule: add has 2.; a missing operand",
        ),
        ("a = input\nb = add a c\noutput z = b", "f.dfg:2: operand c is not defined"),
        (
            "a = input\n\na = input\noutput z = a",
            "f.dfg:3: node a is defined twice; the first is on line 1",
        ),
        ("a = pow b c", "f.dfg:1: unknown operation 'pow'"),
        ("a = const one", "f.dfg:1: 'one' is not a number"),
        ("x = input nan\noutput z = x", "f.dfg:1: the value of x is a NaN"),
        ("k = const -NaN\noutput z = k", "f.dfg:1: the value of k is a NaN"),
        ("k = const 1e400\noutput z = k", "f.dfg:1: the value of k is 1e400 .rule: .* float64"),
        ("k = const -2E-400\noutput z = k", "f.dfg:1: the value of k is -2E-400 .rule: .* float64"),
        ("a = const", "f.dfg:1: const a has 0 values"),
        ("a + b", "f.dfg:1: cannot read"),
        ("a b = input", "f.dfg:1: cannot read"),
        ("a = input", "f.dfg: has no outputs"),
        ("# nothing", "f.dfg: has no nodes"),
        ("a = input\noutput z = q", "f.dfg:2: output z names q, which is not defined"),
        ("a = input\noutput z = a\noutput z = a", "f.dfg:3: output z is defined twice"),
    ],
)
def test_a_bad_file_is_refused_by_line(text, message):
    with pytest.raises(ProgramError, match=message):
        DataflowGraph.parse(text, "f.dfg")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"b": [-1, -1, -1]}, "node y .ADD.: second operand is missing"),
        ({"a": [-1, -1, 2]}, "first operand comes later, or is the node itself"),
        ({"a": [-1, 0, 0]}, "node k .CONST.: has a first operand"),
        ({"op": [0, 1, 99]}, "unknown operation code 99"),
        ({"outputs": []}, "has no outputs"),
        ({"outputs": [7]}, "output 7 is not a node"),
        ({"name": {}}, "every input needs a name"),
        ({"name": {0: "a b"}}, "'a b' cannot be a name"),
        ({"value": [0, 0]}, "different lengths"),
    ],
)
def test_a_graph_is_checked_when_made(change, message):
    fields = {
        "op": [0, 1, 2],
        "a": [-1, -1, 0],
        "b": [-1, -1, 1],
        "value": [0, 2, 0],
        "name": {0: "x", 1: "k", 2: "y"},
        "outputs": [2],
    }
    with pytest.raises(ProgramError, match=message):
        DataflowGraph(**fields | change)


def test_inputs_are_checked():
    g = DataflowGraph.parse(TEXT)
    for inputs, message in (
        ({"q": 1}, "there is no input 'q'; inputs are x, y"),
        ({"x": [1, 2], "y": [1, 2, 3]}, "different shapes"),
        (np.zeros((3, 2)), "counts the 2 inputs"),
    ):
        with pytest.raises(ProgramError, match=message):
            g.evaluate(inputs)
    with pytest.raises(ProgramError, match="unknown number format 'fp8'"):
        g.evaluate(fmt="fp8")
