"""Layers' functions of rows and columns beside NumPy: rotary positions whose tables are read by
address, a causal mask, a choice of two, sums and maxima of columns.
"""

import numpy as np
import penstock
import pytest
from penstock.frontend import *

from .on_the_model import CONFIG

ROWS, COLS, TILES = 6, 8, 3
POSITIONS = [5, 0, 2]
SIGNED = [1, 2**32 - 2, 4]


def program():
    g = Graph("layout")
    names = ("x", "cos", "sin")
    x, cos, sin = (g.input(n, (6 * ROWS, COLS), "fp32") for n in names)
    xs = LinearOffChipLoad(x, tile=(ROWS, COLS), shape=(TILES,), stride=(1,))
    at = Source(graph=g, shape=(1, TILES), scalar=32, name="at")
    n = Source(graph=g, shape=(1, TILES), scalar=32, name="n")
    tables = [RandomOffChipLoad(at, t, tile=(ROWS, COLS)) for t in (cos, sin)]
    negative = Map(xs, fn=immediate("lt", 0.0))
    made = {
        "halves": rotary(xs, *tables),
        "pairs": rotary(xs, *tables, form="pairs"),
        "causal": Map(xs, n, fn=mask("diagonal")).stream,
        "either": where(negative, Map(xs, fn=col_max()), xs),
        "scores": Map(Map(xs, fn=transpose()), fn=col_sum()).stream,
    }
    for name, s in made.items():
        rows, cols = s.type.tile.static_shape
        LinearOffChipStore(s, g.output(name, (TILES * rows, cols), "fp32"))
    return Program(
        "layout",
        {},
        g,
        lambda seed: {k: np.random.default_rng([seed, len(k)]).normal(size=(36, 8)) for k in names},
        reference,
        lambda seed: {"at": [POSITIONS], "n": [SIGNED]},
    )


def reference(x, cos, sin, **_):
    out = {name: [] for name in ("halves", "pairs", "causal", "either", "scores")}
    for k, (p, n) in enumerate(zip(POSITIONS, (1, -2, 4), strict=True)):
        a = x[k * ROWS :][:ROWS]
        c, s = (t[p * ROWS :][:ROWS] for t in (cos, sin))
        half = COLS // 2
        out["halves"].append(a * c + np.hstack([-a[:, half:], a[:, :half]]) * s)
        turned = np.stack([-a[:, 1::2], a[:, ::2]], 2).reshape(a.shape)
        out["pairs"].append(a * c + turned * s)
        out["causal"].append(np.where(np.tri(ROWS, COLS, n - 1, bool), a, -np.inf))
        out["either"].append(np.where(a < 0, a.max(0), a))
        out["scores"].append(a.sum(1)[None])
    return {name: np.vstack(tiles) for name, tiles in out.items()}


@pytest.mark.parametrize("on", ["model", pytest.param("both", marks=pytest.mark.deep)])
def test_layers_functions_are_numpys(on):
    for r in penstock.run(program(), CONFIG, on=on, judge=True):
        assert r.values_ok
        assert r.max_rel_err < 1e-5
