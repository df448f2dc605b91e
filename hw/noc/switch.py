"""The switch of an array: circuits that the image sets."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, ShapeLike, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Switch", "select_layout"]


def select_layout(reach: Sequence[Sequence[int]]) -> dict[str, int]:
    """Registers of a switch whose output k can be fed by the inputs ``reach[k]``: name -> bits.

    ``select_k`` is 0 where output k is not used, and 1 + the place in
    ``reach[k]`` of the input that feeds it.
    """
    return {f"select_{k}": len(inputs).bit_length() for k, inputs in enumerate(reach)}


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
            room = Cat(~fed | slot for fed, slot in zip(feeds, ready, strict=True)).all()
            m.d.comb += [
                fires[i].eq(source.valid & Cat(feeds).any() & room),
                source.ready.eq(Cat(feeds).any() & room),
            ]
        for k, (target, fed) in enumerate(zip(outputs, self.reach, strict=True)):
            with m.Switch(self.cfg[f"select_{k}"]):
                for place, i in enumerate(fed):
                    with m.Case(place + 1):
                        m.d.comb += [
                            target.valid.eq(fires[i]),
                            target.payload.eq(inputs[i].payload),
                        ]
        return m

    def _selected(self, output: int, i: int):
        """Whether an output is fed by input ``i``."""
        return self.cfg[f"select_{output}"] == 1 + self.reach[output].index(i)
