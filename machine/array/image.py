"""The image of a program on an array: words for the configuration port (docs/array.md).

A file of 32-bit words, lowest byte first: version, fingerprint of the array, number of words, the
words of every block in the order of their addresses; slot, number of beats and the words of these
for each source that has its beats in a memory; and the CRC-32 of all before.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, LoweringError, RunError
from ..trace import SourceBeats
from ..unitgraph import Channel, UnitGraph
from .registers import Block
from .streams import on_plane
from .structure import FORMAT, Structure

HEAD = 3
"""Words before those of the blocks."""
MAGIC = 0x5053_0000
"""The upper half of the first word; the lower one is the version."""


@dataclass(frozen=True)
class Image:
    """Configuration image of a program."""

    fingerprint: int  # of the array
    words: tuple[tuple[int, ...], ...]  # of each block, in the order of :attr:`Structure.blocks`
    # of each source with its beats in a memory, by slot: the words of each beat
    beats: Mapping[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict[int, Any])

    def writes(self, structure: Structure) -> list[tuple[int, int]]:
        """Address and data of each word, by address."""
        pairs = [
            (structure.source_memories[slot].address(k, w), word)
            for slot, beats in self.beats.items()
            for k, words in enumerate(beats)
            for w, word in enumerate(words)
        ]
        return sorted([*self._set(structure), *pairs])

    def _set(self, structure: Structure) -> list[tuple[int, int]]:
        """Address and value of each word of the blocks, by address."""
        return sorted(
            (address, word)
            for block, words in zip(structure.blocks, self.words, strict=True)
            for address, word in zip(block.addresses, words, strict=True)
        )

    def to_bytes(self, structure: Structure) -> bytes:
        """The file."""
        body = [word for _, word in self._set(structure)]
        for slot, beats in self.beats.items():
            body += [slot, len(beats), *(word for words in beats for word in words)]
        words = [MAGIC | FORMAT, self.fingerprint, len(body), *body]
        packed = struct.pack(f"<{len(words)}I", *words)
        return packed + struct.pack("<I", zlib.crc32(packed))


def read(path: str | Path, structure: Structure) -> Image:
    """An image from its file.

    Raises
    ------
    ConfigError
        It is no image, is cut or changed, or is of another array.
    """
    where = f"image {path}"
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"cannot be read: {e.strerror}", where) from None
    return _parsed(raw, structure, where)


def _parsed(raw: bytes, structure: Structure, where: str) -> Image:
    again = "make it again with `penstock array map`"
    if len(raw) < 4 * (HEAD + 1) or struct.unpack("<I", raw[:4])[0] & ~0xFFFF != MAGIC:
        raise ConfigError("is no image of an array", where, remedy=again)
    count = struct.unpack("<I", raw[8:12])[0]
    if len(raw) != 4 * (HEAD + count + 1):
        problem = f"has {len(raw)} bytes, and its head says {4 * (HEAD + count + 1)}"
        raise ConfigError(problem, where, "an image is whole", again)
    words = struct.unpack(f"<{len(raw) // 4}I", raw)
    if zlib.crc32(raw[:-4]) != words[-1]:
        raise ConfigError("has another checksum than its words", where, "an image is whole", again)
    version = words[0] & 0xFFFF
    if version != FORMAT:
        rule = f"this is version {FORMAT}"
        raise ConfigError(f"has version {version}", where, rule, again)
    if words[1] != structure.fingerprint or count < structure.words:
        name = structure.config.name
        raise ConfigError(
            f"is of another array (fingerprint {words[1]:08x})",
            where,
            f"array {name} has fingerprint {structure.fingerprint:08x}",
            f"map the program on {name}, or name the array that the image is of",
        )
    body = iter(words[HEAD:-1])
    at = {a: next(body) for a in sorted(a for b in structure.blocks for a in b.addresses)}
    blocks = tuple(tuple(at[a] for a in b.addresses) for b in structure.blocks)
    return Image(words[1], blocks, _beats(body, structure, where))


def _beats(
    body: Iterator[int], structure: Structure, where: str
) -> dict[int, tuple[tuple[int, ...], ...]]:
    """The beats behind the words of the blocks."""
    found: dict[int, tuple[tuple[int, ...], ...]] = {}
    for slot in body:
        memory = structure.source_memories.get(slot)
        count = next(body, 0)
        if memory is None or not 1 <= count <= memory.places:
            problem = f"has {count} beats for slot {slot}"
            rule = "a slot holds as many as its memory has places"
            raise ConfigError(problem, where, rule, "make it again with `penstock array map`")
        words = list(islice(body, count * memory.words))
        if len(words) < count * memory.words:
            raise ConfigError(f"ends within the beats for slot {slot}", where, "an image is whole")
        found[slot] = tuple(_in_groups(words, memory.words))
    return found


def _in_groups(words: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Words in groups of ``size``."""
    return (tuple(words[k : k + size]) for k in range(0, len(words), size))


