"""The ``[array]`` table of a configuration: sites, slots, wires, tracks (docs/array.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...system.reading import is_list, is_table
from ..beat import BufferRef, Payload, Scalar, Selector, Tile, leaves
from ..errors import ConfigError, nearest
from ..kinds import KINDS, OneOf, Port
from ..limits import within

PLANES: tuple[str, ...] = ("tile", "small")
"""Of the network: tiles; scalars, selectors and references to buffers."""
SMALL_BITS = 64
"""Widest payload of the small plane."""
NUMBERS = frozenset(
    "ack address buffer count drive padding read reference selector start tokens".split()
)  # ports by name
"""Ports that are on the small plane whatever the data of their slot are."""
HOP_PLACES = 2
INPUT_PLACES = 8
BUFFER_PLACES = 512
"""Places of the FIFO of a switch input, of a slot's input, of a `hop` slot's input, at most."""
BUFFER_KIND = "hop"

_SLOT_FIELDS = ("name", "kinds", "data", "local")
_SITE_FIELDS = ("slots", "wires", "posts")
_FIELDS = ("grid", "tracks", "site")
_POST = re.compile(r"(\w+) -> (\w+)")
_WIRE = re.compile(r"(\w+)\.(\w+) -> (\w+)\.(\w+)")
MOST_TRACKS = 32
"""Of a link in each direction, on one plane."""


def plane_of(payload: Payload) -> str | None:
    """The plane that carries a payload; None: none does."""
    if isinstance(payload, Tile):
        return "tile"
    numbers = all(isinstance(x, (Scalar, Selector, BufferRef)) for x in leaves(payload))
    return "small" if numbers and payload.bits <= SMALL_BITS else None


def _each(bound: object) -> list[object]:
    return list(bound) if is_list(bound) else [bound]


@dataclass(frozen=True)
class Pin:
    """A physical input or output of a slot: ``index`` counts those of its plane."""

    plane: str
    index: int

    def __str__(self) -> str:
        return f"{self.plane}{self.index}"


@dataclass(frozen=True)
class Slot:
    """Hardware that can be one unit of certain kinds."""

    name: str  # in its site
    kinds: tuple[str, ...]  # names of the kinds
    data: str  # the plane of those ports whose payload the kind leaves open
    # bounds, by parameter of these kinds; each has the structure of the parameter
    params: Mapping[str, Any]
    local: tuple[str, ...] = ()  # ports that only wires of the site reach

    def bounds(self, kind: str) -> dict[str, Any]:
        """The bounds that are of parameters of one of its kinds."""
        return {k: v for k, v in self.params.items() if k in KINDS[kind].params}

    def ports(self, kind: str, outputs: bool) -> list[Port]:
        """Ports of the units of a kind that the slot can be, each name once."""
        bounds = {k: KINDS[kind].params[k].setting.widest(v) for k, v in self.bounds(kind).items()}
        found: dict[Port, None] = {}
        for fn in _each(self.params.get("fn")):
            made = KINDS[kind].of({"tuple_in": False} | bounds | {"fn": fn})
            found |= dict.fromkeys(made.outputs() if outputs else made.inputs())
        return list(found)

    def plane(self, port: Port) -> str:
        """The plane of a port."""
        return "small" if port.name in NUMBERS else self.data

    def pins_of(self, kind: str, outputs: bool) -> dict[str, int]:
        """The number of the pin that each port of a kind has, by the port's member name: the ports
        of a plane take its pins in order.
        """
        pins = self.outputs if outputs else self.inputs
        used: dict[str, int] = dict.fromkeys(PLANES, 0)
        found: dict[str, int] = {}
        for port in self.ports(kind, outputs):
            plane = self.plane(port)
            found[port.member] = pins.index(Pin(plane, used[plane]))
            used[plane] += 1
        return found

    def _pins(self, outputs: bool) -> tuple[Pin, ...]:
        most: dict[str, int] = dict.fromkeys(PLANES, 0)
        for kind in self.kinds:
            planes = [self.plane(p) for p in self.ports(kind, outputs)]
            for plane in PLANES:
                most[plane] = max(most[plane], planes.count(plane))
        return tuple(Pin(plane, k) for plane in PLANES for k in range(most[plane]))

    @cached_property
    def inputs(self) -> tuple[Pin, ...]:
        """Physical inputs."""
        return self._pins(outputs=False)

    @cached_property
    def outputs(self) -> tuple[Pin, ...]:
        """Physical outputs."""
        return self._pins(outputs=True)

    def pin(self, port: str, outputs: bool) -> int | None:
        """The pin that has a port's name in one of its kinds."""
        for kind in self.kinds:
            pins = self.pins_of(kind, outputs)
            if port in pins:
                return pins[port]
        return None

    def switched(self, outputs: bool) -> list[int]:
        """Pins that meet the switch."""
        wired = {self.pin(port, outputs) for port in self.local}
        pins = self.outputs if outputs else self.inputs
        return [i for i in range(len(pins)) if i not in wired]

    @property
    def places(self) -> int:
        """Places of the FIFO of each input, at most."""
        return BUFFER_PLACES if BUFFER_KIND in self.kinds else INPUT_PLACES

    @property
    def offchip(self) -> bool:
        """True if it has a port to off-chip memory."""
        return any(KINDS[k].offchip for k in self.kinds)


