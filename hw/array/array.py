"""The whole array: slots, FIFOs, switches, off-chip interconnect, configuration."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...machine.array.registers import Block
from ...machine.array.structure import BeatMemory, Structure, of_slots
from ...machine.config import Config
from ...machine.limits import REGISTER_BITS, UNIT_BITS
from ..export.module_key import module_key
from ..export.place import place
from ..memory.interconnect import Interconnect
from ..stream import connect
from ..top import fault_probe, memory_ports, observe
from .container import beat_shape
from .part import Part, join
from .registers import Registers
from .site import ERROR_BITS, Made, Site, link_name, shape_of


class Observed(NamedTuple):
    """Signals of a slot that the top observes."""

    busy: Value
    blocked: Value
    done: Value
    error: Value
    peak: Value | None


class Own(NamedTuple):
    """Slot k's share of a site's members."""

    site: Part
    k: int

    def member(self, name: str) -> wiring.Member:
        """A member of the slot's own, without a value."""
        return self.site.component.signature.members[f"{name}{self.k}"]

    def end(self, name: str):
        """The same with its signals."""
        return getattr(self.site.ends, f"{name}{self.k}")

    def observed(self) -> Observed:
        """The slot's bits of its site's status."""
        ends = self.site.ends
        k = self.k
        peak = getattr(ends, f"peak{k}", None)
        error = ends.error[ERROR_BITS * k :][:ERROR_BITS]
        return Observed(ends.busy[k], ends.blocked[k], ends.done[k], error, peak)


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
    The ports of docs/top.md. ``src<slot>`` and ``snk<slot>`` are streams of beats of their plane.
    Arrays without off-chip slots have no ``mem_`` ports. ``stat_addr`` counts slots. Arrays with
    memories of sinks have ``sink_addr`` and ``sink_data``.

    Attributes
    ----------
    structure : Structure
        What it is made of.
    sidecar : dict
        What the JSON sidecar says besides ports.

    Timing
    ------
    docs/timing.md. A configuration word written in c holds from c + 1; words are written while
    ``rst`` is high, and cycle 0 is the first with ``rst`` low. ``done`` and ``stat_data`` are
    combinational; ``error`` shows a fault from the cycle after it; ``sink_data`` in c + 1 is the
    word that ``sink_addr`` names in c.
    """

    def __init__(self, config: Config, *, probes: bool = False):
        self.config = config
        self.structure = structure = Structure(config)
        self.probes = bool(probes)
        self._made: Made = {}
        self._sites: dict[tuple[int, int], Part] = {}
        self._slots: list[Own] = []
        for place_ in structure.network.array.places():
            self._add(*place_)
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
        if structure.sink_memories:
            members |= {"sink_addr": In(REGISTER_BITS), "sink_data": Out(32)}
        for name, (_, slot) in self._outside().items():
            members[name] = self._slots[slot].member("outside")
        self._interconnect: Interconnect | None = None
        if structure.offchip:
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

    def sites(self) -> list[Site]:
        """Component of each place, which equal sites share."""
        return [part.component for part in self._sites.values() if isinstance(part.component, Site)]

    @property
    def interconnect(self) -> Interconnect | None:
        """Interconnect between off-chip slots and the memory; None without such slots."""
        return self._interconnect

    def _tags(self) -> list[int]:
        """Tags of every off-chip port (docs/timing.md section 5, random stores)."""
        ports = (self._slots[s].member("port") for s in self.structure.offchip)
        return [getattr(port.signature, "tags", 1) for port in ports]

    def _add(self, row: int, col: int) -> None:
        """A site, which equal ones share."""
        shape = shape_of(self.structure, row, col)
        if shape not in self._made:
            site = Site(
                structure=self.structure, row=row, col=col, made=self._made, probes=self.probes
            )
            self._made[shape] = (site, site.key(shape))
        part = Part(*self._made[shape], f"site_{row}_{col}")
        self._sites[row, col] = part
        count = len(self.structure.network.slots_of(row, col))
        self._slots += [Own(part, k) for k in range(count)]

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

    def _join(self) -> None:
        """Give both ends of every track one stream."""
        network = self.structure.network
        for output, behind in zip(network.outputs, network.leads_to, strict=True):
            if not output.side:
                continue
            into = network.inputs[behind]
            source = (self._sites[output.row, output.col], link_name(output, output=True))
            sink = (self._sites[into.row, into.col], link_name(into, output=False))
            width = beat_shape(output.plane, self.structure.machine.t).width
            join(source, sink, width, output.name)

    @property
    def sidecar(self) -> dict:
        """Slots, switches and FIFOs by number, and every field and table of the registers."""
        structure = self.structure
        network = structure.network
        layouts = list(dict.fromkeys(b.layout for b in structure.blocks))
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
                {
                    "name": b.name,
                    "base": b.base,
                    "words": b.layout.words,
                    "layout": layouts.index(b.layout),
                }
                for b in structure.blocks
            ],
            "layouts": [asdict(layout) for layout in layouts],
            "source_memories": _described(structure.source_memories),
            "sink_memories": _described(structure.sink_memories),
        }

    def elaborate(self, platform):
        m = Module()
        for (row, col), site in self._sites.items():
            self._place(m, row, col, site)
        for name, (flow, slot) in self._outside().items():
            own = wiring.flipped(getattr(self, name))
            inner = self._slots[slot].end("outside")
            connect(m, own, inner) if flow is In else connect(m, inner, own)
        if self.structure.sink_memories:
            self._read(m)
        slots = [slot.observed() for slot in self._slots]
        errors = [slot.error for slot in slots]
        if self.structure.offchip:
            errors.append(self._memory(m))
            if self.probes:
                number = len(errors) - 1
                m.submodules.fault = fault_probe(number, self.cycle, errors[-1])
        observe(m, self, slots, errors, counters=True)
        return m

    def _place(self, m: Module, row: int, col: int, site: Part) -> None:
        """Add a site, with its registers' bus and its probes."""
        structure = self.structure
        m.submodules[site.label] = site
        ends = site.ends
        slots = structure.network.slots_of(row, col)
        blocks: list[Block | BeatMemory] = [structure.slot_block(k) for k in slots]
        switches = enumerate(structure.switches)
        blocks += [structure.switch_block(k) for k, s in switches if (s.row, s.col) == (row, col)]
        blocks += of_slots(structure.source_memories, slots)
        for k, block in enumerate(blocks):
            m.d.comb += ends.bus.we[k].eq(self._written(block))
        m.d.comb += [ends.bus.addr.eq(self.cfg_addr), ends.bus.data.eq(self.cfg_data)]
        if self.probes:
            first = structure.network.slots_of(row, col)[0]
            m.d.comb += [
                ends.cycle.eq(self.cycle),
                ends.first_fifo.eq(structure.fifos_of(row, col).start),
                ends.first_slot.eq(first),
            ]

    def _read(self, m: Module) -> None:
        """The words that the memories of sinks have."""
        named = Signal(REGISTER_BITS)
        m.d.sync += named.eq(self.sink_addr)
        for site in self._sites.values():
            if "word_addr" in site.component.signature.members:
                m.d.comb += site.ends.word_addr.eq(self.sink_addr)
        for memory in self.structure.sink_memories.values():
            low = (memory.span - 1).bit_length()
            with m.If(named[low:] == memory.base >> low):
                m.d.comb += self.sink_data.eq(self._slots[memory.slot].end("word"))

    def _written(self, block: Block | BeatMemory) -> Value:
        """True if a word of a block, or of a memory, is written."""
        low = (block.span - 1).bit_length()
        return self.cfg_we & (self.cfg_addr[low:] == block.base >> low)

    def _bus(self, m: Module, bus, block: Block) -> None:
        """The words whose addresses are a block's."""
        low = (block.span - 1).bit_length()
        addr = self.cfg_addr[:low] if low else 0
        m.d.comb += [bus.we.eq(self._written(block)), bus.addr.eq(addr), bus.data.eq(self.cfg_data)]

    def _memory(self, m: Module) -> Value:
        structure = self.structure
        memory = self._interconnect
        assert memory is not None
        directions = [structure.direction(s) for s in structure.offchip]
        machine = structure.machine.of_parts
        further = {"directions": directions, "tags": self._tags(), "machine": machine}
        key = module_key("interconnect", {"ports": len(directions), "ordered": True}, further)
        m.submodules.interconnect = place(memory, key, "interconnect")
        for p, slot in enumerate(structure.offchip):
            wiring.connect(m, self._slots[slot].end("port"), getattr(memory, f"port{p}"))
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


def _described(memories: Mapping[int, BeatMemory]) -> list[dict[str, int]]:
    """Slot, first address, beats, words and addresses of a beat of each memory."""
    return [{**memory._asdict(), "stride": memory.stride} for memory in memories.values()]
