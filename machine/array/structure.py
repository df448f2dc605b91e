"""Structure of an array, thing by thing: the units of its slots, its FIFOs, its switches, and the
registers that an image sets. Hardware, images and the bench read this one description.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from ..beat import beat_words
from ..config import Config, Machine, shaping
from ..errors import ConfigError
from ..kinds import kind_of
from ..limits import REGISTERS
from .description import HOP_PLACES, PLANES
from .network import Network, SwitchPort
from .registers import Block, Layout, based, stacked
from .variants import container

FORMAT = 2
"""Version of images; another one means other words."""


class Fifo(NamedTuple):
    """A physical FIFO: before a slot's pin, or before a switch (pin -1); ``at`` is the id of the
    slot or of the switch's input.
    """

    at: int
    pin: int
    plane: str
    places: int

    @property
    def of_switch(self) -> bool:
        return self.pin < 0


class BeatMemory(NamedTuple):
    """The memory of a slot: ``places`` beats of ``words`` words each."""

    slot: int
    base: int
    places: int
    words: int

    @property
    def stride(self) -> int:
        """Addresses from a beat to the next: a power of two."""
        return 1 << (self.words - 1).bit_length()

    @property
    def span(self) -> int:
        """Addresses that it takes: a power of two."""
        return self.stride << (self.places - 1).bit_length()

    def address(self, beat: int, word: int = 0) -> int:
        """Address of a word of a beat."""
        return self.base + beat * self.stride + word


def of_slots(memories: Mapping[int, BeatMemory], slots: Iterable[int]) -> list[BeatMemory]:
    """The memories of some slots."""
    return [memories[k] for k in slots if k in memories]


class Size(NamedTuple):
    """Bits that an image sets in things of one name, and their number."""

    name: str
    number: int
    bits: int
    table_bits: int


@dataclass(frozen=True)
class Switch:
    """The switch of a site on a plane: ids of its inputs and outputs, and for each output the
    inputs that can feed it, by place in the list.
    """

    plane: str
    row: int
    col: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    reach: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        return f"switch_{self.plane}_{self.row}_{self.col}"


class Structure:
    """The things of an array, by number.

    Parameters
    ----------
    config : Config
        A configuration with an array.

    Attributes
    ----------
    network
        Slots, wires, and inputs and outputs of switches.
    variants
        What each slot can be.
    fifos
        Site by site those before the pins of its slots, then those before its switches; a FIFO's
        number is its place here.
    switches
        Those that have inputs and outputs.
    blocks
        Registers of every slot, then of every switch, then of the memory's ports (where there are
        any).
    source_memories, sink_memories
        Memories for the beats of sources, and of sinks, by slot; those of sources lie behind the
        blocks.

    Raises
    ------
    ConfigError
        The configuration has no array, or one that cannot be built.
    """

    def __init__(self, config: Config):
        if config.array is None:
            raise ConfigError(
                "has no table `array`",
                f"config {config.name}",
                remedy="use a configuration that has one, as array_small",
            )
        self.config = config
        self.machine: Machine = shaping(config.machine)
        self.network = Network(config.array)
        self.variants = [self.network.variants(placed.slot) for placed in self.network.slots]
        self.switches = tuple(self._switches())
        self._of_site: dict[tuple[int, int], range] = {}
        self.fifos = tuple(self._fifos())
        self.number = {(f.at, f.pin): k for k, f in enumerate(self.fifos)}
        self.blocks = based([*self._slot_blocks(), *self._switch_blocks(), *self._memory_block()])
        self.source_memories = self._memories("source", max(b.base + b.span for b in self.blocks))
        self.sink_memories = self._memories("sink", 0)

    def _fifos(self) -> Iterator[Fifo]:
        network = self.network
        first = 0
        for place in network.array.places():
            slots = [network.slots[k] for k in network.slots_of(*place)]
            own = [
                Fifo(placed.id, k, pin.plane, placed.slot.places)
                for placed in slots
                for k, pin in enumerate(placed.slot.inputs)
            ]
            ports = [p for p in network.inputs if (p.row, p.col) == place]
            own += [Fifo(p.id, -1, p.plane, HOP_PLACES) for p in ports]
            yield from own
            self._of_site[place] = range(first, first + len(own))
            first += len(own)

    def fifos_of(self, row: int, col: int) -> range:
        """Numbers of the FIFOs of a site."""
        return self._of_site[row, col]

    def _switches(self) -> Iterator[Switch]:
        network = self.network
        for plane in PLANES:
            for row, col in network.array.places():
                at = (plane, row, col)
                ins = [p for p in network.inputs if _at(p) == at]
                outs = [p for p in network.outputs if _at(p) == at]
                reach = tuple(
                    tuple(k for k, i in enumerate(ins) if network.may_turn(i, o)) for o in outs
                )
                if ins and outs:
                    ids = (tuple(p.id for p in ins), tuple(p.id for p in outs))
                    yield Switch(plane, row, col, *ids, reach)

    @cached_property
    def switch_of_input(self) -> dict[int, int]:
        """The number of the switch of each switch input."""
        return {i: k for k, switch in enumerate(self.switches) for i in switch.inputs}

    @cached_property
    def _from_wires(self) -> dict[tuple[int, int], list[int]]:
        out: dict[tuple[int, int], list[int]] = {}
        for w in self.network.wires:
            out.setdefault(w.dst, []).append(w.id)
        return out

    @cached_property
    def _to_wires(self) -> dict[tuple[int, int], list[int]]:
        out: dict[tuple[int, int], list[int]] = {}
        for w in self.network.wires:
            out.setdefault(w.src, []).append(w.id)
        return out

    def sources(self, slot: int, pin: int) -> list[int]:
        """Sources of an input pin: ids of wires, then -1 for the switch."""
        net = [] if self.network.ejection(slot, pin) is None else [-1]
        return [*self._from_wires.get((slot, pin), ()), *net]

    def ways(self, slot: int, pin: int) -> list[int]:
        """Destinations of an output pin: ids of wires, then -1 for the switch."""
        net = [] if self.network.injection(slot, pin) is None else [-1]
        return [*self._to_wires.get((slot, pin), ()), *net]

    def _slot_blocks(self) -> Iterator[Block]:
        for placed in self.network.slots:
            own = self.variants[placed.id]
            common = {"used": 1, "variant": (len(own) - 1).bit_length()}
            for pin in range(len(placed.slot.inputs)):
                common[f"places_{pin}"] = placed.slot.places.bit_length()
                choices = len(self.sources(placed.id, pin))
                common[f"from_{pin}"] = max(choices - 1, 0).bit_length()
            for pin in range(len(placed.slot.outputs)):
                choices = len(self.ways(placed.id, pin))
                common[f"to_{pin}"] = max(choices - 1, 0).bit_length()
            layout = Layout.of(common, [v.registers for v in own], [v.tables for v in own])
            yield Block(placed.name, layout, labels=tuple(v.label for v in own))

    def _switch_blocks(self) -> Iterator[Block]:
        for switch in self.switches:
            fields = {f"select_{k}": len(x).bit_length() for k, x in enumerate(switch.reach)}
            yield Block(switch.name, Layout.of(fields))

    def _memory_block(self) -> Iterator[Block]:
        ports = len(self.offchip)
        if ports > 1:
            bits = (ports - 1).bit_length()
            yield Block("memory", Layout.of({f"port_{p}": bits for p in range(ports)}))

    def _memories(self, kind: str, first: int) -> dict[int, BeatMemory]:
        """Memories of the slots that can be of a kind and have one, at addresses from ``first``
        on.
        """
        found: list[BeatMemory] = []
        for placed in self.network.slots:
            places = placed.slot.params.get("beats") if kind in placed.slot.kinds else None
            if places is not None:
                words = beat_words(container(placed.slot.data, self.machine.t))
                found.append(BeatMemory(placed.id, 0, places, words))
        bases, end = stacked([m.span for m in found], first)
        if end not in REGISTERS:
            raise ConfigError(
                f"has {end} words, with the memories of {kind}s",
                "array",
                f"a port addresses {REGISTERS[-1]}",
                "use a smaller `beats`",
            )
        return {m.slot: m._replace(base=at) for m, at in zip(found, bases, strict=True)}

    def sizes(self) -> list[Size]:
        """Bits of the registers and tables of the slots of each name, and of the switches of each
        plane; the largest of those that differ.
        """
        names = [s.slot.name for s in self.network.slots]
        names += [f"switch_{s.plane}" for s in self.switches]
        found: dict[str, Size] = {}
        for name, block in zip(names, self.blocks, strict=False):
            old = found.get(name, Size(name, 0, 0, 0))
            bits = max(old.bits, block.layout.bits)
            table_bits = max(old.table_bits, block.layout.table_bits)
            found[name] = Size(name, old.number + 1, bits, table_bits)
        return list(found.values())

    def slot_block(self, slot: int) -> Block:
        """Registers of a slot."""
        return self.blocks[slot]

    def switch_block(self, switch: int) -> Block:
        """Registers of a switch."""
        return self.blocks[len(self.network.slots) + switch]

    @property
    def memory_block(self) -> Block | None:
        """Registers of the off-chip ports: which slot each port of the program is."""
        return self.blocks[-1] if len(self.offchip) > 1 else None

    @property
    def offchip(self) -> list[int]:
        """Slots with a port to off-chip memory."""
        return self.network.offchip

    def direction(self, slot: int) -> str:
        """``read`` or ``write``, of a slot with a port to off-chip memory."""
        (direction,) = {kind_of(v.kind).offchip for v in self.variants[slot]}
        return direction

    @property
    def words(self) -> int:
        """Configuration words of an image."""
        return sum(b.layout.words for b in self.blocks)

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that differ from array to array: of its format, machine, sites and registers."""
        array = self.network.array
        sites = {x: repr(site) for x, site in sorted(array.sites.items())}
        blocks = [(b.name, b.base, repr(b.layout), b.labels) for b in self.blocks]
        machine = asdict(self.machine)
        facts = [FORMAT, array.grid, sorted(array.tracks.items()), sites, blocks, machine]
        text = json.dumps(facts, sort_keys=True, default=repr)
        return int(sha256(text.encode()).hexdigest()[:8], 16)


def _at(port: SwitchPort) -> tuple[str, int, int]:
    return (port.plane, port.row, port.col)