@dataclass(frozen=True)
class Wire:
    """A local wire of a site, from an output pin of a slot to an input pin of one, both by their
    number in the site and in the slot.
    """

    src: int
    output: int
    dst: int
    input: int


class Post(NamedTuple):
    """Link from a slot that changes reference counts to the scratchpad of these, both by their
    number in the site.
    """

    src: int
    dst: int


@dataclass(frozen=True)
class Site:
    """A kind of place of the grid."""

    letter: str
    slots: tuple[Slot, ...]
    wires: tuple[Wire, ...]
    posts: tuple[Post, ...] = ()


@dataclass(frozen=True)
class Array:
    """The fixed hardware of a configuration."""

    name: str
    grid: tuple[str, ...]  # the letter of each site, a text a row
    sites: Mapping[str, Site]  # the kinds of site, by letter
    tracks: Mapping[str, int]  # of a link in each direction, by plane
    machine: Any  # the machine table of the configuration: what units are

    @property
    def rows(self) -> int:
        return len(self.grid)

    @property
    def cols(self) -> int:
        return len(self.grid[0])

    def site(self, row: int, col: int) -> Site:
        """The kind of site at a place of the grid."""
        return self.sites[self.grid[row][col]]

    def places(self) -> Iterator[tuple[int, int]]:
        """Row and column of all sites."""
        return ((r, c) for r in range(self.rows) for c in range(self.cols))


def from_table(data: object, name: str, where: str, machine: Any) -> Array:
    """Build and check an array from its table, of units of a
    :class:`~penstock.machine.config.Machine`.

    Raises
    ------
    ConfigError
        Naming the field and the rule.
    """
    data = _table(data, where)
    _known(data, _FIELDS, where)
    tables = _table(data.get("site", {}), f"{where}.site")
    tracks = _table(data.get("tracks", {}), f"{where}.tracks")
    _known(tracks, PLANES, f"{where}.tracks")
    count = {
        p: within(p, tracks.get(p), range(1, MOST_TRACKS + 1), f"{where}.tracks", ConfigError)
        for p in PLANES
    }
    sites = {x: _site(x, table, f"{where}.site.{x}") for x, table in tables.items()}
    return Array(name, _grid(data.get("grid"), sites, f"{where}.grid"), sites, count, machine)


def _known(data: Mapping[str, Any], fields: tuple[str, ...], where: str) -> None:
    for key in data:
        if key not in fields:
            raise ConfigError(
                f"unknown field {key!r}", where, remedy=nearest(key, fields, "known fields:")
            )


def _table(data: object, where: str) -> dict[str, Any]:
    if not is_table(data):
        raise ConfigError(f"must be a table, not {data!r}"[:120], where)
    return data


