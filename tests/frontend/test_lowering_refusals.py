"""Refusals of programs that the machine or the published timing has no form for, and of operators
without a meaning.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from penstock.frontend import *
from penstock.frontend.functions.streams import Expanding
from penstock.frontend.functions.tiles import Function
from penstock.machine.config import load
from penstock.machine.errors import PenstockError, RunError
from penstock.runs.expected import expected

SMALL = load("small_fpga")
CONFIG = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32", pages=16))


def tiles(g, *shape, tile=(4, 4), dtype="fp32", name=None):
    return Source(graph=g, shape=shape, tile=tile, dtype=dtype, name=name)


def numbers(g, *shape):
    return Source(graph=g, shape=shape, scalar=32)


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
    "parts without a unit": (
        lambda g: FlatMap(tiles(g, 2), fn=BareParts(), rank=1),
        r"bare_parts\(\) has no unit on this machine",
    ),
    "more levels than stops": (
        lambda g: tiles(g, *[1] * 13),
        "needs stops up to 15, a beat has 14; flatten dimensions",
    ),
    "tensors beyond 32 bits": (
        lambda g: LinearOffChipLoad(
            g.input("x", (1 << 20, 1 << 12)), tile=(4, 4), shape=(1,), stride=(0,)
        ),
        "tensors take 17179869184 B .* addresses have 32 bits",
    ),
    "a column spread over columns without a bound": (
        lambda g: Map(tiles(g, 2, tile=(4, g.dynamic("N"))), tiles(g, 2, tile=(4, 1)), fn=mul()),
        r"whose columns have no bound .*bound the size: graph.dynamic\(name, most=...\)",
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
    "rows of run-time width": (
        lambda g: Accum(tiles(g, 2, 3, tile=(1, g.dynamic("N"))), fn=retile_row(), rank=1),
        "tiles are packed by rows of a static number of columns",
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
        "a tile of run-time size is taken by columns where it is one physical tile high or wide",
    ),
    "a started walk that wraps within a row": (
        lambda g: LinearOffChipLoad(
            g.input("a", (12, 12)), tile=(4, 4), shape=(4,), stride=(2,), ref=tiles(g, 2)
        ),
        r"the walk over \[4\] tiles with strides \[2\] passes the end of a row of 3 tiles inside",
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


def test_operators_without_a_published_timing_are_refused():
    for make, message in (
        (
            lambda g: Reshape(numbers(g, 3), dim=0, chunk=2, pad=0)[0],
            "padding scalar 32 with 0 has no form in the published simulator",
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
