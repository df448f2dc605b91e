"""Base of every unit of the fabric."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.capability import Capability, own, runtime_registers
from ...machine.beat import BufferRef, Payload
from ...machine.config import Machine
from ...machine.kinds import Kind, OneOf
from ...machine.limits import DELTA_BITS
from ..beat import Payloads, beat_layout
from ..memory.table import filling


def post_layout(page_bits: int) -> data.StructLayout:
    """A change of the references to the buffer that starts at ``page``; ``delta`` is signed."""
    return data.StructLayout({"valid": 1, "page": page_bits, "delta": signed(DELTA_BITS)})


def widest(kind: Kind | Capability) -> Kind:
    """The unit itself, or the one that has every port of a slot."""
    return kind.widest() if isinstance(kind, Capability) else kind


class Unit(wiring.Component):
    """Base of all units: streams, run-time parameters and the inputs of counters.

    Parameters and ports of a subclass are those of its kind (``penstock.machine.kinds``); its
    docstring says which members and errors it has besides.

    Parameters
    ----------
    kind : Kind or Capability
        The unit's kind (``penstock.machine.kinds``). Parameters that it calls run-time serve only
        for the length of lists: their values arrive on ``cfg``. Of a slot of an array, the
        :class:`~penstock.machine.array.capability.Capability`: the streams are those of its widest
        unit, and ``cfg`` has all of its registers.
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
    one for each port of the kind : In or Out(stream.Signature(beat_layout(payload)))
        Named as the kind names it; ``parts_0``, ``parts_1``, ... where it has several of a name.
    cfg : In(StructLayout)
        Run-time parameters, and settings where configured, constant while the unit runs; only where
        there are any.
    tables : In(filling(...))
        Words that fill the tables of a configured unit; only where it has any.
    post : Out(post_layout(page_bits))
        The change of the reference count of the buffer whose reference passes; only where the
        parameter that the kind names in ``posts`` is given.
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
    implements : str
        The name of the kind, of the class.
    kind : Kind
        The unit's kind; the widest unit where configured. Its ports give the streams their names.
    configured : bool
        It is a slot of an array.
    held : BufferRef or None
        The reference whose count it changes, in the low bits of the payload of its first input.
    settings : SimpleNamespace
        A value for each register of the kind: a field of ``cfg``, or a constant where ``cfg`` has
        none, which the export folds. A register that is 0 there has to be gated (``& setting``).
    """

    implements: str

    def __init__(
        self,
        *,
        kind: Kind | Capability,
        t: int,
        config: Machine,
        payloads: Payloads,
        members: Mapping = {},
    ):
        self.configured = isinstance(kind, Capability)
        self.capability = kind if isinstance(kind, Capability) else own(kind)
        self.kind = kind = widest(kind)
        self.t = t
        self.config = config
        self.payloads = payloads
        signature = {"busy": Out(1), "blocked": Out(1), "done": Out(1), "error": Out(8)}
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
        fields = self.capability.registers() if self.configured else self.cfg_layout()
        if fields:
            signature["cfg"] = In(data.StructLayout(fields))
        tables = self.capability.tables() if self.configured else {}
        if tables:
            signature["tables"] = In(filling(tables))
        self.held = self._reference()
        posts = {} if self.held is None else {"post": Out(post_layout(self.held.page_bits))}
        super().__init__({**signature, **members, **posts})
        held = {} if self.configured else self.capability.settings(kind)
        self.settings = SimpleNamespace(
            **{
                name: self.cfg[name] if name in fields else Const(held.get(name, 0), max(bits, 1))
                for name, bits in self.capability.fields().items()
            }
        )

    def _reference(self) -> BufferRef | None:
        """The reference of the first input's payload; in a slot it is in the low bits of whatever
        its plane carries.
        """
        posts = self.kind.posts
        if not posts or self.capability.bounds[posts] is None:
            return None
        payload = self.payloads.inputs[0]
        if isinstance(payload, BufferRef):
            return payload
        if self.configured:
            return BufferRef(self.config.pages)
        raise ValueError(
            f"Payload of a {self.kind.name} with a {posts} must be a BufferRef, not {payload!r}"
        )

    @staticmethod
    def expect(stream: str, payload: Payload, wanted: Payload) -> None:
        """Raise ValueError if a stream's payload is not the one wanted."""
        if payload != wanted:
            raise ValueError(f"Payload of the {stream} must be {wanted!r}, not {payload!r}")

    def page_of(self, beat: data.View) -> Value:
        """The page of a reference in the low bits of a beat."""
        assert self.held is not None
        return beat.as_value()[: self.held.page_bits]

    def cfg_layout(self) -> dict[str, int]:
        """Run-time parameters: field -> bits, at most 32; element k of a list is the field
        ``name_k``.
        """
        return runtime_registers(self.kind)

    def choices(self, name: str) -> tuple[Any, ...]:
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
