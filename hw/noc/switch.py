"""The switch of an array: circuits that the image sets."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..module_key import ModuleKey, module_key
from ..place import place

__all__ = ["Select", "Switch", "select_layout"]


def select_layout(reach: Sequence[Sequence[int]]) -> dict[str, int]:
    """Registers of a switch whose output k can be fed by the inputs ``reach[k]``: name -> bits.

    ``select_k`` is 0 where output k is not used, and 1 + the place in
    ``reach[k]`` of the input that feeds it.
    """
    return {f"select_{k}": len(inputs).bit_length() for k, inputs in enumerate(reach)}


class Select(wiring.Component):
    """Passes one of several payloads; 0 where it passes none.

    It is a module of its own, so that what an output of a switch passes
    is converted to Verilog once for each number of inputs.

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
        """Have the signals of others as its own: without an assignment,
        whose bits take Amaranth long (:func:`penstock.hw.stream.share`).
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
    Each input is a ``hop`` (docs/timing.md section 3): it fires when a
    beat is visible and all the outputs that it feeds are ready, and the
    beat leaves on all of them in that cycle. ``o`` valid depends on the
    ``ready`` of other outputs: an output may not wait for ``valid``
    before it is ready. An input that feeds nothing is never ready.

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
        fires = Signal(len(inputs))
        for i, source in enumerate(inputs):
            feeds = [self._selected(k, i) for k, fed in enumerate(self.reach) if i in fed]
            ready = [outputs[k].ready for k, fed in enumerate(self.reach) if i in fed]
            led = Signal(len(feeds), name=f"led{i}")
            moves = Signal(name=f"moves{i}")
            m.d.comb += [
                led.eq(Cat(feeds)),
                moves.eq(led.any() & (~led | Cat(ready)).all()),
                fires[i].eq(source.valid & moves),
                source.ready.eq(moves),
            ]
        for k, (target, fed) in enumerate(zip(outputs, self.reach, strict=True)):
            select = self.cfg[f"select_{k}"]
            given = Select(shape=self._shape, inputs=len(fed))
            given.join([inputs[i].payload for i in fed], target.payload)
            m.d.comb += given.select.eq(select)
            m.submodules[f"select{k}"] = place(given, given.key(), f"select{k}")
            with m.Switch(select):
                for number, i in enumerate(fed, 1):
                    with m.Case(number):
                        m.d.comb += target.valid.eq(fires[i])
        return m

    def _selected(self, output: int, i: int):
        """Whether an output is fed by input ``i``."""
        return self.cfg[f"select_{output}"] == 1 + self.reach[output].index(i)