def _texts(data: object, where: str) -> tuple[str, ...]:
    texts = [x for x in data if isinstance(x, str)] if is_list(data) else []
    if not is_list(data) or len(texts) < len(data):
        raise ConfigError(f"must be a list of texts, not {data!r}"[:120], where)
    return tuple(texts)


def _grid(data: object, sites: Mapping[str, Site], where: str) -> tuple[str, ...]:
    grid = _texts(data, where)
    if not grid or not grid[0] or len({len(row) for row in grid}) > 1:
        raise ConfigError("must have at least one row, and rows of one length", where)
    for row in grid:
        for letter in row:
            if letter not in sites:
                raise ConfigError(
                    f"has the letter {letter!r}",
                    where,
                    remedy=nearest(letter, sorted(sites), "sites that are described:"),
                )
    return grid


def _site(letter: str, data: object, where: str) -> Site:
    data = _table(data, where)
    _known(data, _SITE_FIELDS, where)
    if len(letter) != 1:
        raise ConfigError("the name of a site is one letter of the grid", where)
    tables = data.get("slots", [])
    if not is_list(tables):
        raise ConfigError(f"must be a list of tables, not {tables!r}"[:120], f"{where}.slots")
    slots = tuple(_slot(x, f"{where}.slots[{i}]") for i, x in enumerate(tables))
    names = [s.name for s in slots]
    if twice := [n for i, n in enumerate(names) if n in names[:i]]:
        raise ConfigError(f"has two slots named {twice[0]!r}", where)
    texts = _texts(data.get("wires", []), f"{where}.wires")
    wires = tuple(_wire(t, slots, f"{where}.wires") for t in texts)
    if twice := [t for i, t in enumerate(texts) if wires[i] in wires[:i]]:
        raise ConfigError(f"has the wire {twice[0]!r} twice", f"{where}.wires")
    for k, slot in enumerate(slots):
        _wired(k, slot, wires, f"{where}.slots[{k}]")
    entries = _texts(data.get("posts", []), f"{where}.posts")
    posts = tuple(_post(t, slots, f"{where}.posts") for t in entries)
    sources = {p.src for p in posts}
    joined = tuple(_posting(s) if k in sources else s for k, s in enumerate(slots))
    return Site(letter, joined, wires, posts)


def _posting(slot: Slot) -> Slot:
    """A slot whose units may change reference counts."""
    changed = {KINDS[k].posts for k in slot.kinds if KINDS[k].posts}
    return replace(slot, params={**slot.params, **dict.fromkeys(changed, 0)})


def _wired(number: int, slot: Slot, wires: tuple[Wire, ...], where: str) -> None:
    """Check that a wire meets every local port of a slot."""
    met = {(w.src, True, w.output) for w in wires} | {(w.dst, False, w.input) for w in wires}
    for port in slot.local:
        pins = [(number, side, slot.pin(port, side)) for side in (True, False)]
        if not met.intersection(pins):
            raise ConfigError(
                f"local names {port!r}, and no wire of the site meets it",
                where,
                remedy="a local port meets no switch: give it a wire, or leave it out of local",
            )


def _bounded(kinds: tuple[str, ...], params: Mapping[str, Any], where: str) -> None:
    """Check that kinds and bounds of a slot do not contradict."""
    if twice := [k for i, k in enumerate(kinds) if k in kinds[:i]]:
        raise ConfigError(f"has the kind {twice[0]!r} twice", where)
    sides = {KINDS[k].offchip for k in kinds} - {""}
    if len(sides) > 1:
        raise ConfigError(
            f"has kinds that {' and that '.join(sorted(sides))} off-chip memory",
            where,
            remedy="a port to the memory has one direction: make two slots of it",
        )
    for kind in kinds:
        for key, x in KINDS[kind].params.items():
            bound = params.get(key)
            fits = not isinstance(bound, int) or bound >= 0
            try:
                if key in params:
                    x.setting.registers(bound)
                    fits = fits and x.setting.allows(bound)
            except (AttributeError, KeyError, TypeError, ValueError):
                fits = False
            if not fits:
                raise ConfigError(f"{key} = {bound!r} is no bound of {kind}", where)


