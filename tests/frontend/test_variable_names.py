"""Names that operators take from the variables of a program."""

from penstock.frontend import Bufferize, Graph, Sink, Source, Streamify, build

PROGRAM = """
from penstock.frontend import *

def program():
    g = Graph("mine")
    x = Source(graph=g, shape=(2, 2), tile=(4, 4))
    a, b = Map(x, fn="exp"), Map(Map(x, fn="exp"), fn="exp")
    for _ in range(2):
        a = Map(a, fn="exp")
    g.selector = Source(
        graph=g, shape=(2,), selector=2,
    )
    lo, hi = Partition(a, g.selector, rank=1, outputs=2)
    parts = [Map(p, fn="exp").stream for p in (lo, hi)]
    parts[0] = Map(parts[0], fn="exp")
    größe = Flatten(Reassemble(parts, g.selector, rank=1), lo=0, hi=1)
    again = cast(größe, "bf16")
    out = Map(again, fn="cast_fp32")
    Sink(out, name="out")
    Sink(b)
    return g
"""


def test_an_operator_has_the_name_of_its_variable(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    graph = build(str(path)).graph
    assert [n.name for n in graph.nodes] == (
        "x a Map b a_2 a_3 selector lo_hi parts parts_2 parts_3 Reassemble Flatten again out_2 "
        "out Sink"
    ).split()
    assert graph.consumers(graph.nodes[-3].stream) == [(graph.nodes[-2], 0)]
    text = PROGRAM.replace("mine", "other")
    made: dict = {}
    exec(text, made)
    assert {n.name for n in made["program"]().nodes} >= {"Source", "Source_1", "Partition"}


def test_a_given_name_takes_the_place_of_a_variables():
    g = Graph("mine")
    tiles = Source(graph=g, shape=(1, 2), tile=(4, 4))
    buffer = Bufferize(tiles, rank=1)
    read = Streamify(buffer)
    Sink(read, name="buffer")
    assert [n.name for n in g.nodes] == ["tiles", "buffer_2", "read", "buffer"]
    assert read.inputs[0].element.memory == "buffer_2"
    assert g.consumers(buffer.stream) == [(read, 0)]
