"""Report of a mapping, in lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...machine.array.placed import NO_SLOT
from .mapping import Mapping


def text(mapping: Mapping) -> str:
    """Slots, wires, hops, tracks, every feedback loop through switches with its cycles, every
    channel whose rate the placement caps, and whether the order of arrivals decides.
    """
    lines = [*_slots(mapping), *_network(mapping), *_loops(mapping), *_short(mapping)]
    return "\n".join([*lines, *_arrival(mapping)])


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
    for loop in slow:
        yield f"    +{loop.hops} cycles: {', '.join(loop.units)}"


def _short(mapping: Mapping) -> Iterator[str]:
    short = Counter(mapping.short)
    if short:
        yield f"  {len(short)} channels hold less than the full rate of joining paths takes"
    for channel, missing in short.most_common():
        name = mapping.program.channels[channel].name
        held = mapping.placement.places[channel]
        yield f"    {held} of {held + missing} places at {name}"


def _arrival(mapping: Mapping) -> Iterator[str]:
    found = mapping.by_arrival
    if found:
        yield (
            f"  {', '.join(found)}: beats in the order of their arrival, so that only a run tells "
            "whether the program ends"
        )
    else:
        yield "  no unit depends on arrivals: it ends here if it ends on a fabric of its own"
