"""Explains a run that cannot finish: units that wait for each other, their channels, and the depth
that would free them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import networkx as nx

from ..machine.beat import STOP_DONE, BufferRef, Payload, Tuple
from ..machine.config import Config, Machine
from ..machine.deadlock import Deadlock, DeadlockError, Stall
from ..machine.kinds import Kind
from ..machine.spilling import spilling, without
from ..machine.trace import SourceBeats
from ..machine.unitgraph import UnitGraph
from . import depths, engine
from .layout import Layout
from .units.routing import Arrival
from .units.scratchpad_state import Writer

MOST_PAGES = 1 << 12
"""Pages of a scratchpad up to which enough of them are looked for."""
MOST_SPILLED = 1 << 20
"""Bytes off-chip up to which enough of them are looked for."""


@dataclass(frozen=True)
class Wait:
    """One place that waits for another."""

    # waiter, holder: (unit, port); the port tells the writers and the readers of a scratchpad apart
    # and is 0 for all other units
    waiter: tuple[int, int]
    holder: tuple[int, int]
    # what the waiter looked at in vain when it was last able to act: an input without a beat, or an
    # output without a slot. None: a page.
    channel: int | None = None


def _place(graph: UnitGraph, unit: int, port: int, outgoing: bool) -> tuple[int, int]:
    """The part of a unit that a port belongs to: itself, or a writer or reader of a scratchpad,
    known by its output.
    """
    u = graph.units[unit]
    if not u.kind.memory:
        return unit, 0
    outs = u.kind.clients
    if outgoing or port < outs:
        return unit, port
    with_reference = [
        len(u.kind.writers) + r for r, reader in enumerate(u.kind.readers) if "ref" in reader
    ]
    return unit, with_reference[port - outs]


def waits(graph: UnitGraph, state: Layout) -> list[Wait]:
    """Waits between units, as every unit saw them when it was last evaluated: for a slot of an
    output if it found none, else for beats.
    """
    slots = []
    beats = []
    graph = without(graph)  # what moves tiles off-chip and back waits for nobody
    for c in graph.channels:
        channel = state.channel(c.id)
        producer = _place(graph, *c.src, True)
        consumer = _place(graph, *c.dst, False)
        refused = channel["refused"] == state.unit(c.src[0])["evaluated"]
        if refused and channel["level"] == c.depth:
            slots.append(Wait(producer, consumer, c.id))
        missed = channel["missed"] == state.unit(c.dst[0])["evaluated"]
        if missed and channel["level"] == 0:
            beats.append(Wait(consumer, producer, c.id))
    blocked = {w.waiter for w in slots}
    pages = []
    for u in graph.memories():
        n = len(graph.units[u].kind.writers)
        writers = [
            c.dst[1]
            for c in graph.inputs(u)
            if c.dst[1] < n
            and state.channel(c.id)["level"]
            and (u, c.dst[1]) not in blocked
            and (state.unit(u)["n_free"] == 0 or _at_limit(state, u, c.dst[1]))
        ]
        readers = range(n, graph.units[u].kind.clients)
        pages += [Wait((u, w), (u, r)) for w in writers for r in readers]
    return slots + [w for w in beats if w.waiter not in blocked] + pages


def _at_limit(state: Layout, unit: int, writer: int) -> bool:
    """True if a writer of a scratchpad holds as many buffers as it may, none of them open."""
    w = state.record_of(Writer, state.unit(unit)["writers"], writer)
    return w["first"] < 0 and w["holds"] == w["limit"]


def circle(found: Iterable[Wait]) -> list[Wait]:
    """Places that wait for each other in a circle; empty if there is none."""
    g = nx.MultiDiGraph()
    for w in found:
        if w.waiter != w.holder:
            g.add_edge(w.waiter, w.holder, wait=w)
    try:
        return [g.edges[a, b, key]["wait"] for a, b, key in nx.find_cycle(g)]
    except nx.NetworkXNoCycle:
        return []


def explain(
    graph: UnitGraph, config: Config, state: Layout, sources=None, sinks=None
) -> DeadlockError:
    """The error of a run in which nothing will happen any more."""
    levels = [int(state.channel(c.id)["level"]) for c in graph.channels]
    around = circle(waits(graph, state))
    parts = [_tell(graph, state, w, levels) for w in around]
    held = tuple(
        graph.units[u].name
        for u in dict.fromkeys(w.waiter[0] for w in around)
        if _holds_back(graph, state, u)
    )
    parts += [
        f"{name} holds a beat back until the next shows whether its group goes on" for name in held
    ]
    why = "units wait for each other"
    if not parts:
        names = [u.name for u in graph.units]
        why = f"no beat moves towards {', '.join(names[u] for u in graph.ends())}"
        parts = [
            f"{c.name} ({names[c.src[0]]} to {names[c.dst[0]]}) holds {n} of {c.depth} beats"
            for c, n in zip(graph.channels, levels, strict=True)
            if n
        ]
    full = [
        graph.channels[w.channel]
        for w in around
        if w.channel is not None and levels[w.channel] == graph.channels[w.channel].depth
    ]
    last = max(int(state.unit(u.id)["evaluated"]) for u in graph.units)

    def ends(other: UnitGraph) -> bool:
        return _finishes(other, config, sources or {}, sinks or {})

    def finishes(chosen: Mapping[int, int]) -> bool:
        return ends(
            replace(
                graph,
                channels=tuple(replace(c, depth=chosen.get(c.id, c.depth)) for c in graph.channels),
            )
        )

    uniform = depths.smallest(graph.channels, finishes)
    reliefs = () if uniform is None else depths.reliefs(graph, graph.channels, finishes, full)
    found = Deadlock(
        last,
        tuple(_stall(graph, w, levels) for w in around),
        uniform,
        reliefs,
        _buffers(graph, config.machine.buffers, state, ends),
        _pages(graph, config.machine.buffers, state, around, ends),
        held,
        _spill(graph, config.machine, state, around, ends),
    )
    over = ended(graph, state) if uniform is None else {}
    starved = next(iter(over), "")
    return DeadlockError(
        found, over.get(starved, why), f"graph {graph.name}", remedy(found), parts, starved=starved
    )


def _holds_back(graph: UnitGraph, state: Layout, unit: int) -> bool:
    """True if a unit is a flatten whose held beat waits for the next."""
    return graph.units[unit].kind.name == "flatten" and bool(state.unit(unit)["open"])


def ended(graph: UnitGraph, state: Layout) -> dict[str, str]:
    """Units, by name and with a clause, that take from an input whose stream has ended: nothing
    comes there any more, however deep channels are.
    """
    out = {}
    for u in graph.units:
        if u.kind.name == "reassemble":
            *inputs, selector = graph.inputs(u.id)
            selected = _head(state, selector.id)
            if selected is None or _is_done(selected):
                continue
            wanted = [i for i in range(len(inputs)) if selected["numbers"][i >> 6] >> (i & 63) & 1]
            heads = {i: _head(state, inputs[i].id) for i in wanted}
            over = [
                i
                for i, at in heads.items()
                if at is not None and _is_done(at) and not _given(state, u.id, i)
            ]
            for i in over[:1]:
                out[u.name] = (
                    f"{u.name} is told to take from `{graph.input_port(inputs[i])}` "
                    f"({graph.units[inputs[i].src[0]].name}), whose stream has ended"
                )
    return out


def _is_done(beat: np.void) -> bool:
    return beat["stop"] == STOP_DONE and not beat["data"]


def _given(state: Layout, unit: int, i: int) -> bool:
    """True if an input of a reassemble has given its unit to the selector at hand."""
    return bool(state.record_of(Arrival, state.unit(unit)["inputs"], i)["given"])


def _head(state: Layout, channel: int) -> np.void | None:
    """A channel's first beat."""
    return state.beat(channel) if state.channel(channel)["level"] else None


