"""A program with a function, a unit and an operator of its own: nothing of it is in Penstock's
tree.

    penstock run rotary.py --config small_fpga --on both

y = ramp(rotate(x)), where `rotate` turns each pair of neighbouring columns (a, b) into (-b, a), as
rotary position embeddings do.
"""

import numpy as np
import numba
import penstock.hw.functions
import penstock.hw.registry
import penstock.model.functions
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from penstock.frontend import (
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Operator,
    StreamType,
    cast,
    ceil_div,
    function,
    operator,
)
from penstock.hw.arith.lane import Lane
from penstock.hw.units.pipeline import Pipelined
from penstock.machine.functions import FUNCTIONS, Function
from penstock.machine.functions import register as register_function
from penstock.machine.kinds import In, Kind, Out
from penstock.machine.kinds import register as register_kind

# ---- a function: what it costs, its values (NumPy and compiled), its datapath
# -----------------------------------


def ramp(a):
    """The larger of a and +0; NaN stays NaN, a subnormal reads as zero."""
    return np.where(
        np.isnan(a), np.float32(np.nan), np.where(a >= np.finfo(np.float32).tiny, a, np.float32(0))
    )


@numba.njit
def ramp_tile(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x = a[i, j]
            out[i, j] = x if x >= np.float32(1.1754943508222875e-38) or x != x else np.float32(0)


class Ramp(Lane):
    """Combinational: one stage."""

    STAGES = 1

    def __init__(self):
        super().__init__(arity=1)

    def elaborate(self, platform):
        m = Module()
        exponent = self.a[23:31]
        fraction = self.a[:23]
        nan = exponent.all() & fraction.any()
        m.d.comb += self.o.eq(Mux(nan, 0x7FC00000, Mux(self.a[31] | (exponent == 0), 0, self.a)))
        return m


# ---- a unit: one tile in, one tile out, latency 2, interval 1
# ----------------------------------------------------


def rotate(a):
    """(a, b) -> (-b, a) for each pair of columns."""
    out = np.empty_like(a)
    out[..., 0::2] = -a[..., 1::2]
    out[..., 1::2] = a[..., 0::2]
    return out


@numba.njit
def rotate_tile(a, out):
    for i in range(a.shape[0]):
        for j in range(0, a.shape[1], 2):
            out[i, j] = -a[i, j + 1]
            out[i, j + 1] = a[i, j]


class RotateKind(Kind):
    """Turns pairs of columns.

    Stalls only while its output queue is full.
    """

    name = "rotate"
    values = "rotate"  # the tile kernel registered under this name: no model code
    data = In("tiles of an even number of columns")
    result = Out("tiles")

    def latency(self, t):
        return 2

    def interval(self, t):
        return 1


class RotateUnit(Pipelined):
    """Timing: L = 2, II = 1.

    The shell of Pipelined has the handshake, the queue and the padding; this is the datapath.
    """

    def extent(self):
        return self.data.payload.rows, self.data.payload.cols

    def datapath(self, m: Module, first: Value, enter: Value) -> Value:
        bits = self.made.element_bits
        elements = Value.cast(self.data.payload.elements)
        words = [elements.word_select(k, bits) for k in range(len(elements) // bits)]
        turned = [
            Cat(words[k + 1][:-1], ~words[k + 1][-1]) if k % 2 == 0 else words[k - 1]
            for k in range(len(words))
        ]
        held = Signal(len(elements), reset_less=True)
        with m.If(enter):
            m.d.sync += held.eq(Cat(*turned))
        return held


# ---- an operator that lowers to the unit
# -------------------------------------------------------------------------


class Rotate(Operator):
    """Turns each pair of columns (a, b) into (-b, a); the shape stays."""

    def check(self):
        cols = self.inputs[0].type.tile.cols.value
        if cols is None or cols % 2:
            raise self.stream_error(
                0,
                f"has {cols} columns",
                "Rotate takes pairs of columns",
                "make the tile's columns even",
            )

    def shape_rule(self):
        return [StreamType(self.inputs[0].element, self.inputs[0].shape)]

    def lower_machine(self, low):
        return [low.chain(low.take(self, 0), self, RotateKind())]

    def evaluate(self, ev, stream):
        yield from ((None if value is None else rotate(value), stop) for value, stop in stream)


if "ramp" not in FUNCTIONS:  # a program file may be read more than once
    register_function(
        Function(
            "ramp",
            1,
            1,
            1,
            "The larger of x and 0.",
            reference=ramp,
            float64=lambda a: np.maximum(a, 0),
        )
    )
    penstock.model.functions.register("ramp", tile=ramp_tile)
    penstock.hw.functions.register("ramp", Ramp)
    register_kind(RotateKind)
    penstock.model.functions.register("rotate", reference=rotate, tile=rotate_tile)
    penstock.hw.registry.register("rotate", RotateUnit)
    operator(Rotate)


def program(rows=8, cols=16, tile_rows=4, tile_cols=8, dtype="fp32"):
    g = Graph("rotary")
    x = g.input("x", (rows, cols), dtype)
    y = g.output("y", (rows, cols), dtype)
    tiles = ceil_div(rows, tile_rows), ceil_div(cols, tile_cols)
    xs = LinearOffChipLoad(
        x, tile=(tile_rows, tile_cols), shape=tiles, stride=(tiles[1], 1), name="x"
    )
    turned = Rotate(cast(xs, "fp32"), name="turned")
    LinearOffChipStore(cast(Map(turned, fn=function("ramp"), name="ramp"), dtype), y, name="store")
    return g
