"""Programs without a form in the published simulator: they are refused when lowered for its timing,
or where their streams show it.
"""

import pytest
from penstock.frontend import *
from penstock.machine.config import load
from penstock.machine.errors import PenstockError, RunError
from penstock.runs import api

SMALL = load("small_fpga")


def tiles(g, *shape):
    return Source(graph=g, shape=shape, tile=(4, 4), name="x")


CASES = {
    "a list of repeats": (
        lambda g: Streamify(Bufferize(tiles(g, 2, 3), rank=1), repeat=[2, 3]),
        "a list of repeats has no form in the published simulator",
    ),
    "a pair of a wide selector": (
        lambda g: Zip(
            Source(graph=g, shape=(3,), selector=100), Source(graph=g, shape=(3,), scalar=8)
        ),
        "a pair with selector 100 has no form",
    ),
    "the padding stream": (
        lambda g: Reshape(tiles(g, 5), dim=0, chunk=2, pad=0),
        "the padding stream has no unit in the published simulator",
    ),
    "a new outermost dimension": (
        lambda g: Promote(tiles(g, 2, 3)),
        "has no new outermost dimension in the published simulator",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_lowering(name):
    make, text = CASES[name]
    g = Graph("case")
    for i, s in enumerate(make(g)):
        Sink(s, name=f"out{i}")
    with pytest.raises(LoweringError, match=text) as e:
        lower(g, SMALL, "stepsim")
    assert "operator " in str(e.value) and __file__ in str(e.value)


def test_an_empty_dimension_of_a_source():
    g = Graph("case")
    Sink(Accum(Source(graph=g, shape=(2, g.ragged("N")), tile=(4, 4), name="x"), fn=add(), rank=1))
    program = Program("case", {}, g, None, None, lambda seed: {"x": [[], []]})
    with pytest.raises(
        RunError,
        match=(
            r"source x: has an empty dimension .rule: a stream has no empty dimension in the "
            r"published simulator.; run it in the timing `machine`"
        ),
    ):
        api.run(program, SMALL, timing="stepsim")


def test_a_source_without_elements():
    g = Graph("case")
    Sink(Map(tiles(g, 3), fn=row_sum()))
    with pytest.raises(PenstockError, match=r"gives no elements for source 'x'|no elements given"):
        api.run(g, SMALL, timing="stepsim")


def test_programs_alike_in_both_timings_run():
    """A pair of tiles, an accumulator of tiles of run-time size, merged units of several tiles."""
    g = Graph("case")
    a, b = (Source(graph=g, shape=(2, 3), tile=(1, 4), name=n) for n in "ab")
    Sink(Map(Zip(a, b), fn=add()), name="sums")
    Sink(Accum(a, fn=retile_row(), rank=1), name="packed")
    Sink(EagerMerge(a, b)[0], name="merged")
    Sink(
        Reassemble(a, b, Source(graph=g, shape=(2,), selector=2, name="both"), rank=1),
        name="gathered",
    )
    for n in g.nodes:
        if isinstance(n, EagerMerge):
            Sink(n[1], name="which")
    elements = [[[[0.0] * 4] for _ in range(3)] for _ in range(2)]
    (r,) = api.run(
        Program(
            "case",
            {},
            g,
            None,
            None,
            lambda seed: {"a": elements, "b": elements, "both": [[0, 1], [0, 1]]},
        ),
        SMALL,
        timing="stepsim",
    )
    assert r.cycles > 0
