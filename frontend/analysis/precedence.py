"""The events of a unit graph: every unit's rule, in an order in which what a unit is fed comes
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ...machine.kinds import Kind
from ...machine.unitgraph import Channel, Unit, UnitGraph, ends_of_all
from . import events_memory
from .events import RULES, Events, Machine, done, first, last
from .events_units import beat_for_beat
from .flows import Flow


def events(
    graph: UnitGraph,
    machine: Machine,
    given: Mapping[int, Flow] | None = None,
    releases: Mapping[int, Any] | None = None,
) -> Events:
    """The events of a unit graph.

    ``given``: beats that are known, by channel; ``releases``: release cycles of sources and sinks,
    by unit.
    """
    found = Events(graph, machine, given or {}, releases or {})
    ins, outs = ends_of_all(graph)
    for unit, reads in _in_order(graph, ins, outs):
        kind = unit.kind
        if kind.memory:
            client = events_memory.read if reads else events_memory.write
            client(found, unit, kind, ins[unit.id], outs[unit.id])
        else:
            rule = RULES.get(kind.name, beat_for_beat if kind.beat_for_beat else _other)
            rule(found, unit, kind, [c.id for c in ins[unit.id]], [c.id for c in outs[unit.id]])
        _keep_whole(found, unit, kind, ins[unit.id], outs[unit.id])
    for c in graph.channels:
        _channel(found, c)
    return found


WHOLE = frozenset(
    "map matmul accum broadcast hop repeat zip flatten promote reshape scratchpad split merge "
    "row_reduce expand pace".split()
)
"""Kinds that make tiles with every row and column of such tiles."""


def _keep_whole(e: Events, u: Unit, kind: Any, ins: list[Channel], outs: list[Channel]) -> None:
    """Channels that carry tiles of the size that the program states, and no pad."""
    if u.kind.name == "load":
        p = u.kind
        whole = not p.tensor_rows % p.rows and not p.tensor_cols % p.cols
        kept = whole and p.order is None
    elif u.kind.name == "scratchpad":
        kept = all(c.id in e.whole for c in ins[: len(kind.writers)])
    else:
        kept = u.kind.name in WHOLE and all(c.id in e.whole for c in ins)
        kept = kept and not (u.kind.name == "reshape" and kind.pad)
    if kept:
        e.whole.update(c.id for c in outs)


def _in_order(
    graph: UnitGraph, ins: list[list[Channel]], outs: list[list[Channel]]
) -> Iterable[tuple[Unit, bool]]:
    """Units after those that feed them, as far as there is such an order; a memory twice, its
    writers and then its readers.
    """
    wait: dict[tuple[int, bool], set[int]] = {}
    for u in graph.units:
        several = len(u.kind.writers) if u.kind.memory else None
        wait[u.id, False] = {c.id for c in ins[u.id][:several]}
        if several is not None:
            wait[u.id, True] = {c.id for c in ins[u.id][several:]}
    consumer = {}
    for key, channels in wait.items():
        consumer.update(dict.fromkeys(channels, key))
    left = dict(wait)
    ready = [key for key, channels in wait.items() if not channels]
    while left:
        if not ready:
            loops = [k for k in left if graph.units[k[0]].kind.any_input]
            ready = [min(loops or left)]
        key = ready.pop()
        if left.pop(key, None) is None:
            continue
        unit = graph.units[key[0]]
        yield unit, key[1]
        mine = outs[unit.id]
        if unit.kind.memory:
            several = len(unit.kind.writers)
            mine = mine[several:] if key[1] else mine[:several]
        for c in mine:
            waiting = left.get(consumer[c.id])
            if waiting is not None:
                waiting.discard(c.id)
                if not waiting:
                    ready.append(consumer[c.id])


def _channel(e: Events, c: Channel) -> None:
    """Section 1: a beat a cycle, one every two cycles at depth 1."""
    each = 2 if c.depth == 1 else 1
    count = e.flows[c.id].count
    marks = sorted(e.marks[c.id].items(), reverse=True)
    for (early, before), (late, after) in pairwise(marks):
        e.add(before, after, (early - late) * each, c.src[0], "beats")
    unit = c.src[0]
    if count:
        if not marks or count == 1:
            e.add(first(c.id), last(c.id), (count - 1) * each, unit, "beats")
        e.add(last(c.id), done(c.id), each, unit)
    else:
        e.add(first(c.id), done(c.id), 0, unit)


def _other(e: Events, u: Unit, kind: Kind, ins: list[int], outs: list[int]) -> None:
    """A kind of which only section 3, rule 2, is known: Done passes once all inputs show it."""
    for o in outs:
        for i in ins:
            e.add(done(i), done(o), 1, u.id)
        if ins:
            e.earliest.append((tuple(first(i) for i in ins), first(o), 1))
