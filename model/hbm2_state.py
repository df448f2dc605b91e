"""The state of an HBM2, of its channels, banks and requests, as records
(:mod:`penstock.model.records`), and its beginning.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..machine.hbm2 import Hbm2
from ..machine.trace import COMMAND
from .dram_words import NEVER
from .records import WORD, Words, at_address, record

LONG_AGO = -(1 << 40)
"""A tick before all others."""
CLOSED = -1
NONE = -1
ACTIVATIONS = 4
"""Activations that a window of nFAW may have."""

ACTIVATE, PRECHARGE, COLUMN, REFRESH = range(4)
WORDS = ("activate", "precharge", "column", "refresh")
"""Names of the commands in a timeline."""


@record
class Memory:
    """State that the memory has once."""

    # what a memory of every kind begins with
    kind: int
    in_flight: int  # lines
    earliest: int  # the next cycle in which something may happen
    taken: int  # 0
    # by which model/dram.py calls this memory
    at: int  # its address
    enter: int  # functions: their addresses
    advance: int
    # ticks in a cycle: a fraction
    up: int
    down: int
    channels: int
    first: int  # the first channel
    queue: int  # requests that a queue of a channel holds
    write_mode_above: int
    write_mode_below: int
    refresh: int  # ticks between refreshes; NEVER: none
    read_latency: int  # from the command to the last data
    # where an address has its fields: the lowest bit, and a mask
    channel_at: int
    channel_mask: int
    pseudo_at: int
    pseudo_mask: int
    group_at: int
    group_mask: int
    bank_at: int
    bank_mask: int
    row_at: int
    row_mask: int
    groups: int  # bank groups of a pseudo-channel
    banks: int  # banks of a bank group
    # least ticks from one command to the next: in a channel
    activate_to_row: int
    # in a pseudo-channel
    activate_to_activate: int
    window: int  # from an activation to the fourth after it
    read_to_read: int
    read_to_write: int
    write_to_write: int
    write_to_read: int
    # in a bank group
    group_activate_to_activate: int
    group_read_to_read: int
    group_write_to_write: int
    group_write_to_read: int
    # in a bank
    bank_activate_to_activate: int
    activate_to_read: int
    activate_to_write: int
    activate_to_precharge: int
    precharge_to_activate: int
    read_to_precharge: int
    write_to_precharge: int
    refresh_to_activate: int
    # requests: those that are due go to the fabric in order, so many a cycle
    responses: int
    due: int
    due_last: int
    free: int  # the first of the free ones
    next: int  # the next tick in which something may happen
    # commands that are kept: `Command`s
    log: int
    logged: int
    log_room: int


@record
class Command:
    """A command, for a timeline."""

    tick: int
    channel: int
    bank: int  # of the channel; of a refresh the first of the pseudo-channel
    what: int  # ACTIVATE, PRECHARGE, COLUMN, REFRESH
    first: int  # whether it is the first one of a request
    row: int


@record
class Channel:
    """A channel: its controller, its queues, and its counts."""

    id: int
    next: int  # its next tick
    now: int  # the tick that was last
    row_from: int  # the first tick of an activation or a precharge
    write_mode: int
    next_refresh: int
    refreshing: int  # pseudo-channels that wait for a refresh, a bit each
    # lists of requests: what has not been accepted, reads whose data come, written lines
    feed: int
    feed_last: int
    returns: int
    returns_last: int
    written: int
    # queues, in the order of arrival: a list of requests each
    n_reads: int
    n_writes: int
    n_active: int
    reads: int
    writes: int
    active: int
    pseudos: int
    groups: int
    banks: int
    # counters
    hits: int
    misses: int
    conflicts: int
    read: int
    wrote: int
    forwarded: int
    activations: int
    precharges: int
    refreshes: int


@record
class Pseudo:
    """A pseudo-channel: the first ticks of its commands."""

    activate_from: int
    read_from: int
    write_from: int
    # the last activations, the oldest at `oldest`
    oldest: int
    activated: int
    activated_1: int
    activated_2: int
    activated_3: int
    ALIASES = (("window", ("activated", ACTIVATIONS)),)


@record
class Group:
    """A bank group."""

    activate_from: int
    read_from: int
    write_from: int


@record
class Bank:
    """A bank."""

    row: int  # the open one
    activate_from: int
    read_from: int
    write_from: int
    precharge_from: int


@record
class Request:
    """A line on its way."""

    line: int  # whose it is
    address: int
    write: int
    pseudo: int
    group: int  # of the channel
    bank: int  # of the channel
    row: int
    reached: int  # ticks that were over when it reached the memory
    arrived: int  # ticks that were over when the controller accepted it
    ready: int  # tick of its data
    seen: int  # whether a command has been issued for it
    row_then: int  # its bank's open row when a command of it was last looked at
    first: int  # the first tick that the command had then: with that row it is no sooner
    next: int  # in a list


see = at_address(Memory)
AT, ENTER, ADVANCE = (Memory.offsets[name] for name in ("at", "enter", "advance"))


def fields_of(config: Hbm2) -> dict[str, int]:
    """Fields of an address, by the names of :class:`Memory`."""
    at = (config.transaction - 1).bit_length()
    places = {}
    for name in config.mapping.split():
        short = {"pseudo_channel": "pseudo", "bank_group": "group"}.get(name, name)
        size = config.sizes.get(name, 1 << 62 >> at)
        if name != "column":
            places[f"{short}_at"] = at
            places[f"{short}_mask"] = size - 1
        at += (size - 1).bit_length()
    return places


def empty(
    config: Hbm2, ratio: Fraction, lines: int, kind: int, calls: tuple[int, int], room: int = 0
) -> np.ndarray:
    """The state of an empty memory: a :class:`Memory` and all it has.

    Parameters
    ----------
    config
        Organisation, timing, mapping.
    ratio
        Ticks of the memory in a cycle of the fabric.
    lines
        Most lines in flight.
    kind
        The kind's number.
    calls
        Addresses of the functions by which a line enters, and time advances.
    room
        Commands that are kept; those behind them are not.
    """
    made = Words()
    memory = made.alloc(Memory.words)
    channels = made.alloc(config.channels * Channel.words)
    banks = config.bank_groups * config.banks
    for i in range(config.channels):
        pseudos = [_pseudo_channel() for _ in range(config.pseudo_channels)]
        groups = [{}] * (config.pseudo_channels * config.bank_groups)
        closed = [{"row": CLOSED}] * (config.pseudo_channels * banks)
        made.set(
            Channel,
            channels + i * Channel.words,
            {
                "id": i,
                "next": NEVER,
                "next_refresh": config.nREFI if config.refresh else NEVER,
                "feed": NONE,
                "returns": NONE,
                "written": NONE,
                "reads": made.alloc(config.queue),
                "writes": made.alloc(config.queue),
                "active": made.alloc(config.queue),
                "pseudos": made.records(Pseudo, pseudos),
                "groups": made.records(Group, groups),
                "banks": made.records(Bank, closed),
            },
        )
    requests = made.alloc(lines * Request.words)
    made.set(
        Memory,
        memory,
        {
            "kind": kind,
            "earliest": NEVER,
            "enter": calls[0],
            "advance": calls[1],
            "up": ratio.numerator,
            "down": ratio.denominator,
            "channels": config.channels,
            "first": channels,
            "queue": config.queue,
            "write_mode_above": config.write_mode_above,
            "write_mode_below": config.write_mode_below,
            "refresh": config.nREFI if config.refresh else NEVER,
            "groups": config.bank_groups,
            "banks": config.banks,
            "responses": config.responses,
            "due": NONE,
            "free": requests,
            "log": made.alloc(room * Command.words),
            "log_room": room,
            "next": NEVER,
            **fields_of(config),
            **config.ticks,
        },
    )
    made.fill()
    links = made.every(Request, requests, lines)["next"]
    links[:] = requests + Request.words * np.arange(1, lines + 1)
    links[-1] = NONE
    made.S[AT] = made.address
    return made.S


COUNTED = (
    "hits",
    "misses",
    "conflicts",
    "read",
    "wrote",
    "forwarded",
    "activations",
    "precharges",
    "refreshes",
)


def channels(state: np.ndarray) -> np.ndarray:
    """All channels, to look at."""
    m = Memory.of(state, 0)
    count = int(m["channels"])
    return np.ndarray(count, Channel.dtype, state, WORD * int(m["first"]), WORD * Channel.words)


def counters(state: np.ndarray) -> dict[str, list[int]]:
    """Counts of each channel, by name (docs/timing.md section 5.2)."""
    found = channels(state)
    return {name: found[name].tolist() for name in COUNTED}


def commands(state: np.ndarray) -> np.ndarray:
    """The commands that were kept, in order, as :data:`penstock.machine.trace.COMMAND`."""
    m = Memory.of(state, 0)
    n = int(m["logged"])
    found = np.ndarray(n, Command.dtype, state, WORD * int(m["log"]), WORD * Command.words)
    found = found[np.argsort(found["tick"], kind="stable")]
    out = np.zeros(n, COMMAND)
    out["cycle"] = -(-found["tick"] * int(m["down"]) // int(m["up"]))
    out["what"] = np.array(WORDS)[found["what"]]
    for name in ("channel", "bank", "row", "first"):
        out[name] = found[name]
    return out


def _pseudo_channel() -> dict[str, int]:
    """No activation yet."""
    return dict.fromkeys(("activated", "activated_1", "activated_2", "activated_3"), LONG_AGO)
