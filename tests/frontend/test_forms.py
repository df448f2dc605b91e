"""Forms of the operators of tables 3 to 7: those that run, on model and RTL, and those refused."""

import numpy as np
import penstock
import pytest
from penstock.frontend import *
from penstock.machine.errors import PenstockError

from .on_the_model import CONFIG, Case, packed, partly, widths

FORMS = {}


def form(f):
    FORMS[f.__name__] = f
    return f


def numbers(c, name, shape, values, bits=32):
    return c.source(name, shape, values, scalar=bits)


def chosen(c, name, shape, values, n=2):
    return c.source(name, shape, values, selector=n)


def tiles(c, name, size=(4, 8), counts=(3, 2)):
    return c.tiles(name, (len(counts), c.ragged(f"{name}_R")), size, *counts)


def buffers(c, name, counts=(2, 1, 2), memory=None):
    x = c.tiles(f"x{name}", (len(counts), c.ragged(f"{name}_R")), (4, 8), *counts)
    return Bufferize(x, rank=1, name=name, memory=memory)


def pair(c, name, n=4):
    """Tiles of several physical ones, with numbers."""
    return Zip(
        c.tiles(f"{name}_tiles", (n,), (4, 8)), numbers(c, f"{name}_numbers", (n,), list(range(n)))
    )


@form
def zip_of_tiles_that_differ_in_shape(c):
    Sink(Zip(c.tiles("a", (3,), (4, 8)), c.tiles("b", (3,), (8, 4))), name="y")


@form
def zip_of_a_zip_with_a_selector(c):
    Sink(Zip(pair(c, "p", 3), chosen(c, "s", (3,), [0, [0, 1], []])), name="y")


@form
def partition_of_a_tile_with_a_scalar(c):
    s = chosen(c, "s", (4,), [0, [0, 1], 1, 0])
    for i, q in enumerate(Partition(pair(c, "p"), s, rank=0, outputs=2)):
        Sink(q, name=f"y{i}")


@form
def reassemble_of_pairs(c):
    s = chosen(c, "s", (3,), [[0, 1], 0, [0, 1]])
    Sink(Reassemble(pair(c, "p", 3), pair(c, "q", 2), s, rank=0), name="y")


@form
def eager_merge_of_pairs(c):
    data, selector = EagerMerge(pair(c, "p"), pair(c, "q", 2))
    Sink(data, name="y")
    Sink(selector, name="z")


@form
def a_buffer_with_a_scalar(c):
    pairs = Zip(buffers(c, "b"), numbers(c, "n", (3,), [1, 2, 3]))
    w = c.tensor("w", (4, 8), "input")
    Sink(LinearOffChipLoad(w, tile=(4, 8), ref=pairs), name="y")
    Sink(Streamify(buffers(c, "used")), name="z")


@form
def expand_of_pairs(c):
    Sink(Expand(pair(c, "p"), count=2), name="y")
    one = Zip(tiles(c, "a", counts=(1, 1)), tiles(c, "b", (4, 4), (1, 1)))
    Sink(Expand(one, ref=numbers(c, "r", (2, 3), [[0] * 3] * 2), rank=1), name="z")


@form
def map_over_a_zip(c):
    Sink(Map(Zip(c.tiles("a", (2,), (4, 8)), c.tiles("b", (2,), (8, 4))), fn=matmul()), name="y")
    Sink(Map(pair(c, "p"), fn=row_offset()), name="z")


@form
def map_of_several_operands(c):
    a, b, d = (c.tiles(n, (3,), (4, 8)) for n in "xyz")
    Sink(Map(a, b, d, fn=add()), name="y")
    e, f, g = (c.tiles(n, (3,), (8, 8)) for n in "efg")
    Sink(Map(Zip(Zip(e, f), g), fn=maximum()), name="z")


@form
def map_of_numbers_and_constants(c):
    n = numbers(c, "n", (5,), [0, 3, 7, 8, 2**32 - 1])
    for op, value in (
        ("add", 5), ("mul", 3), ("min", 7), ("max", 7), ("less", 8), ("equal", 8), ("constant", 9)
    ):  # fmt: skip
        Sink(Map(n, fn=number(op, value)), name=f"y_{op}")
    Sink(Map(n, fn=number("one_hot", 9)), name="hot")


@form
def accum_from_a_value(c):
    Sink(Accum(tiles(c, "a", counts=(3, 0, 2)), fn=add(), rank=1, init=1.5), name="y")
    Sink(Accum(tiles(c, "b", counts=(3, 0, 2)), fn=mul(), rank=1), name="z")
    Sink(Accum(tiles(c, "d", (8, 8), (2, 3)), fn=sub(), rank=1, init=2.0), name="w")


