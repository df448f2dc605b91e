"""A site of an array: its slots, its switches, and the FIFOs before both."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from amaranth.hdl import Const, Module, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.network import SIDES, SwitchPort
from ...machine.array.registers import Block
from ...machine.array.structure import BeatMemory, Structure, Switch, of_slots
from ...machine.array.structure import Fifo as Described
from ...machine.array.variants import container
from ..export.module_key import ModuleKey, module_key
from ..stream import connect
from ..top import channel_probe, fault_probe, post_probe
from ..units.fifo import Fifo
from .choice import Choice
from .container import beat_shape
from .part import End, Link, Part, join
from .registers import bus_layout
from .set_switch import SetSwitch
from .slot import Slot

NUMBER_BITS = 32
ERROR_BITS = 8

Made = dict[tuple, tuple[wiring.Component, ModuleKey]]
"""Components that several parts share, by what makes them alike."""


class Shape(NamedTuple):
    """Properties that make sites one module: the letter, and the sides that have a neighbour."""

    letter: str
    sides: tuple[str, ...]


def shape_of(structure: Structure, row: int, col: int) -> Shape:
    """Shape of the site at a place."""
    network = structure.network
    sides = tuple(side for side in SIDES if network.neighbour(row, col, side) is not None)
    return Shape(network.array.grid[row][col], sides)


def link_name(port: SwitchPort, output: bool) -> str:
    """The member of a site that is a track of one of its sides."""
    return f"{port.plane}_{port.side}_{'o' if output else 'i'}{port.track}"


class Site(wiring.Component):
    """A site of an array: what equal sites have in common.

    Parameters
    ----------
    structure : Structure
        Of the array.
    row, col : int
        Place of one of the equal sites.
    made : dict
        Components of slots, switches and FIFOs of other sites; it gets those of this one.
    probes : bool
        Put the bench's probes on FIFOs, slots and posts.

    Members
    -------
    bus : In(StructLayout)
        ``we`` has a bit for each block of registers (``blocks``) and for each memory of a source
        (``source_memories``), beside ``addr`` and ``data``.
    <plane>_<side>_i<track> : In(stream.Signature(beat))
    <plane>_<side>_o<track> : Out(stream.Signature(beat))
        Tracks from and to the neighbours.
    port<k> : Out(ReadPort or WritePort)
        Of slot k of the site, if it is off-chip.
    outside<k> : In or Out(stream.Signature(beat))
        Of a source or a sink.
    peak<k> : Out(16)
        Of a scratchpad.
    word_addr : In, word<k> : Out(32)
        Of memories of sinks, where there are any.
    busy, blocked, done : Out(slots)
        A bit for each slot.
    error : Out(8 * slots)
    cycle, first_fifo, first_slot : In(32)
        What the probes tell, where there are any: the cycle, and the numbers of the first FIFO and
        slot of this site.

    Attributes
    ----------
    slots, switches : list of int
        Numbers of the slots, and of the switches, of the site at the given place.

    Timing
    ------
    Of its parts. ``ready`` of the tracks from neighbours comes from registers; ``valid`` of those
    to neighbours depends on their ``ready``.
    """

    def __init__(
        self, *, structure: Structure, row: int, col: int, made: Made, probes: bool = False
    ):
        self.structure = structure
        self.probes = probes
        self._made = made
        self._t = structure.machine.t
        self.slots = structure.network.slots_of(row, col)
        self.switches = [
            k for k, s in enumerate(structure.switches) if (s.row, s.col) == (row, col)
        ]
        blocks = [structure.slot_block(k) for k in self.slots]
        blocks += [structure.switch_block(k) for k in self.switches]
        self.blocks = blocks
        self.source_memories = of_slots(structure.source_memories, self.slots)
        self._sink_memories = of_slots(structure.sink_memories, self.slots)
        self._slots = {k: self._slot(k) for k in self.slots}
        self._switches = {k: self._switch(structure.switches[k]) for k in self.switches}
        own = structure.fifos_of(row, col)
        self._first = own.start
        self._fifos = {k: self._fifo(k, structure.fifos[k]) for k in own}
        self._choices: dict[int, Part] = {}
        super().__init__(self._members())
        self._join()

    def parts(self) -> Iterator[tuple[str, str, Part]]:
        """Group (:mod:`penstock.hw.array.parts`), name and part of all that it is made of."""
        for k, part in self._slots.items():
            yield "slots", self.structure.network.slots[k].slot.name, part
        for k, part in self._switches.items():
            plane = self.structure.switches[k].plane
            yield f"{plane} switches", plane, part
        for k, part in self._fifos.items():
            yield "FIFOs", self.structure.fifos[k].plane, part
        for k, part in self._choices.items():
            yield "choices", self.structure.fifos[k].plane, part

    def key(self, shape: Shape) -> ModuleKey:
        """Key of its module."""
        names = {"letter": shape.letter, "sides": "".join(side[0] for side in shape.sides)}
        parts = [*self._slots.values(), *self._switches.values()]
        made = [part.key.digest for part in (*parts, *self._fifos.values())]
        joined = self.structure.network.array.sites[shape.letter]
        tracks = sorted(self.structure.network.array.tracks.items())
        further = {"parts": made, "site": repr(joined), "tracks": tracks, "probes": self.probes}
        return module_key("site", names, further)

    def _members(self) -> dict:
        count = len(self.slots)
        widest = max((x.span for x in (*self.blocks, *self.source_memories)), default=1)
        fields = {**bus_layout(widest).members, "we": len(self.blocks) + len(self.source_memories)}
        members = {
            "bus": In(data.StructLayout(fields)),
            "busy": Out(count),
            "blocked": Out(count),
            "done": Out(count),
            "error": Out(ERROR_BITS * count),
        }
        if self.probes:
            members |= {x: In(NUMBER_BITS) for x in ("cycle", "first_fifo", "first_slot")}
        for port, output in self._tracks():
            flow = Out if output else In
            beats = stream.Signature(beat_shape(port.plane, self._t))
            members[link_name(port, output)] = flow(beats)
        for k, number in enumerate(self.slots):
            own = self._slots[number].component.signature.members
            for name in ("port", "outside", "peak", "word"):
                if name in own:
                    members[f"{name}{k}"] = own[name]
        if self._sink_memories:
            members["word_addr"] = In((max(x.span for x in self._sink_memories) - 1).bit_length())
        return members

    def _tracks(self) -> Iterator[tuple[SwitchPort, bool]]:
        """Inputs and outputs of the switches that lead to neighbours."""
        network = self.structure.network
        for switch in map(self.structure.switches.__getitem__, self.switches):
            for ports, ids, output in (
                (network.inputs, switch.inputs, False),
                (network.outputs, switch.outputs, True),
            ):
                yield from ((ports[k], output) for k in ids if ports[k].side)

    def _part(
        self, shaped: tuple, make: Callable[[], wiring.Component], key: Callable, label: str
    ) -> Part:
        """A part; what has the same ``shaped`` shares one component."""
        if shaped not in self._made:
            component = make()
            self._made[shaped] = (component, key(component))
        return Part(*self._made[shaped], label)

    def _slot(self, k: int) -> Part:
        structure = self.structure
        slot = structure.network.slots[k].slot
        layout = structure.slot_block(k).layout
        ways = tuple(len(structure.ways(k, pin)) for pin in range(len(slot.outputs)))
        at = structure.network.posters(k)
        posters = tuple(structure.network.slots[s].slot.kinds for s in at)
        hardware = repr((slot.inputs, slot.outputs, structure.variants[k]))
        return self._part(
            ("slot", hardware, layout, ways, posters),
            lambda: Slot(
                slot=slot,
                variants=structure.variants[k],
                layout=layout,
                ways=ways,
                config=structure.machine,
                posters=posters,
            ),
            lambda made: made.key(),
            f"s{k - self.slots[0]}_{slot.name}",
        )

    def _switch(self, switch: Switch) -> Part:
        return self._part(
            ("switch", switch.plane, len(switch.inputs), switch.reach),
            lambda: SetSwitch(
                shape=beat_shape(switch.plane, self._t),
                inputs=len(switch.inputs),
                reach=switch.reach,
            ),
            lambda made: made.key(switch.plane),
            f"switch_{switch.plane}",
        )

    def _fifo(self, number: int, fifo: Described) -> Part:
        further = {"configured": not fifo.of_switch, "t": self._t}
        return self._part(
            ("fifo", fifo.plane, fifo.places, fifo.of_switch),
            lambda: Fifo(
                shape=beat_shape(fifo.plane, self._t),
                depth=fifo.places,
                configured=not fifo.of_switch,
            ),
            lambda _: module_key("fifo", {"depth": fifo.places, "plane": fifo.plane}, further),
            f"f{number - self._first}",
        )

    def _choice(self, number: int, plane: str, sources: int) -> Part:
        return self._part(
            ("choice", plane, sources),
            lambda: Choice(shape=beat_shape(plane, self._t), sources=sources),
            lambda _: module_key("choice", {"sources": sources, "plane": plane}, {"t": self._t}),
            f"choice{number - self._first}",
        )

    def _link(self, source: End, sink: End, plane: str, name: str) -> None:
        join(source, sink, beat_shape(plane, self._t).width, name)

    def _join(self) -> None:
        """Give both ends of every wire and FIFO one stream."""
        structure = self.structure
        network = structure.network
        into: dict[tuple[int, int], dict[int, End]] = {}
        for number, fifo in self._described():
            if not fifo.of_switch:
                into[fifo.at, fifo.pin] = self._entry(number, fifo)
            self._behind(number, fifo)
            port = network.inputs[fifo.at] if fifo.of_switch else None
            if port and port.side:
                self._outward(port, False, (self._fifos[number], "i"))
        for k in self.slots:
            for pin, output in enumerate(network.slots[k].slot.outputs):
                for n, wire in enumerate(structure.ways(k, pin)):
                    injection = network.injection(k, pin)
                    if wire < 0 and injection is not None:
                        sink = (self._fifos[structure.number[injection, -1]], "i")
                    else:
                        sink = into[network.wires[wire].dst][wire]
                    name = f"s{k - self.slots[0]}o{pin}_{n}"
                    self._link((self._slots[k], f"o{pin}_{n}"), sink, output.plane, name)
        for k, switch in self._switches.items():
            for n, output in enumerate(structure.switches[k].outputs):
                port = network.outputs[output]
                if port.side:
                    self._outward(port, True, (switch, f"o{n}"))
                else:
                    sink = into[port.slot, port.pin][-1]
                    self._link((switch, f"o{n}"), sink, port.plane, f"{switch.label}_o{n}")

    def _described(self) -> Iterator[tuple[int, Described]]:
        return ((number, self.structure.fifos[number]) for number in self._fifos)

    def _outward(self, port: SwitchPort, output: bool, end: End) -> None:
        """Let a track be the stream of one of the parts."""
        part, member = end
        track = getattr(self, link_name(port, output))
        part.links[member] = Link(track.payload, track.valid, track.ready)

    def _entry(self, number: int, fifo: Described) -> dict[int, End]:
        """Ends of the streams to a slot's pin: wire (-1: the switch) -> component, input."""
        sources = self.structure.sources(fifo.at, fifo.pin)
        if len(sources) == 1:
            return {sources[0]: (self._fifos[number], "i")}
        choice = self._choice(number, fifo.plane, len(sources))
        self._choices[number] = choice
        sink = (self._fifos[number], "i")
        self._link((choice, "o"), sink, fifo.plane, f"{sink[0].label}w")
        return {source: (choice, f"i{k}") for k, source in enumerate(sources)}

    def _behind(self, number: int, fifo: Described) -> None:
        """Destination of a FIFO."""
        if not fifo.of_switch:
            sink = (self._slots[fifo.at], f"i{fifo.pin}")
        else:
            switch = self.structure.switch_of_input[fifo.at]
            place = self.structure.switches[switch].inputs.index(fifo.at)
            sink = (self._switches[switch], f"i{place}")
        fifo_ = self._fifos[number]
        self._link((fifo_, "o"), sink, fifo.plane, f"{fifo_.label}r")

    def elaborate(self, platform):
        m = Module()
        for number, fifo in self._described():
            self._place_fifo(m, number, fifo)
        parts = [*self._slots.values(), *self._switches.values()]
        for k, (part, block) in enumerate(zip(parts, self.blocks, strict=True)):
            m.submodules[part.label] = part
            self._bus(m, part.ends.bus, k, block)
        for k, memory in enumerate(self.source_memories, len(self.blocks)):
            self._bus(m, self._slots[memory.slot].ends.fill, k, memory)
        for k, number in enumerate(self.slots):
            self._leave(m, k, number)
        return m

    def _place_fifo(self, m: Module, number: int, described: Described) -> None:
        fifo = self._fifos[number]
        m.submodules[fifo.label] = fifo
        places: ValueLike = Const(described.places, NUMBER_BITS)
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
            at = number - self._first
            m.submodules[f"p{at}"] = channel_probe(
                (self.first_fifo + at)[:NUMBER_BITS],
                container(described.plane, self._t),
                self.cycle,
                fifo.links["i"],
                fifo.links["o"],
                places,
            )

    def _bus(self, m: Module, bus, k: int, block: Block | BeatMemory) -> None:
        """The words of one block of registers, or of one memory."""
        low = (block.span - 1).bit_length()
        addr = self.bus.addr[:low] if low else 0
        m.d.comb += [bus.we.eq(self.bus.we[k]), bus.addr.eq(addr), bus.data.eq(self.bus.data)]

    def _leave(self, m: Module, k: int, number: int) -> None:
        """Pass a slot's ports to the top, and the posts of its references."""
        slot = self._slots[number].ends
        members = slot.signature.members
        m.d.comb += [
            self.busy[k].eq(slot.busy),
            self.blocked[k].eq(slot.blocked),
            self.done[k].eq(slot.done),
            self.error[ERROR_BITS * k :][:ERROR_BITS].eq(slot.error),
        ]
        if "peak" in members:
            m.d.comb += getattr(self, f"peak{k}").eq(slot.peak)
        if "word" in members:
            m.d.comb += [slot.word_addr.eq(self.word_addr), getattr(self, f"word{k}").eq(slot.word)]
        if "port" in members:
            wiring.connect(m, slot.port, wiring.flipped(getattr(self, f"port{k}")))
        if "outside" in members:
            own = wiring.flipped(getattr(self, f"outside{k}"))
            inward = members["outside"].flow == In
            connect(m, *((own, slot.outside) if inward else (slot.outside, own)))
        if self.probes:
            here = (self.first_slot + k)[:NUMBER_BITS]
            m.submodules[f"fault{k}"] = fault_probe(here, self.cycle, slot.error)
        for n, poster in enumerate(self.structure.network.posters(number)):
            post = self._slots[poster].ends.post
            m.d.comb += getattr(slot, f"post{n}").eq(post)
            if self.probes:
                of = poster - self.slots[0]
                here = (self.first_slot + of)[:NUMBER_BITS]
                m.submodules[f"post{of}"] = post_probe(here, self.cycle, post)
