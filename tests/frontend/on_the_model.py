"""Programs in the making, for tests that run them on the model."""

from dataclasses import replace

import numpy as np
import penstock
from penstock.frontend import Accum, Graph, Source, retile_row
from penstock.frontend.program import Program
from penstock.machine.config import load

SMALL = load("small_fpga")
CONFIG = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32", pages=16))


class Case:
    """A program in the making, with the elements of its sources."""

    def __init__(self):
        self.g = Graph("case")
        self.given = {}
        self.rng = np.random.default_rng(0)

    def source(self, name, shape, elements, **kind):
        self.given[name] = elements
        return Source(graph=self.g, shape=shape, name=name, **kind)

    def tile(self, rows, cols):
        return self.rng.standard_normal((rows, cols)).astype(np.float32)

    def tiles(self, name, shape, size, *counts):
        """A stream of whole tiles; ``counts``: sizes of the groups of the innermost dimension
        (none: one group of ``shape``).
        """
        return self.source(
            name,
            shape,
            [[self.tile(*size) for _ in range(n)] for n in counts]
            if counts
            else [self.tile(*size) for _ in range(shape[0])],
            tile=size,
        )

    def run(self, on="model"):
        records = penstock.run(
            Program("case", {}, self.g, None, None, lambda seed: self.given), CONFIG, on=on
        )
        assert all(r.values_ok for r in records)
        return records


def ragged(c, name):
    return c.g.dynamic(name, ragged=True)


def packed(c, name, size, *counts, width=8):
    """Tiles of as many rows as each group has."""
    return Accum(c.tiles(name, (len(counts), size), (1, width), *counts), fn=retile_row(), rank=1)


def widths(c, name, rows, sizes):
    """Tiles of ``rows`` (or of as many as ``sizes`` say) and of run-time width; ``sizes``: [rows,
    columns] of each, in nested lists for groups.
    """
    ranked = isinstance(sizes[0][0], list)
    tile = (
        rows or c.g.dynamic(f"{name}_rows", ragged=True, most=9),
        c.g.dynamic(f"{name}_cols", ragged=True, most=17),
    )
    return c.source(
        name,
        (len(sizes), ragged(c, f"{name}_group")) if ranked else (len(sizes),),
        [[c.tile(*v) for v in group] for group in sizes] if ranked else [c.tile(*v) for v in sizes],
        tile=tile,
    )


def partly(c, name, size, valid, shape=None):
    """Tiles of ``size`` with valid parts of their own."""
    return c.source(name, shape or (len(valid),), [c.tile(*v) for v in valid], tile=size)