@form
def accum_of_numbers(c):
    ragged = c.ragged("R")
    n = numbers(c, "n", (4, ragged), [[1, 5, 2], [7], [], [4, 4]], bits=8)
    Sink(Accum(n, fn=add(), rank=1), name="sum")
    Sink(Accum(n, fn=mul(), rank=1), name="product")
    Sink(Accum(n, fn=maximum(), rank=1, init=3), name="most")
    Sink(Scan(n, fn=add(), rank=1, init=250), name="running")
    s = chosen(c, "s", (3, c.ragged("S")), [[0, [1, 2]], [], [2]], n=3)
    Sink(Accum(s, fn=add(), rank=1), name="union")
    Sink(Scan(s, fn=add(), rank=1), name="unions")


@form
def accum_of_tuples(c):
    ragged = c.ragged("R")
    n = numbers(c, "n", (2, ragged), [[1, 5, 2], [7, 7]])
    pairs = Zip(tiles(c, "a"), Zip(n, tiles(c, "b", (8, 4))))
    Sink(Accum(pairs, fn=add(), rank=1, init=(0.5, 3)), name="y")
    Sink(Scan(pairs, fn=maximum(), rank=1), name="z")


@form
def accum_of_products_of_pairs(c):
    pairs = Zip(tiles(c, "a"), tiles(c, "b", (8, 4)))
    Sink(Accum(pairs, fn=matmul(), rank=1), name="y")
    Sink(Scan(pairs, fn=matmul(), rank=1), name="z")


@form
def scan_from_a_value(c):
    Sink(Scan(tiles(c, "a", counts=(3, 2)), fn=mul(), rank=1, init=0.5), name="y")


@form
def flat_map_of_more_dimensions(c):
    x = tiles(c, "a")
    Sink(FlatMap(x, fn=retile_streamify(), rank=2), name="y")
    Sink(FlatMap(packed(c, "p", c.ragged("P", most=4), 2, 0, 3), rank=3,
                 fn=retile_streamify(mask=True)), name="z")  # fmt: skip


def doubled(x):
    """A function of a program's own: each element twice, the rows of each."""
    return FlatMap(Expand(x, count=2), fn=retile_streamify(), rank=1)


@form
def flat_map_of_a_function_of_ones_own(c):
    x = c.tiles("a", (3,), (4, 8))
    Sink(FlatMap(x, fn=doubled, rank=2), name="y")
    Sink(FlatMap(x, fn=lambda s: Expand(s, count=3)), name="z")


@form
def reshape_with_any_pad(c):
    for name, pad in (("one", 1.5), ("none", 0)):
        y = Reshape(tiles(c, name, (6, 5), (3, 1)), dim=0, chunk=2, pad=pad)
        Sink(y[0], name=f"y_{name}")
        Sink(y[1], name=f"pads_{name}")
    Sink(Reshape(numbers(c, "n", (5,), [1, 2, 3, 4, 5]), dim=0, chunk=3, pad=9)[0], name="number")
    Sink(Reshape(chosen(c, "s", (3,), [0, 1, 0]), dim=0, chunk=2, pad=(1,))[0], name="selector")


@form
def reshape_of_pairs(c):
    for k, pad in enumerate((0, (2.0, 7))):
        y = Reshape(pair(c, f"p{k}", 5), dim=0, chunk=2, pad=pad)
        Sink(y[0], name=f"y{k}")
        Sink(y[1], name=f"z{k}")


@form
def reshape_of_tiles_of_run_time_size(c):
    for k, counts in enumerate(((2, 1, 3), (0, 2, 1, 0), (1, 2, 0, 0, 1), (1,))):
        x = packed(c, f"p{k}", c.ragged(f"P{k}", most=4), *counts)
        y = Reshape(x, dim=0, chunk=3, pad=0)
        Sink(y[0], name=f"y{k}")
        Sink(y[1], name=f"z{k}")
    groups = [[[c.tile(1, 8) for _ in range(n)] for n in counts] for counts in ((2, 1, 3, 0), (1,))]
    x = c.source("x", (2, c.ragged("G"), c.ragged("P", most=4)), groups, tile=(1, 8))
    y = Reshape(Accum(x, fn=retile_row(), rank=1), dim=0, chunk=3, pad=0)
    Sink(y[0], name="grouped")
    Sink(y[1], name="grouped_pads")


@form
def random_access_to_three_tiles_a_row(c):
    at = numbers(c, "n", (4,), [5, 0, 2, 3])
    w, y = c.tensor("w", (8, 24), "input"), c.tensor("out", (8, 24), "output")
    Sink(RandomOffChipLoad(at, tensor=w, tile=(4, 8)), name="y")
    Sink(RandomOffChipStore(at, c.tiles("x", (4,), (4, 8)), tensor=y), name="ack")