class Decoded(NamedTuple):
    """A block of an image, decoded: its variant, the values of its fields, the entries of its
    tables.
    """

    block: Block
    label: str
    values: dict[str, int]
    tables: dict[str, list[int]]


def decoded(image: Image, structure: Structure) -> Iterator[Decoded]:
    """Every block of an image."""
    for block, words in zip(structure.blocks, image.words, strict=True):
        common = block.layout.decode(words) if not block.layout.variants else _common(block, words)
        variant = common.get("variant", 0)
        label = block.labels[variant] if variant < len(block.labels) else ""
        used = common.get("used", 1)
        set_up = used and block.labels
        values = block.layout.decode(words, variant) if set_up else common
        tables = block.layout.listed(words, variant) if set_up else {}
        yield Decoded(block, label if used else "not used", values, tables)


def _common(block: Block, words: tuple[int, ...]) -> dict[str, int]:
    return {f.name: words[f.word] >> f.low & f.mask for f in block.layout.common}


def encoded(
    structure: Structure, graph: UnitGraph, sources: Mapping[int, SourceBeats] = {}
) -> Image:
    """The image of a placed graph (:func:`.placed.placed_graph`) of the array.

    Parameters
    ----------
    structure, graph
        The array, and the placed graph.
    sources
        Beats of its sources by unit, those at least that have them in a memory.

    Raises
    ------
    LoweringError
        A unit is in a slot that it does not fit.
    RunError
        A source with a memory has other beats than it holds.
    """
    return _Encoder(structure, graph, sources).image()


