"""Values that the hardware has no room for are refused before anything runs, with the rule they
break.
"""

import dataclasses

import pytest
from penstock.machine.beat import BufferRef, Scalar, Tile
from penstock.machine.errors import LoweringError
from penstock.machine.kinds.ends import Sink, Source
from penstock.machine.kinds.offchip import Load
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.unitgraph import Channel, Unit, UnitGraph, validate

TILE = Tile(4, "bf16")
LOAD = {
    "tensor": "x",
    "base": 0,
    "pitch": 64,
    "tensor_rows": 4,
    "tensor_cols": 4,
    "rows": 4,
    "cols": 4,
    "rank": 1,
    "shape": [2],
    "row_step": [0],
    "col_step": [0],
}
PAD = {
    "pages": 4,
    "frames": 2,
    "writers": [{"rank": 1}],
    "limit": [4],
    "readers": [{"rank": 1, "repeat_dim": False}],
    "repeat": [0],
}


def load(**changes):
    units = (Unit(0, "x", Load(**(LOAD | changes))), Unit(1, "y", Sink()), Unit(2, "z", Source()))
    ends = [((0, 0), (1, 0), TILE)] + (
        [((2, 0), (0, 0), Scalar(40))] if "trigger" in changes else []
    )
    return UnitGraph(
        "g",
        4,
        units[: 1 + len(ends)],
        tuple(Channel(i, f"c{i}", a, b, 2, p) for i, (a, b, p) in enumerate(ends)),
        ports=(0,),
    )


def pad(**changes):
    units = (
        Unit(0, "x", Source()),
        Unit(1, "pad", Scratchpad(**(PAD | changes))),
        Unit(2, "y", Sink()),
    )
    ends = ((0, 0), (1, 0), TILE), ((1, 0), (1, 1), BufferRef(4)), ((1, 1), (2, 0), TILE)
    return UnitGraph(
        "g", 4, units, tuple(Channel(i, f"c{i}", a, b, 2, p) for i, (a, b, p) in enumerate(ends))
    )


@pytest.mark.parametrize(
    "graph, rule",
    [
        (load(rows=0), "rows of a load is from 1 to 1048575"),
        (load(base=1 << 32), "base of a load is from 0 to 4294967295"),
        (load(shape=[1 << 20]), "shape of a load is from 0 to 1048575"),
        (load(shape=[1 << 10], row_step=[1 << 15]), "positions in a tensor have 24 bits"),
        (
            load(trigger="address", rank=0, shape=[], row_step=[], col_step=[], shift=3),
            "scalars of at most 32 bits",
        ),
        (pad(frames=3), "tiles a page are a power of two"),
        (pad(repeat=[-1]), "repeat of a scratchpad is from 0 to 1048575"),
        (pad(pages=8), "references to its pages"),
        (
            pad(readers=[{"rank": 2, "repeat_dim": False, "affine": 2}], shape=[2], stride=[1]),
            "each loop of an affine reader has its trips",
        ),
        (
            pad(
                readers=[{"rank": 1, "repeat_dim": False, "affine": 1}], shape=[2], stride=[1 << 16]
            ),
            "a buffer has at most 65536 tiles",
        ),
    ],
)
def test_graphs_beyond_the_limits_are_refused(graph, rule):
    with pytest.raises(LoweringError, match=rule):
        validate(graph)


def test_graphs_within_the_limits_are_taken():
    for graph in (
        load(),
        pad(),
        pad(readers=[{"rank": 1, "repeat_dim": True, "affine": 1}], shape=[2], stride=[3]),
    ):
        validate(graph)
        assert UnitGraph.from_dict(graph.to_dict()) == dataclasses.replace(graph)
