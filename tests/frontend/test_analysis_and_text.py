"""Symbolic metrics, the text form, drawings and the float64 reference."""

import numpy as np
import pytest
from penstock.frontend import *
from penstock.frontend.analysis.metrics import RULES
from penstock.frontend.show.draw import draw_fabric, fabric_parts
from penstock.machine.config import load
from penstock.machine.errors import PenstockError, RunError
from penstock.runs.expected import evaluator


def test_the_papers_equations():
    g = Graph()
    x = LinearOffChipLoad(g.input("x", (32, 64), "bf16"), tile=(16, 64), name="x")
    w = LinearOffChipLoad(
        g.input("w", (64, 48), "bf16"), tile=(64, 48), shape=(2, 1), stride=(0, 0), name="w"
    )
    p = Accum(x, w, fn=matmul(), rank=1, name="p")
    b = Bufferize(p, rank=1, name="b")
    s = Streamify(b, repeat=3, name="s")
    LinearOffChipStore(
        Expand(Accum(s, fn=add(), rank=2, name="a"), count=1, name="e"),
        g.output("y", (16, 48)),
        name="y",
    )
    tile = 16 * 64 * 2
    out = 16 * 48 * 4
    assert analyse(g, "paper").onchip.per_node == {
        "x": 2 * tile,
        "w": 2 * 64 * 48 * 2,
        "p": 16 * 64 * 2 + 64 * 48 * 2 + out,
        "b": out + 2 * 2 * out,
        "a": out,
        "e": out,
        "y": 2 * out,
    }


def test_partial_tiles_are_counted_by_their_valid_part():
    g = Graph()
    LinearOffChipStore(
        LinearOffChipLoad(g.input("x", (10, 7)), tile=(4, 4)), g.output("y", (10, 7))
    )
    assert analyse(g).offchip_bytes == 2 * 10 * 7 * 4


def dynamic_program():
    g = Graph("dynamic")
    n = g.dynamic("N")
    d = g.ragged("D")
    s = Source(graph=g, shape=(2, n), tile=(4, 8), name="tokens")
    w = LinearOffChipLoad(
        g.input("w", (8, 8)), tile=(8, 8), shape=(1,), stride=(0,), ref=s, name="w"
    )
    Sink(Accum(w, fn=add(), rank=1, name="sum"))
    x, _ = Reshape(s, dim=0, chunk=4, pad=0, name="chunks")
    x.assert_shape([2, g.dynamic("M"), 4])
    Sink(Map(Accum(x, fn=add(), rank=1), fn=exp(), units=2))
    Sink(Source(graph=g, shape=(2, d), tile=(n, 8)))
    return g


def test_symbols_stay_until_they_are_replaced_or_measured():
    a = analyse(dynamic_program())
    assert (str(a.offchip.total), a.offchip_bytes, a.symbols) == ("512*N", None, ("M", "N"))
    assert a.unresolved["offchip"] == ("w",)
    assert a.subs({"N": 5}).offchip_bytes == 2560
    assert a.merge({"offchip": {"w": 1024}}).offchip_bytes == 1024
    with pytest.raises(
        ProgramError, match="offchip: no operator 'v' has a share; measured operators are w"
    ):
        a.merge({"offchip": {"v": 1}})
    assert "measured by the run (offchip): w" in a.text()


def run_dynamic(lengths, rows):
    """Run dynamic_program on two groups of tokens."""

    def stream(counts, tile):
        return [[np.ones(tile, np.float32)] * n for n in counts]

    g = dynamic_program()
    e = evaluator(
        {"w": np.ones((8, 8), np.float32)},
        4,
        {"tokens": stream(rows, (4, 8)), "Source": stream(lengths, (rows[0], 8))},
    )
    e.run(g)
    return analyse(g), e


def test_a_run_measures_the_symbols():
    a, e = run_dynamic([3, 4], [5, 5])
    assert {n: str(v) for n, v in e.sizes.symbols.items()} == {"N": "5", "M": "2", "D": "7/2"}
    assert a.subs(e.sizes.symbols).symbols == ()
    assert a.subs(e.sizes.symbols).offchip_bytes == 5 * 2 * 256


