"""Loads and stores between sources and sinks, one fabric each."""

from __future__ import annotations

import numpy as np

from ..machine.beat import BufferRef, Scalar, Tile
from .stimulus import numbers, scatter
from .zoo import Zoo


def offchip(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """All that follows on one memory."""
    z = started(t, dtype, seed)
    memory(t, dtype, seed, z)
    return listed(t, dtype, z)


def started(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """Units that streams start, on one memory: another run may follow."""
    return scattered(t, dtype, seed, triggered(t, dtype, seed))


def memory(t: int = 2, dtype: str = "fp32", seed: int = 0, z: Zoo | None = None) -> Zoo:
    """Two loads into sinks, and a store that copies a third load; sizes and alignment from
    ``seed``, the structure always the same.
    """
    z = z or Zoo("memory", t)
    rng = np.random.default_rng([seed, 11])
    tile = Tile(t, dtype)
    width = {"fp32": 4, "bf16": 2}[dtype]

    def load(name: str, rows: int, cols: int, tr: int, tc: int) -> int:
        x = z.tensor(name, rows, cols, dtype, "input")
        walk = {"rank": 2, "row_step": [tr, 0], "col_step": [0, tc]}
        shape = [-(-rows // tr), -(-cols // tc)]
        return z.offchip("load", x, tr, tc, name, shape=shape, **walk)

    for i in range(3):
        rows, cols = (int(x) for x in rng.integers(1, [4 * t + 1, 60]))
        tr = int(rng.integers(1, rows + 1))
        tc = int(rng.integers(max(1, cols // 4), cols + 1))
        if seed % 2:  # whole tiles, aligned to lines
            rows = 4 * t
            cols = 128 // width
            tr = t * int(rng.choice([1, 2]))
            tc = 64 // width
        u = load(f"in{i}", rows, cols, tr, tc)
        if i < 2:
            z.sink((u, 0), tile)
        else:
            y = z.tensor("out", rows, cols, dtype, "output")
            z.join(u, z.offchip("store", y, tr, tc, "out"), tile)
    return z


def listed(t: int = 2, dtype: str = "fp32", z: Zoo | None = None) -> Zoo:
    """Loads and stores in listed orders: aligned and misaligned tiles back and forth, and a load
    that comes back to tiles it had.
    """
    z = z or Zoo("listed", t)
    tile = Tile(t, dtype)
    for name, rows, cols, tr, tc in (("a", 3 * t, 64, t, 32), ("b", 4 * t + 1, 45, 2 * t, 13)):
        grid = [
            [(i, j) for j in range(0, cols, tc)][:: -1 if i // tr % 2 else 1]
            for i in range(0, rows, tr)
        ]
        order = [list(place) for row in grid for place in row]
        x = z.tensor(name, rows, cols, dtype, "input")
        y = z.tensor(f"{name}_copy", rows, cols, dtype, "output")
        walk = {"rank": 1, "row_step": [0], "col_step": [0]}
        u = z.offchip("load", x, tr, tc, name, shape=[len(order)], order=order, **walk)
        z.join(u, z.offchip("store", y, tr, tc, f"{name}_copy", order=order), tile)
        again = [order[k] for k in (2, 0, 1, 1, 0)] + [[rows, 0]]
        u = z.offchip("load", x, tr, tc, f"{name}_again", shape=[len(again)], order=again, **walk)
        z.sink(u, tile)
    return z


def triggered(t: int = 2, dtype: str = "fp32", seed: int = 0) -> Zoo:
    """Loads that streams start, by any beat and by the number of a tile, one of them copied by a
    store; sizes and alignment from ``seed``, the structure always the same.
    """
    z = Zoo("triggered", t)
    rng = np.random.default_rng([seed, 12])
    tile = Tile(t, dtype)
    width = {"fp32": 4, "bf16": 2}[dtype]
    for i, (trigger, payload) in enumerate(
        (("ref", BufferRef(8)), ("address", Scalar(12)), ("address", Scalar(32)))
    ):
        tr, tc, shift, down = (int(x) for x in rng.integers(1, [3 * t, 30, 3, 4]))
        if seed % 2:  # whole tiles, aligned to lines
            tr = t
            tc = 64 // width
        rows = down * tr - int(rng.integers(0, tr))
        cols = tc << shift
        x = z.tensor(f"asked{i}", rows, cols, dtype, "input")
        if trigger == "ref":
            shape = [int(rng.integers(0 if seed % 5 == 2 else 1, 3)), 2]
            loops = {"rank": 2, "shape": shape, "row_step": [tr, 0], "col_step": [0, tc]}
        else:
            loops = {"rank": 0, "shape": [], "row_step": [], "col_step": [], "shift": shift}
        u = z.offchip("load", x, tr, tc, f"asked{i}", trigger=trigger, **loops)
        z.source((u, 0), payload, numbers(2, down << shift if trigger == "address" else 8))
        z.sink((u, 0), tile)
    x, y = (
        z.tensor(name, 3 * t, 30, dtype, role)
        for name, role in (("original", "input"), ("copy", "output"))
    )
    walk = {"rank": 1, "shape": [3], "row_step": [t], "col_step": [0], "trigger": "ref"}
    u = z.offchip("load", x, t, 30, "original", **walk)
    z.source((u, 0), Scalar(1), numbers(1, 2))
    z.join(u, z.offchip("store", y, t, 30, "copy", order=[[0, 0], [t, 0], [2 * t, 0]]), tile)
    return z


def scattered(t: int = 2, dtype: str = "fp32", seed: int = 0, z: Zoo | None = None) -> Zoo:
    """Random stores: one into a sink of acknowledgements, one whose acknowledgements start a load
    of what has been stored.
    """
    z = z or Zoo("scattered", t)
    rng = np.random.default_rng([seed, 13])
    tile = Tile(t, dtype)
    number = Scalar(16)
    for i in range(2):
        bands, cols, shift, down = (int(x) for x in rng.integers(1, [3, 20, 3, 4]))
        y = z.tensor(f"out{i}", down * bands * t, (cols * t) << shift, dtype, "output")
        u = z.offchip("random_store", y, bands * t, cols * t, f"out{i}", shift=shift)
        for port, items in enumerate(scatter(tile, bands, cols, down << shift)):
            z.source((u, port), (number, tile)[port], items)
        if i:
            walk = {"rank": 1, "shape": [down], "row_step": [bands * t], "col_step": [0]}
            again = z.offchip("load", y, bands * t, cols * t, "again", trigger="ref", **walk)
            z.join((u, 0), (again, 0), Scalar(1))
            u = again
        z.sink((u, 0), tile if i else Scalar(1))
    return z
