"""Lays a unit graph out as the state of the compiled engine (records: `penstock.model.units`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..machine import beat as beats
from ..machine.beat import STOP_DONE, Payload
from ..machine.capacity import check_capacity
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.trace import Shape, SourceBeats
from ..machine.unitgraph import Unit as MachineUnit
from ..machine.unitgraph import UnitGraph, validate
from . import acts, dram_state
from .records import Words
from .units import KINDS
from .units.state import RING, Beat, Channel, Count, Counts, Logged, Net, Sunk, Trips, Unit

WHEEL = 1024  # cycles; a power of two
LOG_ROWS = 1 << 16
SUNK_ROWS = 1 << 12
RECORD_ROOM = 1024  # beats of a recorded channel between two looks of Python


def leaves(payload: Payload) -> list[tuple[int, int, int]]:
    """The members of a payload: bits of an element, 0 where it is no tile, and of two numbers."""
    match payload:
        case beats.Tile():
            return [(payload.element_bits, payload.count_bits, payload.count_bits)]
        case beats.BufferRef():
            return [(0, payload.page_bits, beats.TILES_BITS)]
        case beats.Tuple():
            return [x for m in payload.members for x in leaves(m)]
    words = [max(0, min(payload.bits - at, 64)) for at in range(0, payload.bits, 64)]
    return [(0, *_pair(words[at:])) for at in range(0, len(words), 2)]


def _pair(words: list[int]) -> tuple[int, int]:
    """The first two words, 0 for one that is not there."""
    return words[0], words[1] if len(words) > 1 else 0


def n_values(payload: Payload) -> int:
    """32-bit values of a beat: the elements of its tiles."""
    match payload:
        case beats.Tile():
            return payload.t**2
        case beats.Tuple():
            return sum(map(n_values, payload.members))
    return 0


def slot_words(payload: Payload) -> int:
    """Words of a beat in a slot."""
    return Beat.offsets["numbers"] + 2 * len(leaves(payload))


def ring_places(depth: int) -> int:
    """Slots of a channel: its depth, if its ring never grows, else the ring's first size doubled
    until it has room.
    """
    if depth <= RING:
        return depth
    return RING << (-(-depth // RING) - 1).bit_length()


def unpack_words(payload: Payload, words: np.ndarray) -> tuple[list[int], np.ndarray]:
    """A payload's numbers (two a member) and its values as float32 bits, from its 32-bit words."""
    bits = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), bitorder="little")
    at = 0
    meta = []
    values = []

    def number(width: int) -> int:
        nonlocal at
        x = int.from_bytes(
            np.packbits(bits[at : at + width], bitorder="little").tobytes(), "little"
        )
        at += width
        return x

    def walk(p: Payload) -> None:
        nonlocal at
        if isinstance(p, beats.Tuple):
            for m in p.members:
                walk(m)
            return
        parts = leaves(p)
        if isinstance(p, beats.Tile):
            element = p.element_bits
            n = p.t**2 * element
            x = np.packbits(bits[at : at + n].reshape(-1, 8), axis=1, bitorder="little").reshape(-1)
            values.append(x.view("<u4") if element == 32 else x.view("<u2").astype(np.uint32) << 16)
            at += n
        words = [number(width) for _, *both in parts for width in both]
        meta.extend(x - (x >> 63 << 64) for x in words)  # signed words

    walk(payload)
    return meta, np.concatenate(values) if values else np.zeros(0, np.uint32)


