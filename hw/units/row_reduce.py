"""Reducing the rows of a tile."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...machine.beat import Tile
from ...machine.functions import identity_bits, reducing_stages
from ...machine.functions import lookup as entry
from ..beat import words
from .delay import delay
from .pipeline import Pipelined
from .reducing import reduced


class RowReduce(Pipelined):
    """Reduces each row of a tile to one element, the first of its row; elements without value count
    as the function's identity.

    Timing
    ------
    L = log2(t), deep log2(t) * ``reducing_stages``, II = 1: a balanced tree over the columns, a
    register behind each level but the last; otherwise
    :class:`~penstock.hw.units.pipeline.Pipelined`. Source: docs/timing.md section 3,
    ``row_reduce``.
    """

    implements = "row_reduce"

    def __init__(self, *, t, **built):
        super().__init__(t=t, **built)
        self.deep = self.kind.deep
        for fn in self.choices("fn"):
            if entry(fn).stages != 1:
                raise ValueError(f"Function of a row reduction must have one stage, not {fn!r}")
        for payload in (*self.payloads.inputs, *self.payloads.outputs):
            if payload != Tile(t, "fp32"):
                raise ValueError(
                    f"Payloads of a row reduction must be {Tile(t, 'fp32')!r}, not {payload!r}"
                )

    def extent(self):
        tile = self.tile.payload
        return tile.rows, Mux(tile.cols == 0, tile.cols, Const(1, len(tile.cols)))

    def datapath(self, m: Module, first: Value, enter: Value) -> Value:
        t = self.t
        tile = self.tile.payload
        filled = words(tile)
        identity = self.pick("fn", identity_bits)
        level = [
            [Mux(c < tile.cols, filled[r * t + c], identity) for c in range(t)] for r in range(t)
        ]
        enable = enter
        depth = 0
        while len(level[0]) > 1:
            following = []
            for r, row in enumerate(level):
                sums = []
                for c in range(0, len(row), 2):
                    name = f"lane{depth}_{r}_{c}"
                    sums.append(reduced(self, m, name, enable, row[c], row[c + 1]))
                following.append(sums)
            enable = delay(m, enable, reducing_stages(self.deep) - 1, name=f"due{depth}_")
            if len(following[0]) > 1:
                held = [
                    [
                        Signal(32, name=f"sum{depth}_{r}_{c}", reset_less=True)
                        for c in range(len(row))
                    ]
                    for r, row in enumerate(following)
                ]
                entered = Signal(name=f"enter{depth}")
                m.d.sync += entered.eq(enable)
                with m.If(enable):
                    m.d.sync += [
                        h.eq(s)
                        for hs, ss in zip(held, following, strict=True)
                        for h, s in zip(hs, ss, strict=True)
                    ]
                following = held
                enable = entered
            level = following
            depth = depth + 1
        return Cat(Cat(row[0], Const(0, 32 * (t - 1))) for row in level)
