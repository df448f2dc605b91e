"""Loads, stores, sources, sink."""

from math import prod

from ..records import extends, fast, table
from .channels import (
    END,
    WAIT,
    finish,
    goes_on,
    head,
    heads,
    peek,
    room,
    send,
    sleep,
    take,
    take_all,
)
from .hbm import transfer
from .state import OWN, Unit, ceil_div, source, steps, tile, tile_bytes, tile_cols, tile_rows

LINE = 64

ASK, MOVE, EMIT = range(3)


@fast
def tile_lines(net, rows, cols):
    """Requests of a tile: every row is rounded up to whole lines."""
    return rows * ceil_div(cols * net.element, LINE)


@fast
def request(net, u, lines):
    """Ask the memory for lines; whether the unit has to wait for any."""
    if lines == 0:
        return False
    transfer(net, u, lines)
    u.why = OWN
    return True


@fast
def read_tile(net, u):
    """Ask for the unit's tile; whether it has to wait."""
    lines = tile_lines(net, u.rows, u.cols)
    net.read += lines
    net.moved += u.rows * u.cols * net.element
    return request(net, u, lines)


@fast
def write_tile(net, u, i):
    """Write the tile at the head of input i; whether the unit has to wait."""
    word = head(net, source(net, u, i)).word
    lines = tile_lines(net, tile_rows(word), tile_cols(word))
    net.written += lines
    net.moved += tile_bytes(net, word)
    return request(net, u, lines)


@fast
def nest_stop(net, shape, dims, index):
    """Stop level at position index of a nest of trip counts: dimensions that end there, those of
    size 1 too.
    """
    trips = table(net, shape)
    level = 0
    block = 1
    for d in range(dims - 1, -1, -1):
        block *= trips[d]
        if (index + 1) % block:
            break
        level += 1
    return level


@extends(Unit)
class Load:
    """State of a `load` or a `load_ref`."""

    rows: int
    cols: int
    transposed: int
    shape: int
    dims: int
    tiles: int
    index: int
    stop: int

    @staticmethod
    def begin(layout, unit):
        p = unit.kind
        return {"dims": len(p.shape), "tiles": prod(p.shape), "transposed": int(bool(p.transposed))}


@fast
def _loaded(u):
    """The tile that leaves."""
    if u.transposed:
        return tile(u.cols, u.rows, u.cols, 1)
    return tile(u.rows, u.cols, u.rows, 1)


@steps(Load, "load")
def load(net, u, t):
    """Asks for a tile, waits for all its lines, sends it; asks for the next when that has been
    accepted.
    """
    while True:
        if u.phase == EMIT:
            if not room(net, u, 0, t):
                return
            stop = nest_stop(net, u.shape, u.dims, u.index)
            send(net, u, 0, t, t, stop, _loaded(u), 0)
            u.index += 1
            u.phase = ASK
        if u.phase == ASK:
            if u.index == u.tiles:
                return finish(net, u, t)
            u.phase = EMIT
            if read_tile(net, u):
                return


@steps(Load, "load_ref")
def load_by_reference(net, u, t):
    """Takes a token, then loads its tiles, each as `load` does; the last one ends the loop and the
    dimensions that the token ends.
    """
    while True:
        if u.phase == EMIT:
            if not room(net, u, 0, t):
                return
            stop = nest_stop(net, u.shape, u.dims, u.index)
            u.index += 1
            if u.index == u.tiles:
                stop += u.stop
                u.index = 0
            send(net, u, 0, t, t, stop, _loaded(u), 0)
            u.phase = ASK
        if u.index == 0:
            if not goes_on(net, u, t, peek(net, u, 0, t)):
                return
            u.stop = head(net, source(net, u, 0)).stop
            take(net, u, 0, t)
        u.phase = EMIT
        if read_tile(net, u):
            return


@steps(Unit, "store_at")
def store_at(net, u, t):
    """Shows an address and a tile, writes, waits for all acknowledgements, sends one of its own,
    and takes both.
    """
    while True:
        if u.phase == EMIT:
            if not room(net, u, 0, t):
                return
            send(net, u, 0, t, t, head(net, source(net, u, 0)).stop, 1, 0)
            take_all(net, u, t)
            u.phase = ASK
        if not goes_on(net, u, t, heads(net, u, t)):
            return
        u.phase = EMIT
        if write_tile(net, u, 1):
            return


@steps(Unit, "store")
def store(net, u, t):
    """Shows a tile, writes it, waits for all acknowledgements, and only then takes it."""
    while True:
        if u.phase == MOVE:
            take(net, u, 0, t)
            u.phase = ASK
        if not goes_on(net, u, t, peek(net, u, 0, t)):
            return
        u.phase = MOVE
        if write_tile(net, u, 0):
            return


@extends(Unit)
class Source:
    """State of a `source` or a `stream`."""

    stamps: int
    stops: int
    words: int
    words2: int
    tokens: int
    index: int

    @staticmethod
    def begin(layout, unit):
        stamps, given = layout.given(unit)
        return {
            "tokens": len(given.stop),
            "stamps": layout.put(stamps),
            "stops": layout.put(given.stop),
            "words": layout.put(given.word),
            "words2": layout.put(given.word2),
        }


@steps(Source, "source", "stream")
def offer(net, u, t):
    """Sends its tokens as fast as there is room, each with its own stamp; its clock moves with
    back-pressure only.
    """
    while u.index < u.tokens:
        if not room(net, u, 0, t):
            return
        send(
            net,
            u,
            0,
            t,
            table(net, u.stamps)[u.index],
            table(net, u.stops)[u.index],
            table(net, u.words)[u.index],
            table(net, u.words2)[u.index],
        )
        u.index += 1
    finish(net, u, t)


@steps(Unit, "sink")
def sink(net, u, t):
    """Takes one token a cycle."""
    seen = peek(net, u, 0, t)
    if seen == END:
        finish(net, u, t)
    elif seen != WAIT:
        take(net, u, 0, t)
        sleep(net, u, t + 1)