def test_a_run_checks_shapes():
    with pytest.raises(
        RunError, match=r"stream tokens \[2, N\] .* dimension 0 is 5 in the run, not 4"
    ):
        run_dynamic([3, 4], [4, 5])
    g = Graph()
    s = Source(graph=g, shape=(g.dynamic("N"), 2), tile=(4, 4), name="s").stream.assert_shape(
        [3, 2]
    )
    Sink(s)
    ones = np.ones((4, 4), np.float32)
    e = evaluator({}, 4, {"s": [[ones, ones]]})
    with pytest.raises(
        RunError,
        match=(
            r"dimension 1 is 1 in the run, not 3 \(rule: asserted by the program\); correct the "
            r"assertion"
        ),
    ):
        e.run(g)


def test_a_users_cost_function():
    register_rule(
        "elements", lambda node: sum(t.count for t in node.outputs) if node.higher_order else 0
    )
    try:
        assert build("swiglu").analysis("elements").onchip_bytes == 4 * 32 + 4
    finally:
        del RULES["elements"]
    with pytest.raises(ProgramError, match="no on-chip rule 'elements'; known: paper, published"):
        build("swiglu").analysis("elements")
    assert metric(build("swiglu").graph, "nodes", lambda n: 1).value == 11


@pytest.mark.parametrize(
    "make",
    [
        lambda: build("swiglu").graph,
        lambda: (
            build("swiglu", {"dim": 16, "inter": 16, "tile_inter": 8}, load("small_fpga")).graph
        ),
        dynamic_program,
    ],
)
def test_text_reads_back(make):
    g = make()
    text = print_graph(g)
    again = read_graph(text)
    assert print_graph(again) == text
    assert [n.outputs for n in again.nodes] == [n.outputs for n in g.nodes]
    if g.name == "swiglu":
        config = load("fig8" if g.tensors["x"].dtype == "fp32" else "small_fpga")
        assert lower(again, config) == lower(g, config)


@pytest.mark.parametrize(
    "text,message",
    [
        ("", "no program"),
        ("x = 3", "program text:1: not a call: x = 3"),
        ("program('p')\ny = Flatten(x, lo=0, hi=1)", "program text:2: no stream 'x' so far"),
        ("program('p')\ny = Nonsense()", "program text:2: unknown operator 'Nonsense'"),
        ("program('p')\ny = (", r"program text:2: not a line of a program: 'y = \('"),
        ("program('p')\ns = Source(shape=[2, K], tile=[4, 4])", "program text:2: not a size: K"),
        ("program('p')\ns = Source(shape=[__import__('os').name], tile=[4, 4])", "not a size"),
    ],
)
def test_texts_that_cannot_be_read(text, message):
    with pytest.raises(ProgramError, match=message):
        read_graph(text)


def test_a_drawing_of_the_fabric_has_every_unit_and_channel(tmp_path):
    config = load("small_fpga")
    graph = lower(build("swiglu", {}, config).graph, config)
    boxes, arrows = fabric_parts(graph, config)
    assert {u.name for u in graph.units} < {b.name for b in boxes}
    assert len(arrows) == sum(c.src[0] != c.dst[0] for c in graph.channels) + len(graph.ports) + 1
    draw_fabric(graph, config, tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 10_000


def test_drawings(tmp_path):
    g = build("swiglu").graph
    assert to_dot(g).count("->") == sum(len(n.inputs) for n in g.nodes)
    for suffix in ("dot", "png", "svg"):
        draw(g, tmp_path / f"g.{suffix}")
        assert (tmp_path / f"g.{suffix}").stat().st_size > 500
    with pytest.raises(PenstockError, match=r"cannot draw to .*g.xyz'; suffixes are .*.dot"):
        draw(g, tmp_path / "g.xyz")
