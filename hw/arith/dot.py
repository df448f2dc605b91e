"""Dot products of vectors, each summed as a balanced tree."""

from collections.abc import Callable

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...machine.functions import Function, dot_stages, lookup
from ..export.module_key import ModuleKey, module_key
from ..export.place import place
from .add import Add
from .lane import Lane, Stages, let
from .mul import Bf16Mul, Mul
from .operator import Operator

LANES: dict[str, Callable[[], Lane]] = {
    "bf16_mul": Bf16Mul,
    "fp32_mul": lambda: Mul(deep=True),
    "fp32_add": lambda: Add(deep=True),
}
"""Operator -> makes its lane in a deep pipeline."""


class Dot(wiring.Component):
    """Dot products of one vector with ``n`` others: one row of a tile by columns of another.

    Products are rounded to fp32 (those of bf16 are exact) and summed pairwise: (0, 1), (2, 3), ...,
    then pairs of those sums.

    Parameters
    ----------
    t : int
        Number of elements: 2, 4, 8 or 16.
    dtype : str
        Format of the operands, ``"bf16"`` (16 bits each) or ``"fp32"`` (32 bits each).
    n : int
        Number of dot products.
    deep : bool
        Multipliers and adders have their deep pipelines.

    Members
    -------
    en : In(1)
        Operands enter in this cycle.
    a : In(ArrayLayout(16 or 32, t))
    b : In(ArrayLayout(16 or 32, t)).array(n)
        The operands; element k of ``a`` is multiplied by element k of each ``b``.
    o : Out(32).array(n)
        The sums, fp32.

    Timing
    ------
    ``STAGES`` = 1 + log2(t): the multipliers, then one adder level each; log2(t) of them end in
    registers, the last one in the consumer's. Deep: those of the function ``mul``, and for each
    level those of ``add``. The result of operands that enter in cycle c is on ``o`` in cycle c +
    ``STAGES`` - 1; in cycles without a result ``o`` is zero. New operands may enter every cycle;
    nothing stalls. A stage's registers load only when the stage holds something.
    """

    def __init__(self, *, t: int, dtype: str, n: int = 1, deep: bool = False):
        self.STAGES = dot_stages(t, deep)
        self.deep = deep
        if dtype not in ("bf16", "fp32"):
            raise ValueError(f"Operand format must be 'bf16' or 'fp32', not {dtype!r}")
        self.t = t
        self.dtype = dtype
        self.n = n
        layout = data.ArrayLayout(16 if dtype == "bf16" else 32, t)
        super().__init__(
            {"en": In(1), "a": In(layout), "b": In(layout).array(n), "o": Out(32).array(n)}
        )

    @property
    def key(self) -> ModuleKey:
        """The key of its module."""
        how = {"deep": True} if self.deep else {}
        return module_key("dot", {"t": self.t, "dtype": self.dtype, "n": self.n} | how)

    def elaborate(self, platform):
        m = Module()
        stages = Stages(m, self.en)
        a = [let(m, f"a{k}", self.a[k]) for k in range(self.t)]
        sums = [self._products(m, stages, a, c) for c in range(self.n)]
        self._wait(stages, lookup("mul"))
        while len(sums[0]) > 1:
            level = stages.count
            terms = {
                f"dot{c}_{k}": term for c, row in enumerate(sums) for k, term in enumerate(row)
            }
            held = stages.cut(**terms)
            sums = [
                [
                    self._apply(
                        m,
                        stages,
                        "fp32_add",
                        f"add{level}_{c}_{k // 2}",
                        getattr(held, f"dot{c}_{k}"),
                        getattr(held, f"dot{c}_{k + 1}"),
                    )
                    for k in range(0, len(row), 2)
                ]
                for c, row in enumerate(sums)
            ]
            self._wait(stages, lookup("add"))
        assert stages.count == self.STAGES
        with m.If(stages.valid):
            m.d.comb += [o.eq(total) for o, (total,) in zip(self.o, sums, strict=True)]
        return m

    def _products(self, m: Module, stages: Stages, a: list[Signal], c: int) -> list[Signal]:
        """The elements of ``a`` times those of ``b[c]``."""
        return [
            self._apply(
                m, stages, f"{self.dtype}_mul", f"mul{c}_{k}", x, let(m, f"b{c}_{k}", self.b[c][k])
            )
            for k, x in enumerate(a)
        ]

    def _wait(self, stages: Stages, fn: Function) -> None:
        """The stages of lanes, which have registers of their own."""
        if self.deep:
            for _ in range(fn.depth(True) - 1):
                stages.cut()

    def _apply(self, m: Module, stages: Stages, fn: str, name: str, a: Signal, b: Signal) -> Signal:
        """The result of operator ``fn``, submodule ``name``, for two operands."""
        if self.deep:
            return self._lane(m, stages, fn, name, a, b)
        operator = Operator(fn=fn)
        operator.a = a  # itself, so that a register keeps its name
        operator.b = b
        m.submodules[name] = place(operator, operator.key, name)
        return operator.o

    def _lane(self, m: Module, stages: Stages, fn: str, name: str, a: Signal, b: Signal) -> Signal:
        """The same by a lane of a deep pipeline."""
        lane = LANES[fn]()
        m.submodules[name] = place(lane, module_key("lane", {"fn": fn, "deep": True}), name)
        m.d.comb += [
            lane.en.eq(stages.valid),
            lane.a[32 - len(a) :].eq(a),
            lane.b[32 - len(b) :].eq(b),
        ]
        return lane.o
