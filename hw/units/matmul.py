"""Products of physical tiles."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from ...machine.beat import Tile
from ..arith.dot import Dot
from ..export.place import place
from .pipeline import Pipelined
from .unit import widest


class Matmul(Pipelined):
    """A x B of two tiles, or A x B transposed, as a tile of fp32: ``rows_per_cycle`` x t dot
    products of length t.

    Timing
    ------
    L = STAGES + II - 1, II = t / rows_per_cycle, STAGES those of
    :class:`~penstock.hw.arith.dot.Dot`; otherwise :class:`~penstock.hw.units.pipeline.Pipelined`.
    Source: docs/timing.md section 3, ``matmul``; paper section 4.5.
    """

    implements = "matmul"

    def __init__(self, *, kind, t, **built):
        self.rows = widest(kind).rows_per_cycle
        if not isinstance(self.rows, int) or self.rows < 1 or t % self.rows:
            raise ValueError(f"rows_per_cycle must divide t = {t}, not {self.rows!r}")
        super().__init__(kind=kind, t=t, **built)
        a, b = self.payloads.inputs
        if not isinstance(a, Tile) or a != b:
            raise ValueError(f"Payloads of A and B must be one kind of Tile, not {a!r} and {b!r}")
        self._operand = a
        self.expect("product", self.made, Tile(t, "fp32"))

    def extent(self):
        b = self.b.payload
        return self.a.payload.rows, Mux(self.settings.transposed, b.rows, b.cols)

    def datapath(self, m: Module, first: Value, enter: Value) -> Value:
        t = self.t
        dtype = self._operand.dtype
        a, b = (Value.cast(i.payload.elements) for i in self.inputs)
        if self.interval > 1:
            row_bits = len(a) // t * self.rows
            rest = Signal(len(a) - row_bits, reset_less=True)
            kept = Signal.like(b, reset_less=True)
            rows = Signal(row_bits)
            factor = Signal.like(b)
            m.d.comb += [rows.eq(a), factor.eq(b)]
            with m.If(first):
                m.d.sync += [rest.eq(a[row_bits:]), kept.eq(b)]
            with m.Else():
                m.d.comb += [rows.eq(rest), factor.eq(kept)]
                m.d.sync += rest.eq(rest[row_bits:])
            a = rows
            b = factor
        width = self._operand.element_bits
        vector = data.ArrayLayout(width, t)
        row = [Signal(vector, name=f"row{r}") for r in range(self.rows)]
        column = [Signal(vector, name=f"column{c}") for c in range(t)]
        m.d.comb += [x.eq(a.word_select(r, t * width)) for r, x in enumerate(row)]
        for c, x in enumerate(column):
            along = Cat(b.word_select(c * t + k, width) for k in range(t))
            down = Cat(b.word_select(k * t + c, width) for k in range(t))
            m.d.comb += x.eq(Mux(self.settings.transposed, along, down))
        results = []
        for r in range(self.rows):
            dot = Dot(t=t, dtype=dtype, n=t, deep=self.kind.deep)
            # shared, not copied: 2 * t * t * t elements otherwise
            dot.en = enter
            dot.a = row[r]
            dot.b = column
            m.submodules[f"dot{r}"] = place(dot, dot.key, f"dot{r}")
            results += dot.o
        return Cat(results)
