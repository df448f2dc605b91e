"""A number for every physical thing of an array: slots, wires, inputs and outputs of switches.

Numbers count from 0, by site in row-major order. A switch input is a FIFO of ``HOP_PLACES`` places
and the hop behind it. A link's track is a switch output of one site and the switch input of its
neighbour that it leads to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .description import PLANES, Array, Post, Slot
from .variants import Variant, variants

SIDES = ("north", "east", "south", "west")
STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


@dataclass(frozen=True)
class PlacedSlot:
    """A slot at its place; ``index`` counts the slots of its site."""

    id: int
    row: int
    col: int
    index: int
    slot: Slot

    @property
    def name(self) -> str:
        return f"{self.slot.name}_{self.row}_{self.col}"


@dataclass(frozen=True)
class PlacedWire:
    """A local wire at its place, between slots by their id and pins by their number."""

    id: int
    src: tuple[int, int]
    dst: tuple[int, int]


@dataclass(frozen=True)
class SwitchPort:
    """An input or an output of a site's switch on one plane: a track of a side, or a slot's pin."""

    id: int
    plane: str
    row: int
    col: int
    # side, track: of a link; ``side`` is empty for a pin
    side: str = ""
    track: int = -1
    # slot, pin: id of a slot and number of its output (for a switch input) or input (for a switch
    # output); -1 for a link
    slot: int = -1
    pin: int = -1

    @property
    def label(self) -> str:
        """The port's name in its switch."""
        if self.side:
            return f"{self.plane}_{self.side}_{self.track}"
        return f"{self.plane}_slot{self.slot}_{self.pin}"

    @property
    def name(self) -> str:
        """The port's name in the array."""
        return f"{self.row}_{self.col}_{self.label}"


class Network:
    """The physical things of an array.

    Attributes
    ----------
    slots, wires, inputs, outputs
        By id.
    posts
        Which slots change the reference counts of which.
    leads_to
        The switch input behind each switch output that is a link's; -1 for those to slots.
    """

    def __init__(self, array: Array):
        self.array = array
        self._variants: dict[int, tuple[Variant, ...]] = {}
        self.slots: list[PlacedSlot] = []
        self.wires: list[PlacedWire] = []
        self.posts: list[Post] = []
        self.inputs: list[SwitchPort] = []
        self.outputs: list[SwitchPort] = []
        self._of_site: dict[tuple[int, int], list[int]] = {}
        for row, col in array.places():
            self._add_site(row, col)
        for plane in PLANES:
            for row, col in array.places():
                self._add_switch(plane, row, col)
        self._input = {_key(p): p.id for p in self.inputs}
        self._output = {_key(p): p.id for p in self.outputs}
        self.leads_to = [self._behind(p) for p in self.outputs]

    def _add_site(self, row: int, col: int) -> None:
        site = self.array.site(row, col)
        first = len(self.slots)
        for k, slot in enumerate(site.slots):
            self.slots.append(PlacedSlot(first + k, row, col, k, slot))
        self._of_site[row, col] = list(range(first, len(self.slots)))
        for wire in site.wires:
            src = (first + wire.src, wire.output)
            dst = (first + wire.dst, wire.input)
            self.wires.append(PlacedWire(len(self.wires), src, dst))
        self.posts += [Post(first + src, first + dst) for src, dst in site.posts]

    def _add_switch(self, plane: str, row: int, col: int) -> None:
        for side in SIDES:
            if self.neighbour(row, col, side) is None:
                continue
            for track in range(self.array.tracks[plane]):
                place = (plane, row, col, side, track)
                self.inputs.append(SwitchPort(len(self.inputs), *place))
                self.outputs.append(SwitchPort(len(self.outputs), *place))
        for s in self._of_site[row, col]:
            slot = self.slots[s].slot
            for pin in slot.switched(outputs=True):
                if slot.outputs[pin].plane == plane:
                    number = len(self.inputs)
                    self.inputs.append(SwitchPort(number, plane, row, col, slot=s, pin=pin))
            for pin in slot.switched(outputs=False):
                if slot.inputs[pin].plane == plane:
                    number = len(self.outputs)
                    self.outputs.append(SwitchPort(number, plane, row, col, slot=s, pin=pin))

    def _behind(self, output: SwitchPort) -> int:
        place = self.neighbour(output.row, output.col, output.side) if output.side else None
        if place is None:
            return -1
        key = (output.plane, *place, OPPOSITE[output.side], output.track, -1, -1)
        return self._input[key]

    def neighbour(self, row: int, col: int, side: str) -> tuple[int, int] | None:
        """Row and column of the site on a side; None at the edge."""
        down, right = STEPS[side]
        place = (row + down, col + right)
        inside = 0 <= place[0] < self.array.rows and 0 <= place[1] < self.array.cols
        return place if inside else None

    def slots_of(self, row: int, col: int) -> list[int]:
        """Ids of the slots of a site."""
        return self._of_site[row, col]

    def injection(self, slot: int, pin: int) -> int | None:
        """The switch input of a slot's output; None if only wires reach it."""
        s = self.slots[slot]
        key = (s.slot.outputs[pin].plane, s.row, s.col, "", -1, slot, pin)
        return self._input.get(key)

    def ejection(self, slot: int, pin: int) -> int | None:
        """The switch output to a slot's input; None if only wires reach it."""
        s = self.slots[slot]
        key = (s.slot.inputs[pin].plane, s.row, s.col, "", -1, slot, pin)
        return self._output.get(key)

    def link(self, plane: str, row: int, col: int, side: str, track: int) -> int:
        """The switch output of a link's track."""
        return self._output[plane, row, col, side, track, -1, -1]

    def may_turn(self, into: SwitchPort, out: SwitchPort) -> bool:
        """True if a switch joins an input to an output: all but back through the same side."""
        same = (into.plane, into.row, into.col) == (out.plane, out.row, out.col)
        return same and (not into.side or into.side != out.side)

    def variants(self, slot: Slot) -> tuple[Variant, ...]:
        """The units that a slot can be."""
        if id(slot) not in self._variants:
            self._variants[id(slot)] = variants(slot, self.array.machine)
        return self._variants[id(slot)]

    def posters(self, scratchpad: int) -> list[int]:
        """Slots that change the reference counts of a slot, by id."""
        return [p.src for p in self.posts if p.dst == scratchpad]

    @cached_property
    def offchip(self) -> list[int]:
        """Ids of the slots with a port to off-chip memory."""
        return [s.id for s in self.slots if s.slot.offchip]

    def wires_between(self, src: tuple[int, int], dst: tuple[int, int]) -> PlacedWire | None:
        """The wire from a slot's output to a slot's input, both as (slot, pin)."""
        return self._wire.get((src, dst))

    @cached_property
    def _wire(self) -> dict[tuple[tuple[int, int], tuple[int, int]], PlacedWire]:
        return {(w.src, w.dst): w for w in self.wires}


def _key(p: SwitchPort) -> tuple[str, int, int, str, int, int, int]:
    return (p.plane, p.row, p.col, p.side, p.track, p.slot, p.pin)