def _buffers(
    graph: UnitGraph, now: int, state: Layout, ends: Callable[[UnitGraph], bool]
) -> int | None:
    """The smallest ``machine.buffers`` that frees a run with ``now``, where writers hold as many as
    they may and there are more pages.
    """
    pads = {u: graph.units[u].kind for u in graph.memories()}
    held = [
        p.pages
        for u, p in pads.items()
        for w, n in enumerate(p.limit)
        if n < p.pages and _at_limit(state, u, w)
    ]
    if not held or not now:
        return None
    return depths.least(
        now,
        lambda buffers: ends(_with_scratchpads(graph, lambda pages: (pages, buffers))),
        2 * max(held),
    )


def _pages(
    graph: UnitGraph,
    buffers: int,
    state: Layout,
    around: Iterable[Wait],
    ends: Callable[[UnitGraph], bool],
) -> int | None:
    """The smallest ``machine.pages`` that frees a run, where a writer of the circle waits for a
    scratchpad without a free one.
    """
    used_up = [
        graph.units[w.waiter[0]].kind.pages
        for w in around
        if w.channel is None and not state.unit(w.waiter[0])["n_free"]
    ]
    if not used_up:
        return None
    return depths.least(
        min(used_up),
        lambda n: ends(
            _with_scratchpads(graph, lambda pages: (max(pages, n), buffers or max(pages, n)))
        ),
        MOST_PAGES,
    )