@form
def buffers_as_references(c):
    w = c.tensor("w", (4, 8), "input")
    Sink(LinearOffChipLoad(w, tile=(4, 8), ref=buffers(c, "b")), name="y")
    Sink(Streamify(Expand(buffers(c, "e"), count=2)), name="z")


@form
def counts_of_the_run(c):
    n = numbers(c, "n", (3,), [2, 0, 3])
    Sink(Streamify(buffers(c, "b"), repeat=n), name="y")
    Sink(Expand(c.tiles("x", (3,), (4, 8)), count=n), name="z")
    Sink(Expand(numbers(c, "m", (3,), [7, 8, 9]), count=n), name="w")


@form
def two_hundred_targets(c):
    x = c.tiles("x", (4,), (4, 4))
    s = chosen(c, "s", (4,), [199, [0, 130], 64, [63, 199]], n=200)
    held = Partition(x, s, rank=0, outputs=200)
    again = chosen(c, "again", (4,), [199, [0, 130], 64, [63, 199]], n=200)
    Sink(Reassemble(list(held), again, rank=0), name="y")


@form
def loads_from_an_origin(c):
    w = c.tensor("w", (12, 24), "input")
    Sink(LinearOffChipLoad(w, tile=(4, 8), origin=(3, 16)), name="y")
    Sink(LinearOffChipLoad(w, tile=(4, 8), origin=(1, 5), shape=(2,), stride=(3,)), name="z")
    n = numbers(c, "n", (2,), [0, 0])
    Sink(LinearOffChipLoad(w, tile=(2, 8), origin=(5, 0), ref=n), name="w")


def stored_and_loaded(c):
    y = c.tensor("y", (8, 8), "output")
    LinearOffChipStore(c.tiles("x", (2,), (4, 8)), y)
    Sink(LinearOffChipLoad(y, tile=(4, 8)))


@form
def operands_spread_both_ways(c):
    sizes = {"whole": (6, 10), "row": (1, 10), "column": (6, 1), "one": (1, 1)}
    for k, (a, b) in enumerate(
        (
            *(("row", "whole"), ("column", "whole"), ("one", "whole")),
            *(("column", "row"), ("row", "column"), ("one", "row")),
        )
    ):
        first, second = (c.tiles(f"{x}{k}{i}", (3,), sizes[x]) for i, x in enumerate((a, b)))
        Sink(Map(first, second, fn=sub()), name=f"y{k}")
    pairs = Zip(c.tiles("za", (3,), (4, 1)), c.tiles("zb", (3,), (1, 4)))
    Sink(Map(pairs, fn=sub()), name="z")
    rows = packed(c, "wide", c.ragged("wide_R", most=9), 2, 9)
    Sink(Map(c.tiles("over", (2,), (1, 8)), rows, fn=sub()), name="w")
    three = [c.tiles(f"t{k}", (3,), size) for k, size in enumerate(((6, 1), (1, 10), (6, 10)))]
    Sink(Map(*three, fn=add()), name="t")


@form
def scan_of_pairs_of_run_time_size(c):
    x = widths(c, "x", 3, [[[3, 9], [3, 9]], [[3, 2]]])
    n = numbers(c, "n", x.stream.shape, [[1, 2], [3]])
    Sink(Scan(Zip(x, n), fn=add(), rank=1), name="y")


@form
def addresses_in_memory(c):
    """A page table, read by a table of its rows: pages of a cache, and a number of copies."""
    pages = c.tensor("pages", (4, 6), "input", "int32")
    chosen = c.tensor("chosen", (1, 3), "input", "int32")
    cache = c.tensor("cache", (32, 8), "input")
    rows = FlatMap(LinearOffChipLoad(chosen, tile=(1, 3)), fn=integers())
    places = FlatMap(RandomOffChipLoad(rows, pages, tile=(1, 6)), fn=integers(), rank=1)
    Sink(RandomOffChipLoad(places, cache, tile=(4, 8)), name="y")
    x = c.source("x", (1, 1, 3), [[[c.tile(4, 8) for _ in range(3)]]], tile=(4, 8))
    Sink(Expand(x, count=rows), name="z")


@form
def tiles_transposed(c):
    for k, size in enumerate(((9, 6), (3, 10), (10, 3))):
        Sink(Map(c.tiles(f"a{k}", (3,), size), fn=transpose()), name=f"y{k}")
    Sink(Map(partly(c, "p", (6, 7), [(5, 7), (0, 0), (6, 2)]), fn=transpose()), name="y3")
    Sink(Map(widths(c, "w", 3, [(3, 9), (3, 1)]), fn=transpose()), name="y4")


