"""One lane of an element-wise function, and the pipeline registers inside it."""

from types import SimpleNamespace

from amaranth.hdl import Module, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def let(m: Module, name: str, value: ValueLike) -> Signal:
    """A named signal driven by ``value``, so that the expression is evaluated once."""
    value = Value.cast(value)
    signal = Signal(value.shape(), name=name, src_loc_at=1)
    m.d.comb += signal.eq(value)
    return signal


def joined(s: SimpleNamespace | None, **values: ValueLike) -> SimpleNamespace:
    """The values of a stage, of which some are others or new."""
    return SimpleNamespace(**{**(vars(s) if s else {}), **values})


class Stages:
    """The registers between the stages of a pipeline that moves whenever it holds something.

    Each :meth:`cut` ends a stage. Its registers load only in cycles in which the stage holds an
    operand, so an idle pipeline does not toggle.

    Parameters
    ----------
    m : Module
        Module of the pipeline.
    en : Signal(1)
        An operand enters the first stage in this cycle.
    deep : bool
        :meth:`fine` ends a stage, too.
    """

    def __init__(self, m: Module, en: Value, *, deep: bool = False):
        self.deep = deep
        self._m = m
        self._valid = en
        self._count = 1

    @property
    def count(self) -> int:
        """Stages so far, the open one included."""
        return self._count

    @property
    def valid(self) -> Value:
        """The open stage holds an operand."""
        return self._valid

    def cut(self, s: SimpleNamespace | None = None, /, **values: ValueLike) -> SimpleNamespace:
        """Registers of the next stage: the values of stage ``s``, of which ``values`` are new or
        others. An export leaves out those that nothing reads.
        """
        m = self._m
        stage = self._count
        registers = SimpleNamespace()
        with m.If(self._valid):
            for name, value in vars(joined(s, **values)).items():
                value = Value.cast(value)
                register = Signal(
                    value.shape(), name=f"s{stage}_{name}", reset_less=True, src_loc_at=1
                )
                m.d.sync += register.eq(value)
                setattr(registers, name, register)
        valid = Signal(name=f"s{stage}_valid")
        m.d.sync += valid.eq(self._valid)
        self._valid = valid
        self._count += 1
        return registers

    def fine(self, s: SimpleNamespace | None = None, /, **values: ValueLike) -> SimpleNamespace:
        """Values after :meth:`cut` in a deep pipeline, else the same without registers."""
        if self.deep:
            return self.cut(s, **values)
        return joined(s, **{name: Value.cast(value) for name, value in values.items()})


class Through:
    """Pipeline without registers, in place of :class:`Stages`: one combinational stage."""

    count = 1
    deep = False

    def __init__(self, m: Module, en: Value):
        self._m = m
        self._cuts = 0
        self.valid = en

    def cut(self, s: SimpleNamespace | None = None, /, **values: ValueLike) -> SimpleNamespace:
        """Values of a stage, each evaluated once."""
        self._cuts += 1
        return SimpleNamespace(
            **{
                name: value
                if isinstance(value, Signal)
                else let(self._m, f"t{self._cuts}_{name}", value)
                for name, value in vars(joined(s, **values)).items()
            }
        )

    def fine(self, s: SimpleNamespace | None = None, /, **values: ValueLike) -> SimpleNamespace:
        """Values of a stage."""
        return joined(s, **{name: Value.cast(value) for name, value in values.items()})


class Lane(wiring.Component):
    """One lane of an element-wise function: the datapath without handshake.

    Subclasses define ``STAGES`` (of the pipelined form), ``DEEP`` (its stages in the deep form) and
    ``elaborate``, which takes its stages from :meth:`stages`.

    Parameters
    ----------
    arity : int
        Number of operands, 1 or 2.
    width : int
        Bits of operands and result.
    pipelined : bool
        Without it there are no registers, and ``STAGES`` is 1.
    deep : bool
        More and shorter stages, for a faster clock: ``STAGES`` is ``DEEP``. Results are equal.

    Members
    -------
    en : In(1)
        An operand enters in this cycle.
    a, b : In(width)
        The operands, fp32 (bf16 in the upper half) or fp64. ``b`` exists where ``arity`` is 2.
    o : Out(width)
        The result.

    Timing
    ------
    The result of an operand that enters in cycle c is on ``o`` in cycle c + ``STAGES`` - 1, and
    only then; the last stage ends in the consumer's register. A new operand may enter every cycle;
    nothing stalls.
    """

    STAGES = 1
    DEEP = 1

    def __init__(self, *, arity: int, width: int = 32, pipelined: bool = True, deep: bool = False):
        if arity not in (1, 2):
            raise ValueError(f"Arity must be 1 or 2, not {arity!r}")
        self.pipelined = pipelined or deep
        self.deep = deep
        if deep:
            self.STAGES = self.DEEP
        elif not pipelined:
            self.STAGES = 1
        members = {"en": In(1), "a": In(width), "o": Out(width)}
        if arity == 2:
            members["b"] = In(width)
        super().__init__(members)

    def stages(self, m: Module) -> Stages | Through:
        """The stages of this lane's datapath, opened by ``en``."""
        if not self.pipelined:
            return Through(m, self.en)
        return Stages(m, self.en, deep=self.deep)