class _Encoder:
    def __init__(self, structure: Structure, graph: UnitGraph, sources: Mapping[int, SourceBeats]):
        self.structure = structure
        self.sources = sources
        self.beats: dict[int, tuple[tuple[int, ...], ...]] = {}
        self.network = structure.network
        self.graph = graph
        self.units: list[tuple[str, int]] = graph.meta["array"]["units"]
        self.channels: list[list[Any]] = graph.meta["array"]["channels"]
        self.values: list[dict[str, int]] = [{} for _ in structure.blocks]
        self.variant = [0] * len(structure.blocks)
        self.entries: list[dict[str, Sequence[int]]] = [{} for _ in structure.blocks]

    def image(self) -> Image:
        for unit, (what, at) in zip(self.graph.units, self.units, strict=True):
            if what == "slot":
                self._slot(unit.id, at)
        for channel in self.graph.channels:
            self._channel(channel)
        if self.structure.memory_block is not None:
            self.values[-1] = self._ports()
        words = tuple(
            tuple(block.layout.encode(values, variant, entries))
            for block, values, variant, entries in zip(
                self.structure.blocks, self.values, self.variant, self.entries, strict=True
            )
        )
        return Image(self.structure.fingerprint, words, self.beats)

    def _slot(self, u: int, at: int) -> None:
        unit = self.graph.units[u]
        ins = [c.payload for c in self.graph.inputs(u)]
        outs = [c.payload for c in self.graph.outputs(u)]
        lacks: list[str] = []
        for k, variant in enumerate(self.structure.variants[at]):
            if variant.kind != unit.kind.name:
                continue
            lacks = variant.misses(unit.kind, ins, outs)
            if not lacks:
                fields = {f.name for f in self.structure.slot_block(at).layout.common}
                own = {"used": 1} | ({"variant": k} if "variant" in fields else {})
                self.values[at] = own | variant.settings(unit.kind, ins, outs)
                self.variant[at] = k
                self.entries[at] = variant.capability.entries(unit.kind)
                if unit.kind.name == "source" and unit.kind.beats is not None:
                    self._hold(u, at)
                return
        raise LoweringError(
            f"does not fit slot {self.network.slots[at].name}: "
            f"{', '.join(lacks) or unit.kind.name}",
            f"unit {unit.name}",
            "a slot holds units within its capability",
        )

    def _hold(self, u: int, at: int) -> None:
        """The beats of a source, into the memory of its slot."""
        unit = self.graph.units[u]
        given = self.sources.get(u)
        held: int = unit.kind.beats
        count = 0 if given is None else len(given.stop)
        if given is None or count != held:
            raise RunError(
                f"{count} beats given", f"source {unit.name}", f"its memory holds {held}"
            )
        plane = self.network.slots[at].slot.data
        (channel,) = self.graph.outputs(u)
        words = on_plane(given, plane, channel.payload, self.graph.t)
        self.beats[at] = tuple(tuple(map(int, row)) for row in words)

    def _channel(self, channel: Channel) -> None:
        """The FIFO of a channel, and the way into it."""
        source = self._output(channel)
        ahead = self._into(channel)
        wire = -1
        if isinstance(source, tuple) and isinstance(ahead, tuple):
            wire = self._wire(source, ahead)
        if isinstance(ahead, tuple):
            at, pin = ahead
            self.values[at][f"places_{pin}"] = channel.depth
            self._set(at, f"from_{pin}", self.structure.sources(at, pin).index(wire))
        if isinstance(source, tuple):
            self._set(source[0], f"to_{source[1]}", self.structure.ways(*source).index(wire))
        else:
            self._select(source, ahead)

    def _into(self, channel: Channel) -> tuple[int, int] | int:
        """Slot and pin that a channel leads to, or the switch input."""
        what, at, *pin = self.channels[channel.id]
        return (int(at), int(pin[0])) if what == "slot" else int(at)

    def _set(self, slot: int, name: str, value: int) -> None:
        """A field that a slot has only where there is a choice."""
        fields = {f.name for f in self.structure.slot_block(slot).layout.common}
        if name in fields:
            self.values[slot][name] = value

    def _output(self, channel: Channel) -> tuple[int, int] | int:
        """Slot and pin of the unit that a channel comes from, or the switch input of its hop."""
        u, port = channel.src
        what, at = self.units[u]
        if what == "switch":
            return at
        unit = self.graph.units[u]
        variant = self.structure.variants[at][self.variant[at]]
        pins = variant.pins(unit.kind)[1]
        return (at, pins[port].number)

    def _wire(self, src: tuple[int, int], dst: tuple[int, int]) -> int:
        wire = self.network.wires_between(src, dst)
        if wire is None:
            raise LoweringError(
                f"no wire from slot {src[0]} pin {src[1]} to slot {dst[0]} pin {dst[1]}",
                f"array {self.network.array.name}",
            )
        return wire.id

    def _select(self, source: int, ahead: tuple[int, int] | int) -> None:
        """Let a switch's output to a slot's pin, or to a neighbour's input, have one input."""
        k = self.structure.switch_of_input[source]
        switch = self.structure.switches[k]
        (place,) = [n for n, output in enumerate(switch.outputs) if self._ahead(output) == ahead]
        number = switch.inputs.index(source)
        values = self.values[len(self.network.slots) + k]
        values[f"select_{place}"] = 1 + switch.reach[place].index(number)

    def _ahead(self, output: int) -> tuple[int, int] | int:
        port = self.network.outputs[output]
        return self.network.leads_to[output] if port.side else (port.slot, port.pin)

    def _ports(self) -> dict[str, int]:
        """The program's ports first, in their order."""
        offchip = self.structure.offchip
        used = [offchip.index(self.units[u][1]) for u in self.graph.ports]
        rest = [p for p in range(len(offchip)) if p not in used]
        return {f"port_{p}": port for p, port in enumerate([*used, *rest])}
