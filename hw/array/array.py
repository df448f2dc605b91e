"""The whole array: slots, FIFOs, switches, off-chip interconnect, configuration."""

from collections.abc import Callable

from amaranth.hdl import Const, Module, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.structure import Fifo as Described
from ...machine.array.structure import Structure, Switch
from ...machine.array.variants import container
from ...machine.config import Config
from ...machine.limits import REGISTER_BITS, UNIT_BITS
from ..module_key import ModuleKey, module_key
from ..place import place
from ..stream import connect
from ..top import channel_probe, fault_probe, memory_ports, observe, post_probe
from ..units.fifo import Fifo
from .choice import Choice
from .container import beat_shape
from .part import End, Part, join
from .registers import Registers
from .set_switch import SetSwitch
from .slot import Slot

__all__ = ["Array"]


class Array(wiring.Component):
    """One machine for many programs: an image says what its slots are, and how they are joined.

    Parameters
    ----------
    config : Config
        A configuration with an array.
    probes : bool
        Put an instance of ``penstock_probe`` on every FIFO, and one of ``penstock_fault_probe`` on
        every slot and the interconnect. The test bench defines them. Such an array cannot run in
        Amaranth's simulator.

    Members
    -------
    The ports of docs/top.md. ``src<slot>`` and ``snk<slot>`` are
    streams of beats of their plane. Arrays without off-chip slots have
    no ``mem_`` ports. ``stat_addr`` counts slots.

    Attributes
    ----------
    structure : Structure
        What it is made of.
    sidecar : dict
        What the JSON sidecar says besides ports.

    Timing
    ------
    docs/timing.md. A configuration word written in c holds from c + 1;
    words are written while ``rst`` is high, and cycle 0 is the first
    with ``rst`` low. ``done`` and ``stat_data`` are combinational;
    ``error`` shows a fault from the cycle after it.

    """

    def __init__(self, config: Config, *, probes: bool = False):
        self.config = config
        self.structure = structure = Structure(config)
        self.probes = bool(probes)
        self._built: dict[tuple, tuple[wiring.Component, ModuleKey]] = {}
        self._slots = [self._slot(k) for k in range(len(structure.network.slots))]
        self._fifos = [self._fifo(k, f) for k, f in enumerate(structure.fifos)]
        self._choices: dict[int, Part] = {}
        self._switches = [self._switch(s) for s in structure.switches]
        self._join()
        members = {
            "cfg_we": In(1),
            "cfg_addr": In(REGISTER_BITS),
            "cfg_data": In(32),
            "cycle": Out(32),
            "done": Out(1),
            "error": Out(8),
            "stat_addr": In(UNIT_BITS + 2),
            "stat_data": Out(32),
        }
        for name, (_, slot) in self._outside().items():
            members[name] = self._slots[slot].component.signature.members["outside"]
        if structure.offchip:
            from ..memory.interconnect import Interconnect

            self._interconnect = Interconnect(
                ports=[structure.direction(s) for s in structure.offchip],
                config=structure.machine,
                tags=self._tags(),
                ordered=True,
            )
            members |= {
                name: member
                for name, member in self._interconnect.signature.members.items()
                if name.startswith("mem_")
            }
        super().__init__(members)

    def _tags(self) -> list[int]:
        """Tags of every off-chip port (docs/timing.md section 5, random stores)."""
        offchip = self.structure.offchip
        ports = (self._slots[s].component.signature.members["port"].signature for s in offchip)
        return [getattr(port, "tags", 1) for port in ports]

    def _part(
        self, shaped: tuple, make: Callable[[], wiring.Component], key: Callable, label: str
    ) -> Part:
        """A part; what has the same ``shaped`` shares one component."""
        if shaped not in self._built:
            component = make()
            self._built[shaped] = (component, key(component))
        return Part(*self._built[shaped], label)

    def _slot(self, k: int) -> Part:
        structure = self.structure
        placed = structure.network.slots[k]
        slot = placed.slot
        layout = structure.slot_block(k).layout
        ways = tuple(len(structure.ways(k, pin)) for pin in range(len(slot.outputs)))
        at = structure.network.posters(k)
        posters = tuple(structure.network.slots[s].slot.kinds for s in at)
        return self._part(
            ("slot", id(slot), layout, ways, posters),
            lambda: Slot(
                slot=slot,
                variants=structure.variants[k],
                layout=layout,
                ways=ways,
                config=structure.machine,
                posters=posters,
            ),
            lambda made: made.key(slot.name),
            placed.name,
        )

    def _switch(self, switch: Switch) -> Part:
        return self._part(
            ("switch", switch.plane, len(switch.inputs), switch.reach),
            lambda: SetSwitch(
                shape=self._shape(switch.plane), inputs=len(switch.inputs), reach=switch.reach
            ),
            lambda made: made.key(switch.plane),
            switch.name,
        )

    def _shape(self, plane: str):
        return beat_shape(plane, self.structure.machine.t)

    def _fifo(self, number: int, fifo: Described) -> Part:
        further = {"configured": not fifo.of_switch, "t": self.structure.machine.t}
        return self._part(
            ("fifo", fifo.plane, fifo.places, fifo.of_switch),
            lambda: Fifo(
                shape=self._shape(fifo.plane), depth=fifo.places, configured=not fifo.of_switch
            ),
            lambda _: module_key("fifo", {"depth": fifo.places, "plane": fifo.plane}, further),
            f"f{number}",
        )

    def _choice(self, number: int, plane: str, sources: int) -> Part:
        ways = {"sources": sources, "plane": plane}
        return self._part(
            ("choice", plane, sources),
            lambda: Choice(shape=self._shape(plane), sources=sources),
            lambda _: module_key("choice", ways, {"t": self.structure.machine.t}),
            f"choice{number}",
        )

    def _outside(self) -> dict[str, tuple[wiring.Flow, int]]:
        """Ports for sources and sinks: name -> flow and slot."""
        found: dict[str, tuple[wiring.Flow, int]] = {}
        for k, variants in enumerate(self.structure.variants):
            kinds = {v.kind for v in variants}
            if "source" in kinds:
                found[f"src{k}"] = (In, k)
            if "sink" in kinds:
                found[f"snk{k}"] = (Out, k)
        return found

    def _link(self, source: End, sink: End, plane: str, name: str) -> None:
        join(source, sink, self._shape(plane).width, name)

    def _join(self):
        """Give both ends of every wire, link and FIFO one stream."""
        structure = self.structure
        network = structure.network
        into = {
            (s.at, s.pin): self._entry(number, s)
            for number, s in enumerate(structure.fifos)
            if not s.of_switch
        }
        for number, fifo in enumerate(structure.fifos):
            self._behind(number, fifo)
        for placed in network.slots:
            for pin, output in enumerate(placed.slot.outputs):
                for n, wire in enumerate(structure.ways(placed.id, pin)):
                    injection = network.injection(placed.id, pin)
                    if wire < 0 and injection is not None:
                        sink = (self._fifos[structure.number[injection, -1]], "i")
                    else:
                        sink = into[network.wires[wire].dst][wire]
                    name = f"s{placed.id}o{pin}_{n}"
                    source = (self._slots[placed.id], f"o{pin}_{n}")
                    self._link(source, sink, output.plane, name)
        for k, switch in enumerate(structure.switches):
            for n, output in enumerate(switch.outputs):
                port = network.outputs[output]
                if port.side:
                    sink = (self._fifos[structure.number[network.leads_to[output], -1]], "i")
                else:
                    sink = into[port.slot, port.pin][-1]
                source = (self._switches[k], f"o{n}")
                self._link(source, sink, switch.plane, f"x{k}o{n}")

    def _entry(self, number: int, fifo: Described) -> dict[int, End]:
        """Where the streams to a slot's pin end: wire (-1: the switch) -> component, input."""
        sources = self.structure.sources(fifo.at, fifo.pin)
        if len(sources) == 1:
            return {sources[0]: (self._fifos[number], "i")}
        choice = self._choice(number, fifo.plane, len(sources))
        self._choices[number] = choice
        sink = (self._fifos[number], "i")
        self._link((choice, "o"), sink, fifo.plane, f"f{number}w")
        return {source: (choice, f"i{k}") for k, source in enumerate(sources)}

    def _behind(self, number: int, fifo: Described) -> None:
        """What a FIFO leads to."""
        if not fifo.of_switch:
            sink = (self._slots[fifo.at], f"i{fifo.pin}")
        else:
            switch = self.structure.switch_of_input[fifo.at]
            place_ = self.structure.switches[switch].inputs.index(fifo.at)
            sink = (self._switches[switch], f"i{place_}")
        self._link((self._fifos[number], "o"), sink, fifo.plane, f"f{number}r")

    @property
    def sidecar(self) -> dict:
        """Slots, switches and FIFOs by number, and the address of every register."""
        structure = self.structure
        network = structure.network
        return {
            "array": network.array.name,
            "fingerprint": structure.fingerprint,
            "slots": [
                {"slot": s.id, "name": s.name, "units": [v.label for v in structure.variants[s.id]]}
                for s in network.slots
            ],
            "switches": [{"switch": k, "name": s.name} for k, s in enumerate(structure.switches)],
            "fifos": [f._asdict() for f in structure.fifos],
            "blocks": [
                {"name": b.name, "base": b.base, "words": b.layout.words} for b in structure.blocks
            ],
        }

    def elaborate(self, platform):
        m = Module()
        self._place_fifos(m)
        slots = [slot.ends for slot in self._slots]
        self._place_slots(m)
        for k, switch in enumerate(self._switches):
            m.submodules[switch.label] = switch
            self._bus(m, switch.ends.bus, self.structure.switch_block(k))
        for name, (flow, slot) in self._outside().items():
            own = wiring.flipped(getattr(self, name))
            inner = slots[slot].outside
            connect(m, own, inner) if flow is In else connect(m, inner, own)
        errors = [slot.error for slot in slots]
        if self.structure.offchip:
            errors.append(self._memory(m))
        if self.probes:
            for k, error in enumerate(errors):
                m.submodules[f"fault{k}"] = fault_probe(k, self.cycle, error)
        observe(m, self, slots, errors)
        return m

    def _place_fifos(self, m: Module) -> None:
        for number, (described, fifo) in enumerate(
            zip(self.structure.fifos, self._fifos, strict=True)
        ):
            m.submodules[fifo.label] = fifo
            places: ValueLike = Const(described.places, 32)
            if not described.of_switch:
                slot = self._slots[described.at].ends
                places = getattr(slot, f"places{described.pin}")
                m.d.comb += fifo.ends.limit.eq(places)
            choice = self._choices.get(number)
            if choice is not None:
                slot = self._slots[described.at].ends
                m.submodules[choice.label] = choice
                m.d.comb += choice.ends.select.eq(getattr(slot, f"from{described.pin}"))
            if self.probes:
                m.submodules[f"p{number}"] = channel_probe(
                    number,
                    container(described.plane, self.structure.machine.t),
                    self.cycle,
                    fifo.links["i"],
                    fifo.links["o"],
                    places,
                )

    def _place_slots(self, m: Module) -> None:
        for k, slot in enumerate(self._slots):
            m.submodules[slot.label] = slot
            self._bus(m, slot.ends.bus, self.structure.slot_block(k))
            for n, poster in enumerate(self.structure.network.posters(k)):
                post = self._slots[poster].ends.post
                m.d.comb += getattr(slot.ends, f"post{n}").eq(post)
                if self.probes:
                    m.submodules[f"post{poster}"] = post_probe(poster, self.cycle, post)

    def _bus(self, m: Module, bus, block) -> None:
        """The words whose addresses are a block's."""
        low = (block.span - 1).bit_length()
        addr = self.cfg_addr[:low] if low else 0
        m.d.comb += [
            bus.we.eq(self.cfg_we & (self.cfg_addr[low:] == block.base >> low)),
            bus.addr.eq(addr),
            bus.data.eq(self.cfg_data),
        ]

    def _memory(self, m: Module) -> Value:
        structure = self.structure
        memory = self._interconnect
        directions = [structure.direction(s) for s in structure.offchip]
        machine = sorted(vars(structure.machine).items())
        further = {"directions": directions, "tags": self._tags(), "machine": machine}
        key = module_key("interconnect", {"ports": len(directions), "ordered": True}, further)
        m.submodules.interconnect = place(memory, key, "interconnect")
        for p, slot in enumerate(structure.offchip):
            wiring.connect(m, self._slots[slot].ends.port, getattr(memory, f"port{p}"))
        block = structure.memory_block
        if block is not None:
            self._order(m, memory, block)
        memory_ports(m, self, memory)
        return memory.error

    def _order(self, m: Module, memory, block) -> None:
        """The registers with the order of the ports."""
        m.submodules.order = registers = Registers(block.layout)
        self._bus(m, registers.bus, block)
        for p, f in enumerate(block.layout.common):
            m.d.comb += memory.order[p].eq(registers.field(f))