@form
def columns_reduced(c):
    for fn in (col_sum, col_max):
        for k, x in enumerate(
            (
                c.tiles(f"{fn.__name__}_a", (3,), (9, 6)),
                partly(c, f"{fn.__name__}_p", (6, 7), [(5, 7), (0, 0), (6, 2)]),
                packed(c, f"{fn.__name__}_r", c.ragged(f"{fn.__name__}_R"), 2, 0, 9),
            )
        ):
            Sink(Map(x, fn=fn()), name=f"{fn.__name__}{k}")


@form
def columns_rotated(c):
    for k, (form, cols) in enumerate((("pairs", 6), ("halves", 4), ("halves", 24))):
        Sink(Map(c.tiles(f"a{k}", (3,), (5, cols)), fn=rotate(form)), name=f"y{k}")


@form
def masks_by_numbers(c):
    for k, along in enumerate(("rows", "cols", "diagonal")):
        a = partly(c, f"a{k}", (6, 9), [(6, 9), (5, 3), (6, 9), (0, 0)])
        n = numbers(c, f"n{k}", (4,), [0, 3, 2**32 - 3, 4])
        Sink(Map(a, n, fn=mask(along)), name=f"y{k}")


REFUSED = {
    "store of tiles of run-time size": (
        lambda c: LinearOffChipStore(
            packed(c, "p", c.ragged("P"), 2, 2), c.tensor("y", (4, 8), "output")
        ),
        "takes tiles of static size",
    ),
    "load behind a linear store": (stored_and_loaded, "does not tell when its tiles can be read"),
    "scan of what grows": (
        lambda c: Scan(tiles(c, "a", (1, 8)), fn=retile_row(), rank=1),
        "no place to wait",
    ),
    "copies of a buffer in a tuple": (
        lambda c: Expand(Zip(buffers(c, "b"), numbers(c, "n", (3,), [1, 2, 3])), count=2),
        "expand the members by the count",
    ),
    "pad of one target twice": (
        lambda c: Reshape(chosen(c, "s", (3,), [[0], [1], [0]], 4), dim=0, chunk=2, pad=(1, 1)),
        "list of different targets",
    ),
    "initial value beyond fp32": (
        lambda c: Accum(tiles(c, "a"), fn=add(), rank=1, init=1e40),
        "init must be a number of fp32",
    ),
}


class Part(Case):
    """A form among others of one program: its names begin with the form's."""

    def __init__(self, whole, form):
        self.__dict__ |= vars(whole)
        self.form = form

    def source(self, name, shape, elements, **kind):
        return super().source(f"{self.form}_{name}", shape, elements, **kind)

    def ragged(self, name, **bound):
        return self.g.dynamic(f"{self.form}_{name}", ragged=True, **bound)

    def tensor(self, name, shape, role, dtype="fp32"):
        return self.g.tensor(f"{self.form}_{name}", shape, dtype, role)


def together(*forms):
    whole = Case()
    for name in forms:
        FORMS[name](Part(whole, name))
    return whole


def run(c, on):
    rng = np.random.default_rng(1)
    tensors = {
        t.name: rng.integers(0, 4, (t.rows, t.cols))
        if t.dtype == "int32"
        else rng.standard_normal((t.rows, t.cols)).astype(np.float32)
        for t in c.g.tensors.values()
        if t.role == "input"
    }
    program = Program("case", {}, c.g, lambda seed: tensors, None, lambda seed: c.given)
    return penstock.run(program, CONFIG, on=on, judge=True)


def assert_values(records):
    assert records
    assert all(r.values_ok for r in records)


NAMES = [name for name in FORMS if name != "two_hundred_targets"]
GROUPS = [NAMES[k::3] for k in range(3)]
"""Forms that share a fabric, for one build of the simulator."""


@pytest.mark.parametrize(
    "names",
    [*GROUPS, pytest.param(["two_hundred_targets"], marks=pytest.mark.deep)],
    ids=lambda names: names[0],
)
def test_forms_run_on_model_and_rtl(names):
    assert_values(run(together(*names), "both"))


def test_two_hundred_targets_run_on_the_model():
    assert_values(run(together("two_hundred_targets"), "model"))


@pytest.mark.parametrize("name", REFUSED)
def test_form_is_refused_with_its_reason(name):
    c = Part(Case(), "form")
    what, reason = REFUSED[name]
    with pytest.raises(PenstockError, match=reason):
        what(c)
        c.g.check()
