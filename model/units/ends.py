"""Sources and sinks (docs/timing.md section 3)."""

from __future__ import annotations

import numpy as np

from ...machine.errors import RunError
from ...machine.limits import STREAM_FROM
from ..records import table
from .state import (
    BLOCKED,
    BUSY,
    FAULT_ADDRESS,
    Beat,
    Sunk,
    acts,
    fail,
    forward,
    head,
    is_done,
    post,
    ready,
    source,
    take,
    target,
    unit,
    visible,
    wake,
)
from .tiles import copy_values


@unit
class Source:
    """State of a `source`."""

    n_beats: int
    next: int
    release: int  # the cycle of each beat from which it is offered
    beats: int  # `Beat`s like those of the output's slots

    @staticmethod
    def begin(layout, u):
        given = layout.sources.get(u.id)
        if given is None:
            raise RunError(
                "no beats given",
                f"source {u.name}",
                remedy=f"pass sources={{{u.id}: SourceBeats(...)}}",
            )
        held = u.kind.beats
        if held not in (None, len(given.release)):
            raise RunError(
                f"{len(given.release)} beats given", f"source {u.name}", f"its memory holds {held}"
            )
        release = given.release if held is None else np.full(held, STREAM_FROM, np.int64)
        return {
            "n_beats": len(release),
            "release": layout.put(release),
            "beats": layout.given_beats(layout.graph.outputs(u.id)[0].payload, given),
        }


@acts(Source, "source")
def source_(net, u, c):
    if u.next == u.n_beats:
        return 0
    release = table(net, u.release)[u.next]
    if release > c:
        wake(net, u.id, release)
        return 0
    out = target(net, u, 0)
    if not ready(out, c):
        return BLOCKED
    beat = Beat(net, u.beats + u.next * out.slot_words, 0)
    forward(net, beat, out, c, beat.stop)
    u.next += 1
    return BUSY


@unit
class Sink:
    """State of a `sink`."""

    n_releases: int
    next: int
    release: int  # the cycle of each beat from which it is taken
    places: int  # of its own memory; 0: it has none
    seen: int  # its Done was visible
    counts: int  # of the scratchpad whose references it takes, or -1

    @staticmethod
    def begin(layout, u):
        places = u.kind.beats or 0
        release = np.asarray(() if places else layout.sinks.get(u.id, ()), np.int64)
        return {
            "places": places,
            "n_releases": len(release),
            "release": layout.put(release),
            "counts": layout.counts_of(u),
        }


@acts(Sink, "sink")
def sink(net, u, c):
    channel = source(net, u, 0)
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    if is_done(beat) and not u.seen:
        u.seen = 1
        net.open -= 1
    if u.next < u.n_releases:
        release = table(net, u.release)[u.next]
        if release > c:
            wake(net, u.id, release)
            return 0
    if u.next == u.places and u.places:
        fail(net, u, FAULT_ADDRESS, c)
    kept = Sunk(net, net.sunk + net.sunk_count * net.sunk_words, 0)
    kept.unit = u.id
    kept.cycle = c
    kept.stop = beat.stop
    kept.data = beat.data
    for i in range(channel.n_numbers):
        kept.numbers[i] = beat.numbers[i] * beat.data
    copy_values(
        net, beat.value, net.sunk_value + net.sunk_count * net.sunk_values, channel.n_values
    )
    net.sunk_count += 1
    u.next += 1
    if beat.data:
        post(net, u, beat.page, -1)
    take(net, channel, c)
    return BUSY