class Layout(Words):
    """The state of one run.

    Attributes
    ----------
    S, V, M, D
        Words of the records (`penstock.model.units.state`), values (one element if values are not
        computed), memory image as 16-bit words, DRAM state.
    """

    def __init__(
        self,
        graph: UnitGraph,
        config: Config,
        image: np.ndarray | None,
        trace: bool,
        sources: Mapping[int, SourceBeats],
        sinks: Mapping[int, np.ndarray],
        record: Collection[int] = (),
        commands: int = 0,
    ):
        super().__init__()
        validate(graph)
        check_capacity(graph, config.machine)
        self.graph = graph
        self.machine = config.machine
        self.values = image is not None
        self.sources = sources
        self.sinks = sinks
        self.n_values = 0
        self.preset_values: list[tuple[int, np.ndarray]] = []
        if any(c.id != i for i, c in enumerate(graph.channels)):
            raise RunError("channel ids do not count from 0", graph.name)
        self.alloc(Net.words)
        self.channels = self.alloc(len(graph.channels) * Channel.words)
        self.kinds = [KINDS[self._act(u)] for u in graph.units]
        self.unit_words = max((state.words for state, _ in self.kinds), default=Unit.words)
        self.units = self.alloc(len(graph.units) * self.unit_words)
        self.counts = {u: self._put_counts(u) for u in graph.memories()}
        for c in graph.channels:
            self._put_channel(c, c.id in record)
        for u in graph.units:
            self._put_unit(u)
        for p, u in enumerate(graph.ports):
            self.set(Unit, self.unit_at(u), {"port": p})
        lines = dram_state.lines_bound(graph, self.machine)
        self.dram = dram_state.Dram(self.machine.dram, lines, commands)
        self._put_net(trace)
        self.fill()
        self._add_values(image)

    # ---- building blocks

    def alloc_values(self, n: int) -> int:
        self.n_values += n
        return self.n_values - n

    def beats(self, payload: Payload, count: int) -> int:
        """`count` beats of a payload, each knowing where its values lie."""
        if not self.values:
            return self.alloc(count * slot_words(payload))
        return self.put(self._blank(payload, count).reshape(-1))

    def _blank(self, payload: Payload, count: int) -> np.ndarray:
        n = n_values(payload)
        block = np.zeros((count, slot_words(payload)), np.int64)
        block[:, Beat.offsets["value"]] = self.alloc_values(n * count) + n * np.arange(count)
        return block

    def given_beats(self, payload: Payload, given: SourceBeats) -> int:
        """The beats of a source."""
        block = self._blank(payload, len(given.release))
        block[:, Beat.offsets["stop"]] = given.stop
        block[:, Beat.offsets["data"]] = given.data
        for i in np.flatnonzero(np.asarray(given.data)):
            meta, values = unpack_words(payload, given.payload[i])
            block[i, Beat.offsets["numbers"] :] = meta
            self.preset_values.append((int(block[i, Beat.offsets["value"]]), values))
        return self.put(block.reshape(-1))

    def channel_at(self, c: int) -> int:
        return self.channels + c * Channel.words

    def unit_at(self, u: int) -> int:
        return self.units + u * self.unit_words

    def counts_of(self, u) -> int:
        """Offset of the reference counts that a unit changes, or -1."""
        memory = u.kind.posts_to()
        return -1 if memory is None else self.counts[memory]

    # ---- what a run has

    def _act(self, u: MachineUnit) -> str:
        """The kind whose function a unit has."""
        kind = acts.act_of(u.kind.name)
        if kind is None:
            raise RunError(f"the model has no unit of kind {u.kind.name!r}", u.name)
        return kind

    def _put_counts(self, u: int) -> int:
        pages = self.same(Count, self.graph.units[u].kind.pages, {"zero_at": -1})
        words = {"unit": self.unit_at(u), "pages": pages}
        return self.records(Counts, [words])

    def _put_channel(self, c, recorded: bool) -> None:
        own = {}
        if recorded:
            words = beats.beat_words(c.payload)
            own = {"record": self.alloc(RECORD_ROOM * words), "record_words": words}
        members = leaves(c.payload)
        places = ring_places(c.depth)
        self.set(
            Channel,
            self.channel_at(c.id),
            own
            | {
                "id": c.id,
                "depth": c.depth,
                "last_take": -1,
                "missed": -1,
                "refused": -1,
                "trips": self.alloc(Trips.words * (STOP_DONE + 1)),
                "slots": self.beats(c.payload, places),
                "slot_words": slot_words(c.payload),
                "size": min(places, RING),
                "places": places,
                "producer": c.src[0],
                "consumer": c.dst[0],
                "n_numbers": 2 * len(members),
                "n_values": n_values(c.payload),
                "leaves": self.put([x for leaf in members for x in leaf]),
            },
        )

    def _put_unit(self, u: MachineUnit) -> None:
        ins = self.graph.inputs(u.id)
        outs = self.graph.outputs(u.id)
        state, _ = self.kinds[u.id]
        own = state.begin(self, u) if state.begin else {}
        common = {
            "id": u.id,
            "act": acts.address(self._act(u)),
            "ins": self.put([self.channel_at(c.id) for c in ins]),
            "n_ins": len(ins),
            "outs": self.put([self.channel_at(c.id) for c in outs]),
            "n_outs": len(outs),
            "busy_at": -1,
            "evaluated": -1,
            "port": -1,
        }
        self.set(state, self.unit_at(u.id), {**common, **own})

    def _put_net(self, trace: bool) -> None:
        graph = self.graph
        n_units = len(graph.units)
        wheel_words = (n_units + 64) // 64
        lines = max(self.machine.response_lanes, self.machine.dram.channels) + 256
        posters = sum(len(graph.posters(u)) for u in graph.memories())
        per_cycle = 2 * len(graph.channels) + self.machine.port_lanes + lines + posters
        log_rows = max(LOG_ROWS, 2 * per_cycle) if trace else 0
        sunk = [c.payload for c in graph.channels if graph.units[c.dst[0]].kind.name == "sink"]
        sunk_words = max((2 * len(leaves(p)) for p in sunk), default=0) + Sunk.offsets["numbers"]
        sunk_values = max(map(n_values, sunk), default=0)
        sunk_rows = SUNK_ROWS + n_units if sunk else 0
        everyone = np.zeros(64 * wheel_words, np.uint8)  # looks around in cycle 0
        everyone[:n_units] = 1
        wheel = self.put(np.packbits(everyone, bitorder="little").view(np.int64))
        self.alloc((WHEEL - 1) * wheel_words)
        self.set(
            Net,
            0,
            {
                "t": graph.t,
                "lanes": self.machine.port_lanes,
                "has_values": self.values,
                "open": len(graph.ends()),
                "had_open": len(graph.ends()),
                "wheel": wheel,
                "wheel_mask": WHEEL - 1,
                "wheel_words": wheel_words,
                "units": self.units,
                "unit_words": self.unit_words,
                "n_units": n_units,
                "ports": self.put([self.unit_at(u) for u in graph.ports]),
                "n_ports": len(graph.ports),
                "round_robin": self.machine.arbitration == "round_robin",
                "dram_unit": n_units,
                "delivered": self.alloc(lines),
                "first_request": -1,
                "traced": trace,
                "log": self.alloc(log_rows * Logged.words),
                "log_room": max(log_rows - per_cycle, 0),
                "sunk": self.alloc(sunk_rows * sunk_words),
                "sunk_words": sunk_words,
                "sunk_value": self.alloc_values(sunk_rows * sunk_values),
                "sunk_values": sunk_values,
                "sunk_room": max(sunk_rows - n_units, 0),
                "record_room": RECORD_ROOM,
            },
        )

    def _add_values(self, image: np.ndarray | None) -> None:
        self.V = np.zeros(max(self.n_values, 1) if self.values else 1, np.uint32)
        for at, block in self.preset_values if self.values else ():
            self.V[at : at + len(block)] = block
        self.M = np.zeros(2, np.uint16)
        if image is not None and len(image):
            self.M = image.view(np.uint16)
        self.D = self.dram.state
        self.net["values"] = self.V.ctypes.data
        self.net["memory"] = self.M.ctypes.data
        self.net["dram"] = self.D.ctypes.data

    # ---- to look at

    @property
    def net(self) -> np.void:
        return Net.of(self.S, 0)

    def channel(self, c: int) -> np.void:
        return Channel.of(self.S, self.channel_at(c))

    def shape(self, c: int) -> Shape:
        """Shape that a channel has carried, once it is drained."""
        channel = self.channel(c)
        count = int(channel["beats"]) - 1  # Done
        plain = not channel["bare"]
        trips = None
        if count > 0 and plain and not channel["ragged"]:
            trips = self._trips(channel, count)
        return Shape(count, plain, trips)

    def _trips(self, channel: np.void, count: int) -> tuple[int, ...] | None:
        """Trips of a stream whose groups are alike, but for open ones."""
        groups = self.every(Trips, int(channel["trips"]), STOP_DONE)
        rank = int(np.count_nonzero(groups["size"]))
        if not rank:
            return (count,)
        if channel["ended"] < count or groups["since"][1:rank].any():
            return None
        return (int(groups["since"][rank]), *map(int, groups["size"][:rank][::-1]))

    def unit(self, u: int) -> np.void:
        """A unit with the state of its kind."""
        return self.kinds[u][0].of(self.S, self.unit_at(u))

    def record_of(self, kind, at: int, i: int = 0) -> np.void:
        """The `i`-th of the records from a place on."""
        return kind.of(self.S, at + i * kind.words)

    def beat(self, c: int, i: int = 0) -> np.void:
        """The `i`-th beat of a channel."""
        channel = self.channel(c)
        slot = (channel["head"] + i) % channel["size"]
        return Beat.of(self.S, channel["slots"] + slot * channel["slot_words"])

    def all_units(self) -> np.ndarray:
        """Fields common to all units."""
        return self.every(Unit, self.units, len(self.graph.units), self.unit_words)
