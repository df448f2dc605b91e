"""Memories for the beats of a program's own streams: where each beat lies, and which sources and
sinks of a placed graph use theirs.

Word w of beat k lies at ``base + k * stride + w``. Beats of sources are written at the
configuration port, those of sinks are read at a port of their own, so each of the two has an
address space (docs/array.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..beat import STOP_BITS, Payload, Tile, beat_number, beat_words
from ..stimulus import whole_beats
from ..trace import SourceBeats
from ..unitgraph import Unit, UnitGraph
from .structure import Structure
from .variants import container

ENDS = ("source", "sink")
"""Kinds whose parameter `beats` is a memory of beats, in a slot that has one."""
RUN = 32
"""Bits that move together at most."""


def moves(plane: str, payload: Payload, t: int) -> list[tuple[int, int, int]]:
    """Runs of bits (from, to, bits) that make a beat of a payload of a plane's beat."""
    wide = container(plane, t)
    out: list[tuple[int, int, int]] = []
    if isinstance(payload, Tile) and isinstance(wide, Tile):
        bits = payload.element_bits
        out += [(k * wide.element_bits, k * bits, bits) for k in range(t * t)]
        out.append((t * t * wide.element_bits, t * t * bits, 2 * payload.count_bits))
    else:
        out += [(k, k, min(RUN, payload.bits - k)) for k in range(0, payload.bits, RUN)]
    out.append((wide.bits, payload.bits, STOP_BITS + 1))
    return out


def on_plane(beats: SourceBeats, plane: str, payload: Payload, t: int) -> np.ndarray:
    """Whole beats of a payload as those of its plane: uint32 [beats, words]."""
    wide = container(plane, t)
    out: list[np.ndarray] = []
    runs = moves(plane, payload, t)
    for row in whole_beats(payload, beats):
        beat = beat_number(row)
        made = 0
        for to, at, bits in runs:
            made |= (beat >> at & (1 << bits) - 1) << to
        out.append(np.frombuffer(made.to_bytes(4 * beat_words(wide), "little"), "<u4"))
    return np.array(out, np.uint32).reshape(len(out), beat_words(wide))


def in_memories(graph: UnitGraph, structure: Structure, beats: Mapping[int, int]) -> UnitGraph:
    """A placed graph whose sources and sinks use the memories of their slots: those whose streams
    fit.

    Parameters
    ----------
    graph, structure
        A placed graph, and its array.
    beats
        Beats of the stream of each source and sink, Done among them, by unit. One that is left out
        stays at its port.
    """
    found: list[Unit] = []
    memories = structure.source_memories | structure.sink_memories
    places = {at: memory.places for at, memory in memories.items()}
    for unit, (what, at) in zip(graph.units, graph.meta["array"]["units"], strict=True):
        most = places.get(at, 0) if what == "slot" else 0
        count = beats.get(unit.id)
        if unit.kind.name not in ENDS or count is None or not 1 <= count <= most:
            found.append(unit)
            continue
        value = count if unit.kind.name == "source" else most
        found.append(replace(unit, kind=unit.kind.but(beats=value)))
    return replace(graph, units=tuple(found))


def streams_text(graph: UnitGraph) -> str:
    """Line that counts a placed graph's own streams in memories of slots, and names the others;
    empty: it has none.
    """
    ends = [u for u in graph.units if u.kind.name in ENDS]
    ports = [u.name for u in ends if u.kind.beats is None]
    if not ends:
        return ""
    summary = f"{len(ends) - len(ports)} of {len(ends)} own streams in memories of slots"
    return f"{summary}; at ports: {', '.join(ports)}" if ports else summary
