"""Element-wise functions on tiles."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...machine.functions import lookup as entry
from ..beat import words
from ..export.module_key import module_key
from ..export.place import place
from ..functions import lookup
from .pipeline import Pipelined
from .unit import widest


class MapUnit(Pipelined):
    """Applies a function of one or two tiles to every valid element.

    Elements travel through the lanes as 32-bit words, bf16 in the upper half; a bf16 result is the
    upper half of its word.

    Timing
    ------
    L = STAGES(fn) + II - 1, II = t * t / lanes; otherwise
    :class:`~penstock.hw.units.pipeline.Pipelined`. Source: docs/timing.md section 3, ``map``.
    """

    implements = "map"

    def __init__(self, *, kind, t, **built):
        unit = widest(kind)
        self.fn = unit.fn
        self.arity = unit.arity
        self.lanes = unit.lanes
        self.deep = unit.deep
        if self.arity != entry(self.fn).arity:
            raise ValueError(
                f"Arity of function {self.fn!r} must be {entry(self.fn).arity}, not {self.arity!r}"
            )
        if not isinstance(self.lanes, int) or self.lanes < 1 or t * t % self.lanes:
            raise ValueError(f"Lanes must divide t * t = {t * t}, not {self.lanes!r}")
        super().__init__(kind=kind, t=t, **built)
        for spread in self.choices("spread"):
            if spread not in (None, "cols", "rows", "both"):
                raise ValueError(
                    f"Spread of the second operand must be 'cols', 'rows' or 'both', not {spread!r}"
                )

    @property
    def _operands(self):
        if self.kind.tuple_in:
            return [getattr(self.inputs[0].payload, f"m{k}") for k in range(self.arity)]
        return [i.payload for i in self.inputs]

    def uses(self, operand):
        second = len(self.inputs) > 1 and operand is self.inputs[-1]
        return ~self.settings.constant_given if second else Const(1)

    def extent(self):
        tile = self._operands[0]
        other = self._operands[-1]
        rows = other if self.kind.first in ("rows", "both") else tile
        cols = other if self.kind.first in ("cols", "both") else tile
        return rows.rows, cols.cols

    def _words(self, k: int, operand) -> list:
        """The words of operand k, row-major, spread over the tile."""
        tile = words(operand)
        t = self.t
        if k == 0 and self.kind.first is None:
            return tile

        def spread(r: int, c: int) -> Callable[[object], Value]:
            return lambda over: tile[
                (0 if over in ("rows", "both") else r) * t + (0 if over in ("cols", "both") else c)
            ]

        places = [spread(r, c) for r in range(t) for c in range(t)]
        if k == 0:
            return [word(self.kind.first) for word in places]
        return [self.pick("spread", word) for word in places]

    def datapath(self, m: Module, first: Value, enter: Value) -> Value:
        n = self.lanes
        now = []
        for k, operand in enumerate(self._operands):
            tile = self._words(k, operand)
            group = Signal(32 * n, name=f"group{k}")
            m.d.comb += group.eq(Cat(tile[:n]))
            if self.interval > 1:
                rest = Signal(32 * (len(tile) - n), name=f"rest{k}", reset_less=True)
                with m.If(first):
                    m.d.sync += rest.eq(Cat(tile[n:]))
                with m.Else():
                    m.d.comb += group.eq(rest[: 32 * n])
                    m.d.sync += rest.eq(rest[32 * n :])
            now.append(group)
        constant = Cat(self.settings.constant, Const(0, 32))[:32]
        results = []
        for j in range(n):
            lane = lookup(self.fn, deep=self.deep)()
            key = module_key("lane", {"fn": self.fn} | ({"deep": True} if self.deep else {}))
            m.submodules[f"lane{j}"] = place(lane, key, f"lane{j}")
            m.d.comb += lane.en.eq(enter)
            operands = [group.word_select(j, 32) for group in now]
            if self.arity > 1:
                given = self.settings.constant_given
                operands[1:] = [Mux(given, constant, x) for x in operands[1:]] or [constant]
            for name, operand in zip("ab", operands, strict=False):
                m.d.comb += getattr(lane, name).eq(operand)
            results.append(lane.o[32 - self.made.element_bits :])
        return Cat(results)
