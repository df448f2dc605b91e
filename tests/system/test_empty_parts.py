"""Programs whose groups begin or end with, or consist of, empty parts give what their nested lists
say, on the model and on the RTL.
"""

from dataclasses import replace

import numpy as np
import penstock
import pytest
from penstock import model
from penstock.frontend import *
from penstock.machine.config import load
from penstock.machine.errors import PenstockError, RunError
from penstock.runs import boundary

W = -(np.arange(64, dtype=np.float32).reshape(16, 4) + 1)


class Given:
    """A graph with the elements of its sources."""

    def __init__(self):
        self.g = Graph("given")
        self.elements = {}

    def source(self, name, elements, rank, **kind):
        """A source whose dimensions but the outermost are ragged."""
        ragged = (self.g.dynamic(f"{name}{i}", ragged=True) for i in range(rank))
        self.elements[name] = elements
        return Source(graph=self.g, shape=(len(elements), *ragged), name=name, **kind)

    def graph(self):
        return lower(self.g, load("small_fpga"))

    def run(self, on="model", inputs=None, reference=None):
        program = Program("given", {}, self.g, inputs, reference, lambda seed: self.elements)
        return penstock.run(program, "small_fpga", on=on, judge=True)


def tile(value):
    return np.full((2, 2), value, np.float32)


def of(elements, make):
    return [of(x, make) if isinstance(x, list) else make(x) for x in elements]


def join(given, name, stream, elements, **kind):
    """The stream and a source of the same elements, which the unit `zip` takes side by side."""
    same = given.source(f"same_{name}", elements, stream.rank, **kind)
    stream.assert_shape(same.outputs[0].shape)
    Sink(Zip(stream, same))


def largest_sums(given):
    """Every sum is negative: an empty group more would give 0."""
    w = given.g.input("w", (16, 4), "bf16")
    y = given.g.output("y", (2, 4), "bf16")
    parts = [[[(0, 2), (1, 1)], []], [[(2, 3)]]]  # (page, rows)
    page, rows = (
        Flatten(given.source(name, of(parts, lambda run, k=k: run[k]), 2, scalar=32), lo=0, hi=1)
        for k, name in enumerate(("page", "rows"))
    )
    addresses = FlatMap([page, rows], fn=address_range(4), rank=1)
    sums = Accum(
        cast(RandomOffChipLoad(addresses, tensor=w, tile=(1, 4)), "fp32"), fn=add(), rank=1
    )
    LinearOffChipStore(cast(Accum(sums, fn=maximum(), rank=1), "bf16"), y)


def addresses_of_a_group_whose_last_element_gives_none(given):
    first = given.source("first", [[1, 2, 3], [4]], 1, scalar=32)
    count = given.source("count", [[1, 2, 0], [1]], 1, scalar=32)
    each = Promote(FlatMap([first, count], fn=address_range(16)), level=0).stream
    join(given, "each", each, [[[16], [32], [33]], [[64]]], scalar=32)


def a_last_token_that_goes_to_no_expert(given):
    tokens = [[np.full((1, 4), 2 * b + k, np.float32) for k in range(2)] for b in range(2)]
    token = given.source("token", tokens, 1, tile=(1, 4))
    expert = Source(graph=given.g, shape=token.outputs[0].shape, selector=2, name="expert")
    given.elements["expert"] = [[0, []], [1, 0]]
    to = Partition(token, expert, rank=0, outputs=2)
    back = Reassemble([to[0], to[1]], expert, rank=0)
    join(given, "kept", Flatten(back, lo=0, hi=1).stream, [tokens[0][:1], tokens[1]], tile=(1, 4))


@pytest.mark.parametrize("on", ["model", pytest.param("both", marks=pytest.mark.deep)])
def test_groups_with_an_empty_last_part(on):
    """Sums, addresses and tokens in one design; empty parts on RTL: tests/fuzz/test_fuzz_rtl.py."""
    given = Given()
    for make in (
        largest_sums,
        addresses_of_a_group_whose_last_element_gives_none,
        a_last_token_that_goes_to_no_expert,
    ):
        make(given)
    right = np.stack([W[:2].sum(0), W[8:11].sum(0)])
    for r in given.run(on, lambda seed: {"w": W}, lambda **_: {"y": right}):
        assert r.values_ok and r.max_rel_err == 0


def ragged_scalars(least, elements):
    given = Given()
    n = given.g.dynamic("N", ragged=True, least=least)
    x = Source(graph=given.g, shape=(2, 2, n), scalar=8, name="x")
    Sink(Flatten(x, lo=0, hi=1))
    given.elements["x"] = elements
    return given


def test_least_is_held_by_the_run_and_spares_the_held_beat():
    for least in (0, 1):
        given = ragged_scalars(least, [[[1], [2]], [[3, 4], [5]]])
        (flatten,) = (u for u in given.graph().units if u.kind.name == "flatten")
        assert flatten.kind.hold == (not least)
        assert given.run()[0].values_ok
    given = ragged_scalars(1, [[[1], []], [[3, 4], [5]]])
    with pytest.raises(PenstockError, match="0 elements in dimension N, which is at least 1"):
        given.run()


def test_an_empty_part_where_nothing_is_held_ends_the_run():
    given = ragged_scalars(0, [[[1], []], [[3, 4], [5]]])
    graph = given.graph()
    units = (
        replace(u, kind=u.kind.but(hold=False)) if u.kind.name == "flatten" else u
        for u in graph.units
    )
    sources = boundary.source_beats(given.g, graph, given.elements)
    with pytest.raises(RunError, match="a part is empty where none may be"):
        model.run(replace(graph, units=tuple(units)), load("small_fpga"), sources=sources)


@pytest.mark.parametrize(
    "elements, kind, place",
    [
        ([[[1]], [[]]], {"scalar": 8}, r"element \[1\] has nothing but an empty list"),
        ([[[1], [2]], [[np.zeros((0, 4))]]], {"rows": 0}, r"element \[1\]\[0\] .* empty tile"),
    ],
)
def test_a_source_with_an_empty_element_alone_in_its_list_is_refused(elements, kind, place):
    given = Given()
    if "rows" in kind:
        kind = {"tile": (given.g.dynamic("R", ragged=True), 4)}
        elements = [of(elements[0], lambda v: np.ones((v, 4))), elements[1]]
    Sink(given.source("x", elements, 2, **kind))
    with pytest.raises(PenstockError, match=place):
        given.run()


ALONE = {
    "reassemble": (
        [[1], []],
        1,
        lambda g, x: Reassemble(x, g.source("sel", [[0], [0]], 1, selector=1), rank=1),
    ),
    "repeat of a buffer": ([[1], []], 1, lambda g, x: Streamify(Bufferize(x, rank=1), repeat=1)),
}


@pytest.mark.parametrize("name", ALONE)
def test_an_operator_that_gives_an_empty_list_alone_in_its_list_is_refused(name):
    elements, rank, make = ALONE[name]
    given = Given()
    Sink(make(given, given.source("x", of(elements, tile), rank, tile=(2, 2))))
    with pytest.raises(RunError, match="an empty list that stands alone in its list"):
        given.run()


def test_an_empty_element_beside_another_in_its_chunk_is_taken():
    given = Given()
    given.elements["x"] = [[[], [1], [2], []]]
    shape = (1, 4, given.g.dynamic("D", ragged=True))
    x = Source(graph=given.g, shape=shape, scalar=8, name="x")
    Sink(Reshape(x, dim=1, chunk=2))
    assert given.run()[0].values_ok
