"""What every unit of the fabric has in common."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.config import Machine
from ..beat import Payloads, beat_layout

__all__ = ["Unit"]


class Unit(wiring.Component):
    """Base of all units: streams, run-time parameters and what the counters see.

    Parameters
    ----------
    params : dict
        The unit's parameters (``penstock.machine.kinds``). Those a kind calls run-time serve only
        for the length of lists: their values arrive on ``cfg``.
    t : int
        Physical tile edge in elements.
    config : Machine
        The machine table of the configuration.
    payloads : Payloads
        Payloads of the input and of the output streams.
    members : dict
        Members of the subclass.

    Members
    -------
    i0, i1, ... : In(stream.Signature(beat_layout(payload)))
    o0, o1, ... : Out(stream.Signature(beat_layout(payload)))
    cfg : In(StructLayout)
        Run-time parameters, constant while the unit runs; only where :meth:`cfg_layout` names any.
    busy : Out(1)
        A beat is taken or delivered in this cycle.
    blocked : Out(1)
        Not busy, and a beat is offered that is not accepted.
    done : Out(1)
        Nothing is left to wait for at the end of a run; constant 1 but in stores and sinks.
    error : Out(8)
        Bits of ``penstock.machine.faults.Fault``, high in any cycle of the fault; the fabric keeps
        them.

    """

    def __init__(
        self, *, params: dict, t: int, config: Machine, payloads: Payloads, members: Mapping = {}
    ):
        self.params = params
        self.t = t
        self.config = config
        self.payloads = payloads
        signature = {"busy": Out(1), "blocked": Out(1), "done": Out(1), "error": Out(8)}
        signature |= {
            f"i{k}": In(stream.Signature(beat_layout(p))) for k, p in enumerate(payloads.inputs)
        }
        signature |= {
            f"o{k}": Out(stream.Signature(beat_layout(p))) for k, p in enumerate(payloads.outputs)
        }
        fields = self.cfg_layout(params)
        if fields:
            signature["cfg"] = In(data.StructLayout(fields))
        super().__init__({**signature, **members})

    @classmethod
    def cfg_layout(cls, params: dict) -> dict[str, int]:
        """Run-time parameters: field -> bits, at most 32; element k of a list is the field
        ``name_k``.
        """
        return {}

    @property
    def inputs(self) -> list[stream.Interface]:
        return [getattr(self, f"i{k}") for k in range(len(self.payloads.inputs))]

    @property
    def outputs(self) -> list[stream.Interface]:
        return [getattr(self, f"o{k}") for k in range(len(self.payloads.outputs))]

    def expect(self, inputs: int, outputs: int) -> None:
        """Check the number of streams."""
        for what, have, want in (
            ("inputs", self.payloads.inputs, inputs),
            ("outputs", self.payloads.outputs, outputs),
        ):
            if len(have) != want:
                raise ValueError(
                    f"Number of {what} of a {type(self).__name__} must be {want}, not {len(have)!r}"
                )

    def report(self, m: Module, *, offers: ValueLike) -> None:
        """Drive ``busy``, ``blocked`` and ``done``; ``offers``: all that a beat lacks to leave is a
        free slot.
        """
        moves = Signal()
        m.d.comb += [
            moves.eq(Cat(s.valid & s.ready for s in self.inputs + self.outputs).any()),
            self.busy.eq(moves),
            self.blocked.eq(~moves & offers),
            self.done.eq(1),
        ]
