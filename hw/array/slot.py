"""Hardware that is one unit of several, as an image says."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.description import PLANES
from ...machine.array.description import Slot as Described
from ...machine.array.registers import Layout, TableField
from ...machine.array.variants import Pin, Variant, container
from ...machine.config import Machine
from ...machine.kinds import kind_of
from ..beat import Payloads, beat_layout
from ..export.module_key import ModuleKey, module_key
from ..export.place import place, silence
from ..registry import component
from ..units.unit import Unit
from .container import beat_shape, taken, wrapped
from .registers import Registers, bus_layout


class Slot(wiring.Component):
    """The units that a slot can be, side by side; registers say which of them it is, and hold that
    unit's settings.

    Parameters
    ----------
    slot : penstock.machine.array.description.Slot
        Its pins.
    variants : sequence of Variant
        The units.
    layout : Layout
        Its registers: ``used``, ``variant``, ``places_k`` and ``from_k`` of the inputs, ``to_k`` of
        the outputs, and those of each variant.
    ways : sequence of int
        How many streams each output pin may lead to; register ``to_k`` says which.
    config : Machine
        The machine table of the configuration.
    posters : sequence of lists of str
        Kinds of each slot that changes the reference counts of this one.

    Members
    -------
    bus : In(bus_layout(words))
        Words for its registers.
    i0, i1, ... : In(stream.Signature(container))
        Input pins.
    o0_0, o0_1, ..., o1_0, ... : Out(stream.Signature(container))
        Output pins, by way.
    places0, ... : Out, from0, ... : Out
        Registers of the inputs' FIFOs, which lie outside.
    port : Out(ReadPort or WritePort)
        Of the off-chip unit, if there is one.
    outside : In or Out(stream.Signature(container))
        Of a source or a sink.
    fill, word_addr, word
        Of the memory of a source, and of a sink, where it has one.
    peak : Out(16)
        Of a scratchpad.
    post0, ... : In(post_layout(page_bits))
        Of a scratchpad: what its posters change.
    post : Out(post_layout(page_bits))
        Of a slot that changes reference counts.
    busy, blocked, done, error
        Of the unit in use; a slot that is not in use is done.

    Timing
    ------
    That of the unit in use, cycle for cycle (docs/timing.md): what lies between pins and unit is
    combinational. A slot that is not in use takes, offers and requests nothing.
    """

    def __init__(
        self,
        *,
        slot: Described,
        variants: Sequence[Variant],
        layout: Layout,
        ways: Sequence[int],
        config: Machine,
        posters: Sequence[Sequence[str]] = (),
    ):
        self.layout = layout
        self.config = config
        self.posters = tuple(tuple(kinds) for kinds in posters)
        self.ways = tuple(ways)
        self.variants = tuple(variants)
        fields = {f.name: f.bits for f in layout.common}
        shapes = {plane: beat_shape(plane, config.t) for plane in PLANES}
        members = {
            "bus": In(bus_layout(layout.words)),
            "busy": Out(1),
            "blocked": Out(1),
            "done": Out(1),
            "error": Out(8),
        }
        for k, pin in enumerate(slot.inputs):
            members[f"i{k}"] = In(stream.Signature(shapes[pin.plane]))
            members[f"places{k}"] = Out(fields[f"places_{k}"])
            if f"from_{k}" in fields:
                members[f"from{k}"] = Out(fields[f"from_{k}"])
        for k, pin in enumerate(slot.outputs):
            for n in range(self.ways[k]):
                members[f"o{k}_{n}"] = Out(stream.Signature(shapes[pin.plane]))
        for variant in self.variants:
            members |= self._outward(variant)
        super().__init__(members)

    def _outward(self, variant: Variant) -> dict:
        """Members of a unit that leave the array."""
        kind = kind_of(variant.kind)
        unit = self._unit(variant)
        silence(unit)  # it only tells of its members
        own = unit.signature.members
        if kind.offchip:
            return {"port": own["port"]}
        shared = {name: member for name, member in own.items() if name.startswith("post")}
        if variant.kind == "source":
            memory = {"fill": own["fill"]} if "fill" in own else {}
            return {"outside": In(self._beats(variant.outputs[0].plane))} | memory
        if variant.kind == "sink":
            shared |= {name: member for name, member in own.items() if name.startswith("word")}
            return {"outside": Out(self._beats(variant.inputs[0].plane))} | shared
        return {"peak": Out(16)} | shared if kind.memory else shared

    def _beats(self, plane: str) -> stream.Signature:
        """A stream of the top, whose fields are in the sidecar."""
        return stream.Signature(beat_layout(container(plane, self.config.t)))

    def _unit(self, variant: Variant) -> Unit:
        ins = tuple(pin.payload for pin in variant.inputs)
        outs = tuple(pin.payload for pin in variant.outputs)
        drops = any(kind_of(kind).drops for kinds in self.posters for kind in kinds)
        posts = {"posts": len(self.posters), "drops": drops}
        return component(variant.kind)(
            **(posts if kind_of(variant.kind).memory else {}),
            kind=variant.capability,
            t=self.config.t,
            config=self.config,
            payloads=Payloads(ins, outs),
        )

    def _key(self, variant: Variant) -> ModuleKey:
        bounds = variant.capability.params
        shown = {k: v for k, v in bounds.items() if isinstance(v, (int, str)) and k != "lanes"}
        payloads = {f"input{k}": pin.payload for k, pin in enumerate(variant.inputs)}
        payloads |= {f"output{k}": pin.payload for k, pin in enumerate(variant.outputs)}
        machine = self.config.of_parts
        further = {"bounds": sorted(bounds.items()), **payloads, "machine": machine}
        further |= {"posters": self.posters}
        return module_key(f"{variant.kind}_slot", shown, further)

    def key(self) -> ModuleKey:
        """Key of its module: slots of equal hardware share one, whatever they are called in their
        sites.
        """
        units = [self._key(v).digest for v in self.variants]
        pins = [repr((v.inputs, v.outputs)) for v in self.variants]
        further = {"units": units, "pins": pins, "ways": self.ways, "layout": repr(self.layout)}
        kinds = dict.fromkeys(v.kind for v in self.variants)
        return module_key("slot", {"kinds": "_".join(kinds)}, further)

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = Registers(self.layout)
        m.d.comb += registers.bus.eq(self.bus)
        fields = {f.name: registers.field(f) for f in self.layout.common}
        for name, value in fields.items():
            what, _, pin = name.partition("_")
            if what in ("places", "from"):
                m.d.comb += getattr(self, f"{what}{pin}").eq(value)
        inside = []
        names = {"registers"}
        for k, variant in enumerate(self.variants):
            unit = self._unit(variant)
            name = variant.label.replace(" ", "_")
            if name in names:
                name = f"{name}_{k}"
            names.add(name)
            m.submodules[name] = place(unit, self._key(variant), name)
            active = Signal(name=f"active_{name}")
            m.d.comb += active.eq(fields["used"] & (fields.get("variant", k) == k))
            own = self.layout.variants[k] if self.layout.variants else ()
            settings = {f.name: registers.field(f) for f in own}
            self._set(m, unit, settings)
            self._fill(m, unit, self.layout.stored(k))
            inside.append((variant, unit, active, settings))
        self._inputs(m, inside)
        self._outputs(m, inside, fields)
        for variant, unit, active, _ in inside:
            self._leave(m, variant, unit, active)
        self._observe(m, inside, fields["used"])
        return m

    def _set(self, m: Module, unit: Unit, settings: dict[str, Value]) -> None:
        """The unit's registers."""
        if hasattr(unit, "cfg"):
            for name in unit.cfg.shape().members:
                m.d.comb += unit.cfg[name].eq(settings[name])

    def _fill(self, m: Module, unit: Unit, tables: Sequence[TableField]) -> None:
        """The unit's tables, from the words that are theirs."""
        for table in tables:
            port = unit.tables[table.name]
            entry = Signal.like(self.bus.addr, name=f"{table.name}_entry")
            m.d.comb += [
                entry.eq(self.bus.addr - table.word),
                port.we.eq(self.bus.we & (entry < table.depth)),
                port.at.eq(entry),
                port.value.eq(self.bus.data),
            ]

    def _inputs(self, m: Module, inside: list) -> None:
        """The pins that the unit in use takes from."""
        ready = {}
        for variant, unit, active, settings in inside:
            for pin, to in zip(variant.inputs, unit.inputs, strict=True):
                at = getattr(self, f"i{pin.number}")
                beat = taken(Value.cast(at.payload), pin, self.config.t, _format(pin, settings))
                m.d.comb += [to.valid.eq(at.valid & active), Value.cast(to.payload).eq(beat)]
                ready.setdefault(pin.number, []).append(to.ready & active)
        for number, terms in ready.items():
            m.d.comb += getattr(self, f"i{number}").ready.eq(Cat(terms).any())

    def _outputs(self, m: Module, inside: list, fields: dict) -> None:
        """The pins that the unit in use gives to, each on the way that is chosen."""
        for number, ways in enumerate(self.ways):
            streams = [getattr(self, f"o{number}_{n}") for n in range(ways)]
            width = len(Value.cast(streams[0].payload))
            beat = Signal(width, name=f"beat{number}")
            valid = Signal(name=f"valid{number}")
            ready = Signal(name=f"ready{number}")
            for variant, unit, active, settings in inside:
                for pin, given in zip(variant.outputs, unit.outputs, strict=True):
                    if pin.number != number:
                        continue
                    bits = Value.cast(given.payload)
                    m.d.comb += given.ready.eq(ready & active)
                    with m.If(active):
                        m.d.comb += [
                            valid.eq(given.valid),
                            beat.eq(wrapped(bits, pin, self.config.t, _format(pin, settings))),
                        ]
            way = fields.get(f"to_{number}", 0)
            for n, out in enumerate(streams):
                chosen = Signal(name=f"to{number}_{n}")
                m.d.comb += [
                    chosen.eq(way == n),
                    out.valid.eq(valid & chosen),
                    Value.cast(out.payload).eq(beat),
                ]
                with m.If(chosen):
                    m.d.comb += ready.eq(out.ready)

    def _leave(self, m: Module, variant: Variant, unit: Unit, active: Value) -> None:
        """Pass a unit's ports to memory, or outside."""
        kind = kind_of(variant.kind)
        if kind.offchip:
            wiring.connect(m, unit.port, wiring.flipped(self.port))
            m.d.comb += self.port.request.valid.eq(unit.port.request.valid & active)
        if kind.memory:
            m.d.comb += self.peak.eq(unit.peak)
            for k in range(len(self.posters)):
                m.d.comb += getattr(unit, f"post{k}").eq(getattr(self, f"post{k}"))
        elif hasattr(unit, "post"):
            with m.If(active):
                m.d.comb += self.post.eq(unit.post)
        if variant.kind == "source":
            pin = variant.outputs[0]
            own = self.outside
            beat = taken(Value.cast(own.payload), pin, self.config.t, None)
            m.d.comb += [
                unit.port.valid.eq(own.valid & active),
                Value.cast(unit.port.payload).eq(beat),
                own.ready.eq(unit.port.ready & active),
            ]
            if hasattr(unit, "fill"):
                m.d.comb += unit.fill.eq(self.fill)
        if variant.kind == "sink":
            pin = variant.inputs[0]
            beat = wrapped(Value.cast(unit.port.payload), pin, self.config.t, None)
            m.d.comb += [
                self.outside.valid.eq(unit.port.valid & active),
                Value.cast(self.outside.payload).eq(beat),
                unit.port.ready.eq(self.outside.ready),
            ]
            if hasattr(unit, "word_addr"):
                m.d.comb += [unit.word_addr.eq(self.word_addr), self.word.eq(unit.word)]

    def _observe(self, m: Module, inside: list, used: Value) -> None:
        """Counters, end and faults of the unit in use."""
        m.d.comb += self.done.eq(~used)
        for _, unit, active, _ in inside:
            with m.If(active):
                m.d.comb += [
                    self.busy.eq(unit.busy),
                    self.blocked.eq(unit.blocked),
                    self.done.eq(unit.done),
                    self.error.eq(unit.error),
                ]


def _format(pin: Pin, settings: dict[str, Value]) -> Value | None:
    """The register that says what a pin's beats are, if there is one."""
    return next((settings[name] for name in pin.register), None)