def _spill(
    graph: UnitGraph,
    machine: Machine,
    state: Layout,
    around: Iterable[Wait],
    ends: Callable[[UnitGraph], bool],
) -> int | None:
    """The smallest ``machine.spill`` that frees a run, of powers of two times a block, where a
    writer of the circle waits for a scratchpad without a free page.
    """
    full = any(w.channel is None and not state.unit(w.waiter[0])["n_free"] for w in around)
    block = machine.t * machine.dram.line_bytes
    sizes = [block << k for k in range((MOST_SPILLED // block).bit_length())]
    larger = [n for n in sizes if n > machine.spill]

    def frees(spill: int) -> bool:
        return ends(spilling(without(graph), replace(machine, spill=spill)))

    if not full or not larger or not frees(larger[-1]):
        return None
    return next(n for n in larger if frees(n))


def _with_scratchpads(graph: UnitGraph, size: Callable[[int], tuple[int, int]]) -> UnitGraph:
    """The graph with other pages, and buffers that a writer may hold, of its scratchpads: ``size``
    of the pages that one has.
    """

    def changed(pad: Kind) -> Kind:
        pages, buffers = size(pad.pages)
        return pad.but(pages=pages, limit=[min(pages, buffers)] * len(pad.limit))

    def carried(payload: Payload) -> Payload:
        if isinstance(payload, Tuple):
            return Tuple(tuple(map(carried, payload.members)))
        return BufferRef(size(payload.pages)[0]) if isinstance(payload, BufferRef) else payload

    pads = set(graph.memories())
    return replace(
        graph,
        units=tuple(replace(u, kind=changed(u.kind)) if u.id in pads else u for u in graph.units),
        channels=tuple(replace(c, payload=carried(c.payload)) for c in graph.channels),
    )


def remedy(found: Deadlock) -> str:
    """Remedy that frees a run, in words."""
    fields = [
        f"machine.{name} = {n} frees it"
        for name, n in (("pages", found.pages), ("buffers", found.buffers))
        if n is not None
    ]
    if found.spill is not None:
        fields.append(f"buffers that spill free it: --machine spill={found.spill}")
    fields += [
        f"{name} holds nothing back where the sizes that it merges are declared with least=1: no "
        "group is empty"
        for name in found.held
    ]
    return "; ".join(
        fields + ([depths_that_free(found)] if found.uniform is not None or not fields else [])
    )


def depths_that_free(found: Deadlock) -> str:
    """The depths that free a run, in words."""
    if found.uniform is None:
        return f"no channel depth up to {depths.DEEPEST} frees it"
    text = f"channels of depth {found.uniform} free it"
    if found.reliefs:
        best = found.reliefs[0]
        text += (
            f"; so does depth {best.depth} of {best.channel} alone"
            if best.count == 1
            else f"; so does depth {best.depth} of the {best.count} channels like {best.channel}"
        )
    return text


def _stall(graph: UnitGraph, w: Wait, levels: list[int]) -> Stall:
    unit = graph.units[w.waiter[0]]
    on = graph.units[w.holder[0]].name
    if w.channel is None:
        return Stall(unit.name, unit.kind.name, "page", "", 0, 0, on)
    c = graph.channels[w.channel]
    return Stall(
        unit.name,
        unit.kind.name,
        "room" if levels[c.id] else "beat",
        c.name,
        levels[c.id],
        c.depth,
        on,
    )


def _tell(graph: UnitGraph, state: Layout, w: Wait, levels: list[int]) -> str:
    def name(place):
        u = graph.units[place[0]]
        if not u.kind.memory:
            return u.name
        n = len(u.kind.writers)
        return (
            f"writer {place[1]} of {u.name}"
            if place[1] < n
            else f"reader {place[1] - n} of {u.name}"
        )

    if w.channel is None:
        p = graph.units[w.waiter[0]].kind
        why = (
            f"it holds {p.limit[w.waiter[1]]} buffers, as many as it may"
            if state.unit(w.waiter[0])["n_free"]
            else f"none of {p.pages} is free"
        )
        return f"{name(w.waiter)} waits for a page that {name(w.holder)} may free ({why})"
    c = graph.channels[w.channel]
    holder = graph.units[w.holder[0]].name
    how = (
        f"full channel {c.name} into `{graph.input_port(c)}` of {holder}"
        if levels[c.id]
        else f"empty channel {c.name} from `{graph.output_port(c)}` of {holder}"
    )
    return f"{name(w.waiter)} waits for the {how} ({levels[c.id]} of {c.depth} beats)"


def _finishes(
    graph: UnitGraph,
    config: Config,
    sources: Mapping[int, SourceBeats],
    sinks: Mapping[int, np.ndarray],
) -> bool:
    state = Layout(graph, config, None, False, sources, sinks)
    while (status := engine.advance(state.address, 10**7)) == engine.FULL:
        state.net["sunk_count"] = 0
    return status == engine.DONE
