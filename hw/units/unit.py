"""Base of every unit of the fabric."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.capability import Capability, own, runtime_registers
from ...machine.config import Machine
from ...machine.kinds import OneOf, kind_of
from ..beat import Payloads, beat_layout
from ..memory.table import filling


class Unit(wiring.Component):
    """Base of all units: streams, run-time parameters and what the counters see.

    Parameters and ports of a subclass are those of its kind (``penstock.machine.kinds``); its
    docstring says which members and errors it has besides.

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
    configured : bool
        A slot of an array: ``params`` are the bounds of a
        :class:`~penstock.machine.array.capability.Capability`, the
        streams those of its widest unit, and ``cfg`` has all of its
        registers.
    members : dict
        Members of the subclass.

    Members
    -------
    one for each port of the kind : In or Out(stream.Signature(beat_layout(payload)))
        Named as the kind names it; ``parts_0``, ``parts_1``, ... where it has several of a name.
    cfg : In(StructLayout)
        Run-time parameters, and settings where configured, constant while the unit runs; only where
        there are any.
    tables : In(filling(...))
        Words that fill the tables of a configured unit; only where it has any.
    busy : Out(1)
        A beat is taken or delivered in this cycle.
    blocked : Out(1)
        Not busy, and a beat is offered that is not accepted.
    done : Out(1)
        Nothing is left to wait for at the end of a run; constant 1 but in stores and sinks.
    error : Out(8)
        Bits of ``penstock.machine.faults.Fault``, high in any cycle of the fault; the fabric keeps
        them.

    Attributes
    ----------
    params : dict
        The unit's parameters; those of the widest unit where configured.
    kind : str
        The name of the kind, of the class. Its ports give the streams their names.
    settings : SimpleNamespace
        A value for each register of the kind: a field of ``cfg``, or a constant where ``cfg`` has
        none, which the export folds. A register that is 0 there has to be gated (``& setting``).
    """

    kind: str

    def __init__(
        self,
        *,
        params: dict,
        t: int,
        config: Machine,
        payloads: Payloads,
        configured: bool = False,
        members: Mapping = {},
    ):
        self.configured = configured
        self.capability = Capability(self.kind, params) if configured else own(self.kind, params)
        self.params = params = self.capability.widest() if configured else params
        self.t = t
        self.config = config
        self.payloads = payloads
        signature = {"busy": Out(1), "blocked": Out(1), "done": Out(1), "error": Out(8)}
        kind = kind_of(self.kind).of(params)
        self._ports = (kind.inputs(), kind.outputs())
        for what, ports, given, way in zip(
            ("inputs", "outputs"),
            self._ports,
            (payloads.inputs, payloads.outputs),
            (In, Out),
            strict=True,
        ):
            if len(given) != len(ports):
                raise ValueError(
                    f"Number of {what} of a {type(self).__name__} must be {len(ports)}, not "
                    f"{len(given)!r}"
                )
            signature |= {
                port.member: way(stream.Signature(beat_layout(payload)))
                for port, payload in zip(ports, given, strict=True)
            }
        fields = self.capability.registers() if configured else self.cfg_layout(params)
        if fields:
            signature["cfg"] = In(data.StructLayout(fields))
        tables = self.capability.tables() if configured else {}
        if tables:
            signature["tables"] = In(filling(tables))
        super().__init__({**signature, **members})
        held = {} if configured else self.capability.settings(params)
        self.settings = SimpleNamespace(
            **{
                name: self.cfg[name] if name in fields else Const(held.get(name, 0), max(bits, 1))
                for name, bits in self.capability.fields().items()
            }
        )

    def cfg_layout(self, params: dict) -> dict[str, int]:
        """Run-time parameters: field -> bits, at most 32; element k of a list is the field
        ``name_k``.
        """
        return runtime_registers(self.kind, params)

    def choices(self, name: str) -> tuple[object, ...]:
        """Values that a parameter, one of several, may have."""
        return OneOf.choices(self.capability.bounds[name])

    def pick(self, name: str, given: Callable[[Any], ValueLike]) -> Value:
        """Result of ``given`` for a parameter that is one of several values."""
        picked, *others = [Value.cast(given(choice)) for choice in self.choices(name)]
        for k, other in enumerate(others, 1):
            picked = Mux(getattr(self.settings, name) == k, other, picked)
        return picked

    @property
    def inputs(self) -> list[stream.Interface]:
        """Input streams, in the order of the kind's ports."""
        return [getattr(self, port.member) for port in self._ports[0]]

    @property
    def outputs(self) -> list[stream.Interface]:
        """Output streams, in the order of the kind's ports."""
        return [getattr(self, port.member) for port in self._ports[1]]

    @property
    def input_names(self) -> list[str]:
        """Members that are input streams, in the order of the kind's ports."""
        return [port.member for port in self._ports[0]]

    @property
    def output_names(self) -> list[str]:
        """Members that are output streams, in the order of the kind's ports."""
        return [port.member for port in self._ports[1]]

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