def _slot(data: object, where: str) -> Slot:
    data = _table(data, where)
    name = data.get("name")
    kinds = _texts(data.get("kinds", [name]), f"{where}.kinds")
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"name must be an identifier, not {name!r}", where)
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(
                f"has the kind {kind!r}", where, remedy=nearest(kind, sorted(KINDS), "known kinds:")
            )
    params = {k: v for k, v in data.items() if k not in _SLOT_FIELDS}
    for kind in kinds:
        if KINDS[kind].posts and KINDS[kind].posts in params:
            raise ConfigError(
                f"has the parameter {KINDS[kind].posts}",
                where,
                "which scratchpad's counts a slot changes says its site",
                f'write posts = ["{name} -> scratchpad"] in the site',
            )
    _known(params, tuple(p for k in kinds for p in KINDS[k].params), where)
    for kind in kinds:
        for key, x in KINDS[kind].params.items():
            if isinstance(x.setting, OneOf) and x.default is None and is_list(params.get(key)):
                params[key] = [*params[key], None]  # a table has no word for it
    _bounded(kinds, params, where)
    plane = data.get("data", "tile")
    if plane not in PLANES:
        raise ConfigError(f"data must be one of {', '.join(PLANES)}, not {plane!r}", where)
    slot = Slot(name, kinds, plane, params, _texts(data.get("local", []), f"{where}.local"))
    try:
        pins = (*slot.inputs, *slot.outputs)
    except (AttributeError, TypeError):
        raise ConfigError(
            f"does not say how many ports a unit of {', '.join(kinds)} has",
            where,
            remedy="give the parameter that is their number, as n = 2",
        ) from None
    if not pins:
        raise ConfigError("has neither inputs nor outputs", where)
    for port in slot.local:
        if slot.pin(port, outputs=True) is None and slot.pin(port, outputs=False) is None:
            raise ConfigError(f"local names {port!r}, which no kind of it has", where)
    return slot


def _post(text: str, slots: tuple[Slot, ...], where: str) -> Post:
    match = _POST.fullmatch(text)
    if match is None:
        raise ConfigError(f"must be like 'copies -> scratchpad', not {text!r}", where)
    ends = [_numbered(name, text, slots, where) for name in match.groups()]
    if not any(KINDS[k].posts for k in slots[ends[0]].kinds):
        raise ConfigError(f"{text!r}: no unit of slot {match[1]} changes reference counts", where)
    if not any(KINDS[k].memory for k in slots[ends[1]].kinds):
        raise ConfigError(f"{text!r}: slot {match[2]} is no scratchpad", where)
    return Post(*ends)


def _numbered(name: str, text: str, slots: tuple[Slot, ...], where: str) -> int:
    """The number of a slot that a text names."""
    for k, slot in enumerate(slots):
        if slot.name == name:
            return k
    known = [s.name for s in slots]
    raise ConfigError(
        f"{text!r} names the slot {name!r}", where, remedy=nearest(name, known, "slots:")
    )


def _wire(text: str, slots: tuple[Slot, ...], where: str) -> Wire:
    match = _WIRE.fullmatch(text)
    if match is None:
        raise ConfigError(f"must be like 'repeat.copies -> matmul.a', not {text!r}", where)
    ends: list[int] = []
    pins: list[Pin] = []
    for name, port, outputs in ((match[1], match[2], True), (match[3], match[4], False)):
        k = _numbered(name, text, slots, where)
        pin = slots[k].pin(port, outputs)
        if pin is None:
            side = "output" if outputs else "input"
            raise ConfigError(f"{text!r}: slot {name} has no {side} {port!r}", where)
        pins.append((slots[k].outputs if outputs else slots[k].inputs)[pin])
        ends += [k, pin]
    if pins[0].plane != pins[1].plane:
        raise ConfigError(f"{text!r} joins the planes {pins[0].plane} and {pins[1].plane}", where)
    return Wire(*ends)
