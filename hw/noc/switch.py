"""The switch of an array: circuits that the image sets."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..export.module_key import ModuleKey, module_key
from ..export.place import place


def select_layout(reach: Sequence[Sequence[int]]) -> dict[str, int]:
    """Registers of a switch whose output k can be fed by the inputs ``reach[k]``: name -> bits.

    ``select_k`` is 0 where output k is not used, and 1 + the place in ``reach[k]`` of the input
    that feeds it.
    """
    return {f"select_{k}": len(inputs).bit_length() for k, inputs in enumerate(reach)}


class Select(wiring.Component):
    """Passes one of several payloads; 0 where it passes none.

    It is a module of its own, so that what an output of a switch passes is converted to Verilog
    once for each number of inputs.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a beat.
    inputs : int
        Number of payloads.

    Members
    -------
    select : In(range(inputs + 1))
        0, or 1 + the number of the one that passes.
    i0, i1, ... : In(shape)
    o : Out(shape)

    Timing
    ------
    Combinational.
    """

    def __init__(self, *, shape: ShapeLike, inputs: int):
        self._shape = shape
        self.inputs = inputs
        ins = {f"i{k}": In(shape) for k in range(inputs)}
        super().__init__({"select": In(range(inputs + 1)), **ins, "o": Out(shape)})

    def key(self) -> ModuleKey:
        """Key of its module."""
        bits = Shape.cast(self._shape).width
        return module_key("select", {"inputs": self.inputs, "bits": bits})

    def join(self, given: Sequence[Value], taken: Value) -> None:
        """Have the signals of others as its own: without an assignment, whose bits take Amaranth
        long (:func:`penstock.hw.stream.share`).
        """
        self.o = taken
        for k, value in enumerate(given):
            setattr(self, f"i{k}", value)

    def elaborate(self, platform):
        m = Module()
        with m.Switch(self.select):
            for k in range(self.inputs):
                with m.Case(k + 1):
                    m.d.comb += Value.cast(self.o).eq(Value.cast(getattr(self, f"i{k}")))
        return m


class Switch(wiring.Component):
    """Feeds each output from one input, or from none; several outputs may have the same input.

    Parameters
    ----------
    shape : ShapeLike
        Shape of a beat.
    inputs : int
        Number of inputs. Before each stands a FIFO of two places.
    reach : sequence of sequences of int
        For each output, the inputs that can feed it.

    Members
    -------
    cfg : In(StructLayout(select_layout(reach)))
        Constant while beats move.
    i0, i1, ... : In(stream.Signature(shape))
    o0, o1, ... : Out(stream.Signature(shape))

    Timing
    ------
    Each input is a ``hop`` (docs/timing.md section 3): it fires when a beat is visible and all the
    outputs that it feeds are ready, and the beat leaves on all of them in that cycle. ``o`` valid
    depends on the ``ready`` of other outputs: an output may not wait for ``valid`` before it is
    ready. An input that feeds nothing is never ready.
    """

    def __init__(self, *, shape: ShapeLike, inputs: int, reach: Sequence[Sequence[int]]):
        if not isinstance(inputs, int) or inputs < 1:
            raise ValueError(f"Number of inputs must be at least 1, not {inputs!r}")
        if not reach:
            raise ValueError("Number of outputs must be at least 1, not 0")
        for k, fed in enumerate(reach):
            if not fed or len(set(fed)) != len(fed) or not set(fed) <= set(range(inputs)):
                raise ValueError(
                    f"Inputs that reach output {k} must be some of {inputs}, each once, not "
                    f"{list(fed)!r}"
                )
        self.reach = tuple(map(tuple, reach))
        self._shape = shape
        ins = {f"i{k}": In(stream.Signature(shape)) for k in range(inputs)}
        outs = {f"o{k}": Out(stream.Signature(shape)) for k in range(len(reach))}
        super().__init__({"cfg": In(data.StructLayout(select_layout(reach))), **ins, **outs})

    @property
    def inputs(self) -> list[stream.Interface]:
        """Input streams."""
        return [x for name, x in vars(self).items() if name[0] == "i" and name[1:].isdigit()]

    @property
    def outputs(self) -> list[stream.Interface]:
        """Output streams."""
        return [x for name, x in vars(self).items() if name[0] == "o" and name[1:].isdigit()]

    def elaborate(self, platform):
        m = Module()
        inputs = self.inputs
        outputs = self.outputs
        count = len(inputs)
        led = Signal(count)
        waits = Signal(count)
        moves = Signal(count)
        fires = Signal(count)
        fed_by = [self._fed_by(m, k) for k in range(len(outputs))]
        held = [Mux(o.ready, 0, x) for x, o in zip(fed_by, outputs, strict=True)]
        m.d.comb += [
            led.eq(reduce(or_, fed_by)),
            waits.eq(reduce(or_, held)),
            moves.eq(led & ~waits),
            fires.eq(moves & Cat(i.valid for i in inputs)),
        ]
        for i, source in enumerate(inputs):
            m.d.comb += source.ready.eq(moves[i])
        for k, (target, fed) in enumerate(zip(outputs, self.reach, strict=True)):
            given = Select(shape=self._shape, inputs=len(fed))
            given.join([inputs[i].payload for i in fed], target.payload)
            m.d.comb += given.select.eq(self.cfg[f"select_{k}"])
            m.submodules[f"select{k}"] = place(given, given.key(), f"select{k}")
            m.d.comb += target.valid.eq((fires & fed_by[k]).any())
        return m

    def _fed_by(self, m: Module, output: int) -> Signal:
        """A bit for each input: whether it feeds an output."""
        fed = self.reach[output]
        chosen = Signal(1 + len(fed), name=f"chosen{output}")
        fed_by = Signal(len(self.inputs), name=f"fed{output}")
        places = [1 + fed.index(i) if i in fed else None for i in range(len(self.inputs))]
        m.d.comb += [
            chosen.eq(Const(1) << self.cfg[f"select_{output}"]),
            fed_by.eq(Cat(Const(0, 1) if p is None else chosen[p] for p in places)),
        ]
        return fed_by
