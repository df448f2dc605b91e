"""What a mapping has become, in lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...machine.array.placed import NO_SLOT
from .mapping import Mapping

MOST_LINES = 8


def text(mapping: Mapping) -> str:
    """Slots, wires, hops, tracks, feedback loops, and channels that cap
    their rate.
    """
    lines = [*_slots(mapping), *_network(mapping), *_loops(mapping), *_short(mapping)]
    return "\n".join(lines)


def _slots(mapping: Mapping) -> Iterator[str]:
    used = [s for s in mapping.placement.slots if s != NO_SLOT]
    array = mapping.network.array
    yield (
        f"{mapping.program.name} on {array.name}: {len(used)} units in "
        f"{len(mapping.network.slots)} slots of {array.rows} x {array.cols} sites"
    )
    absorbed = len(mapping.placement.slots) - len(used)
    yield f"  {absorbed} broadcasts are made by switches"


def _network(mapping: Mapping) -> Iterator[str]:
    routes = mapping.placement.routes
    ways = [h for h in mapping.ways().values() if h]
    yield (
        f"  {len(mapping.placement.wires)} channels on local wires, "
        f"{len(routes)} routes of {mapping.hops} hops"
    )
    if ways:
        yield f"  hops to an end: {sum(ways) / len(ways):.1f} on average, {max(ways)} at most"
    used = mapping.tracks_used()
    network = mapping.network
    for plane, tracks in network.array.tracks.items():
        own = [n for (p, *_), n in used.items() if p == plane]
        links = sum(1 for o in network.outputs if o.side and o.plane == plane)
        share = sum(own) / links if links else 0.0
        yield (
            f"  {plane} plane: {sum(own)} of {links} tracks in use ({share:.1%}), "
            f"at most {max(own, default=0)} of {tracks} on a link"
        )


def _loops(mapping: Mapping) -> Iterator[str]:
    loops = sorted(mapping.loops(), key=lambda x: -x.hops)
    slow = [x for x in loops if x.hops]
    if loops:
        yield f"  {len(loops)} feedback loops, {len(slow)} of them through switches"
    for loop in slow[:MOST_LINES]:
        yield f"    +{loop.hops} cycles: {', '.join(loop.units)}"
    if len(slow) > MOST_LINES:
        yield f"    and {len(slow) - MOST_LINES} more"


def _short(mapping: Mapping) -> Iterator[str]:
    short = Counter(mapping.short)
    if short:
        yield f"  {len(short)} channels cannot hold the difference of joining paths"
    for channel, places in short.most_common(MOST_LINES):
        name = mapping.program.channels[channel].name
        yield f"    {places} places are missing at {name}"
    if len(short) > MOST_LINES:
        yield f"    and {len(short) - MOST_LINES} more"
