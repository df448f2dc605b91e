"""Products of tiles of run-time size, lowered and run on the model: values bit for bit, sinks beat
for beat.
"""

from dataclasses import replace

import penstock
import pytest
from on_the_model import CONFIG, Case, packed, partly, ragged
from penstock.frontend import *
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.runs.expected import expected

SIDES = {"M": (3, 9, 5, 1), "K": (6, 1, 13, 4), "N": (12, 2, 1, 8)}


def operands(c, dynamic, transposed, groups=None, **sizes):
    """Two streams of tiles for a product: the sides in ``dynamic`` of run-time size, each with a
    list of sizes, the others as large as the first.
    """
    sizes = {**SIDES, **sizes}
    dims = {x: c.g.dynamic(x, ragged=True, most=20) if x in dynamic else sizes[x][0] for x in "MKN"}
    shape, own = (
        ((len(sizes["K"]),), iter)
        if groups is None
        else (
            (len(groups), ragged(c, "G")),
            lambda all_: iter([[all_.pop(0) for _ in range(n)] for n in groups]),
        )
    )
    out = []
    for name, sides in (("a", "MK"), ("b", "NK" if transposed else "KN")):
        tiles = [
            c.tile(*(sizes[x][i] if x in dynamic else dims[x] for x in sides))
            for i in range(len(sizes["K"]))
        ]
        out.append(c.source(name, shape, list(own(tiles)), tile=tuple(dims[x] for x in sides)))
    return out


@pytest.mark.parametrize("dynamic", ["MK", "MN", "KN"])
def test_flop_of_products_with_two_ragged_sides(dynamic):
    """The sum over the elements, not the product of the means."""
    for transposed in (False, True):
        c = Case()
        Sink(Map(*operands(c, dynamic, transposed), fn=matmul(transposed)))
        sides = [SIDES[x] if x in dynamic else SIDES[x][:1] * 4 for x in "MKN"]
        assert c.run()[0].flops == sum(2 * m * k * n for m, k, n in zip(*sides, strict=True))


def test_empty_sides_of_products():
    """An empty N or M makes an empty product, where the machine can tell it; other empty and
    unequal sides are told.
    """
    for transposed, m, k in ((True, 4, 8), (False, 4, 4)):
        c = Case()
        Sink(
            Map(
                *operands(c, "N", transposed, M=(m,), K=(k,) * 4, N=(5, 0, 3, 2)),
                fn=matmul(transposed),
            )
        )
        Sink(
            Map(
                *operands(
                    second := Case(), "MN", transposed, M=(5, 0, 3, 2), K=(k,) * 4, N=(1, 0, 5, 9)
                ),
                fn=matmul(transposed),
            )
        )
        c.run()
        second.run()
    for dynamic, transposed, sides, message in (
        (
            "K",
            False,
            {"M": (4,), "K": (3, 0, 1, 2), "N": (4,)},
            r"operands are empty \(K = 0\) where the product has 4 rows and 4 columns",
        ),
        (
            "N",
            True,
            {"M": (5,), "K": (4,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 5 rows and 4 columns: .* one row of physical "
            r"tiles, of static size",
        ),
        (
            "MN",
            True,
            {"M": (5, 1, 3, 2), "K": (4,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 1 rows",
        ),
        (
            "N",
            False,
            {"M": (4,), "K": (8,) * 4, "N": (5, 0, 3, 2)},
            r"B is empty \(N = 0\) where A has 4 rows and 8 columns: .* made of one tile",
        ),
    ):
        c = Case()
        Sink(Map(*operands(c, dynamic, transposed, **sides), fn=matmul(transposed)))
        with pytest.raises(RunError, match=message):
            evaluated(c)
    c = Case()
    Sink(
        Map(
            partly(c, "q", (5, 4), [(5, 4), (0, 4)]),
            packed(c, "k", c.g.dynamic("N", ragged=True), 3, 2, width=4),
            fn=matmul(True),
        )
    )
    with pytest.raises(
        RunError,
        match=(
            r"the product \{5, 2\}, of run-time size, has no valid row: such a tile reads as an "
            r"empty one"
        ),
    ):
        evaluated(c)
    c = Case()
    k = c.g.dynamic("K")
    other = c.g.dynamic("L")
    Sink(
        Map(
            c.source("a", (1,), [c.tile(4, 3)], tile=(4, k)),
            c.source("b", (1,), [c.tile(4, 4)], tile=(other, 4)),
            fn=matmul(),
        )
    )
    with pytest.raises(RunError, match="matmul: A has 3 columns, B has 4 rows"):
        evaluated(c)


def evaluated(c):
    """The NumPy meaning alone."""
    return expected(c.g, {}, CONFIG.machine.t, c.given)


@pytest.mark.parametrize(
    ("t", "rows"), [(2, (7, 5)), (4, (7, 5)), (4, (5, 7)), (4, (6, 6)), (8, (8, 5))]
)
def test_operands_of_partial_tiles(t, rows):
    """A tile of a static size takes all its physical tiles, whatever part of it lies in the tensor;
    outside the second operand zeros count.
    """
    config = load("small_fpga")
    config = replace(config, machine=replace(config.machine, t=t, rows_per_cycle=t, lanes={}))
    g = Graph("partial")
    xs = [
        cast(LinearOffChipLoad(g.input(name, (n, 6), "bf16"), tile=(4, 6)), "fp32")
        for name, n in zip("ab", rows, strict=True)
    ]
    LinearOffChipStore(cast(Map(*xs, fn=sub()), "bf16"), g.output("y", (rows[0], 6), "bf16"))
    (record,) = penstock.run(g, config)
    assert record.values_ok
