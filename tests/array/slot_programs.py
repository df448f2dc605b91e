"""Programs of a few units for the array of slots.toml: a list of places, tiles by number, buffers
in turns and by loops, copies of references, tuples, padding.
"""

import numpy as np
from penstock.frontend import *

NUMBERS = ([7, 0, 3, 3], [5, 2, 6, 1, 4, 7])
"""Tiles of 2 x 2 of a tensor that has 2 x 4 of them."""
LISTS = ([(0, 0), (2, 4), (4, 0)], [(2, 2), (0, 4), (2, 0), (4, 4), (0, 0), (2, 4)])


def tiles(shape):
    """Different tiles of 2 x 2, nested as a stream of this shape."""
    count = int(np.prod(shape))
    elements = [np.full((2, 2), k + 1, np.float32) for k in range(count)]
    for size in reversed(shape[1:]):
        elements = [elements[i : i + size] for i in range(0, len(elements), size)]
    return elements


def program(part="listed", size=0):
    g = Graph(f"slot_{part}_{size}")
    if part == "listed":
        x = g.input("x", (6, 6), "fp32")
        places = LISTS[size]
        y = g.output("y", (2, 2 * len(places)), "fp32")
        there = [(0, 2 * k) for k in (*range(1, len(places)), 0)]
        loaded = LinearOffChipLoad(x, tile=(2, 2), order=places)
        LinearOffChipStore(loaded, y, order=there)
    elif part == "numbered":
        x = g.input("x", (4, 8), "fp32")
        count = len(NUMBERS[size])
        y = g.output("y", (2, 2 * count), "fp32")
        number = Source(graph=g, shape=(count,), name="number", scalar=8)
        LinearOffChipStore(RandomOffChipLoad(number, x, tile=(2, 2)), y)
    elif part == "tuples":
        a = Source(graph=g, shape=(5,), name="a", scalar=8 + 8 * size)
        b = Source(graph=g, shape=(5,), name="b", scalar=16)
        Sink(Zip(a, b))
    elif part == "padded":
        data = Source(graph=g, shape=(3 + size,), name="data", tile=(2, 2))
        padded, flags = Reshape(data, dim=0, chunk=2 + size, pad=0)
        Sink(padded)
        Sink(flags)
    else:
        data = Source(graph=g, shape=(2, 3), name="data", tile=(2, 2))
        held = Bufferize(data, rank=1)
        if part == "turns":
            Sink(Streamify(held, repeat=(1 + size, 3)))
        elif part == "loops":
            Sink(Streamify(held, shape=(2, 2), stride=(1, 1), repeat=2 + size))
        else:
            Sink(Streamify(held))
            Sink(Streamify(held, shape=(3,), stride=(1,), repeat=2 + size))
    return g


def inputs(seed, part="listed", size=0):
    rng = np.random.default_rng([seed, size])
    shapes = {"listed": (6, 6), "numbered": (4, 8)}
    if part not in shapes:
        return {}
    return {"x": rng.integers(-9, 9, shapes[part]).astype(np.float32)}


def streams(seed, part="listed", size=0):
    if part == "tuples":
        return {"a": [1, 200, 3, 255, 0], "b": [5, 65535, 0, 7, 9]}
    if part == "padded":
        return {"data": tiles((3 + size,))}
    if part == "numbered":
        return {"number": NUMBERS[size]}
    return {} if part == "listed" else {"data": tiles((2, 3))}
