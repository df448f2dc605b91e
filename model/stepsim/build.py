"""Lays a unit graph out as the state of a run."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from ...machine import stepsim_kinds
from ...machine.config import Stepsim
from ...machine.errors import ConfigError, RunError
from ...machine.kinds import Kind
from ...machine.unitgraph import Unit as MachineUnit
from ...machine.unitgraph import UnitGraph
from ..compiling import address_of
from ..records import Record, Words
from . import engine
from .calendar import BUCKETS
from .state import (
    GROW,
    IDLE,
    KINDS,
    OK,
    STARVED,
    Channel,
    Entry,
    Logged,
    Net,
    Port,
    Slot,
    Unit,
    plain,
    tile,
)
from .tokens import Tokens

LEAST_STORE = 1024
LEAST_LOG = 4096
"""Entries of buffers and of the log that a run has to begin with, where it needs any."""
LAST_STEPS = 2
"""Steps of a partition's last token that a reader may miss."""


class Layout(Words):
    """The state of one run, at its start: every unit about to step in cycle 0."""

    def __init__(
        self, graph: UnitGraph, config: Stepsim, log: bool, sources: Mapping[int, Tokens]
    ) -> None:
        super().__init__()
        _check(graph, config, sources)
        self.graph = graph
        self.config = config
        self.sources = sources
        self.depth = np.array([c.depth or config.fifo_depth for c in graph.channels], np.int64)
        self.alloc(Net.words)
        self.channels = self.alloc(len(graph.channels) * Channel.words)
        self.kinds = [KINDS[u.kind.name][0] for u in graph.units]
        self.unit_words = max((state.words for state in self.kinds), default=Unit.words)
        self.units = self.alloc(len(graph.units) * self.unit_words)
        slots = self.alloc(int(self.depth.sum()) * Slot.words)
        for u, state in zip(graph.units, self.kinds, strict=True):
            self.set(state, self.unit_at(u.id), self._own(u, state))
        ports = [
            {
                "unit": self.unit_at(u),
                "par": graph.units[u].kind.par_dispatch or config.par_dispatch,
            }
            for u in graph.ports
        ]
        first = self.records(Port, ports)
        ins = self._by_unit([(*c.dst, c.id) for c in graph.channels])
        outs = self._by_unit([(*c.src, c.id) for c in graph.channels])
        buffered = sum(
            int(self.depth[c.id])
            for c in graph.channels
            if graph.units[c.dst[0]].kind.name == "bufferize"
        )
        self.slack = {"store": buffered, "log": int(self.depth.sum()) if log else 0}
        self.store = np.zeros(max(LEAST_STORE, 2 * buffered) if buffered else 1, Entry.dtype)
        self.log = np.zeros(max(LEAST_LOG, 2 * self.slack["log"]) if log else 1, Logged.dtype)
        self._put_net(log)
        self.fill()
        self._fill_units(ins, outs, first + Port.words * np.arange(len(ports)))
        self._fill_channels(slots)

    def unit_at(self, u: int) -> int:
        return self.units + u * self.unit_words

    def channel_at(self, c: int) -> int:
        return self.channels + c * Channel.words

    def given(self, unit: MachineUnit) -> tuple[Sequence[int], Tokens]:
        """Tokens that a unit sends from outside, and the cycle from which each is visible."""
        p = unit.kind
        if p.name == "stream":
            tokens = self.sources[unit.id]
            return range(p.first, p.first + len(tokens.stop)), tokens
        n = len(p.stop)
        word = plain(tile)(p.rows, p.cols, p.rows, 0)
        return p.stamp, Tokens(np.array(p.stop, np.int64), np.full(n, word), np.zeros(n, np.int64))

    def _own(self, unit: MachineUnit, state: Record) -> dict[str, int]:
        """Words of a unit's kind that do not begin as 0."""
        own = dict(state.begin(self, unit)) if state.begin else {}
        for name in _copied(state, type(unit.kind)):
            value = getattr(unit.kind, name)
            if isinstance(value, int):
                own[name] = value
            elif isinstance(value, list | tuple):
                own[name] = self.put(value)
        return own

    def _by_unit(self, triples: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """(unit, port, channel) triples to a list of channels by unit and port: where each unit's
        begins, and how many it has.
        """
        units = np.sort([u for u, _, _ in triples])
        at = np.searchsorted(units, np.arange(len(self.graph.units) + 1))
        first = self.put([self.channel_at(c) for _, _, c in sorted(triples)])
        return first + at[:-1], np.diff(at)

    def _put_net(self, log: bool) -> None:
        config = self.config
        buckets = np.zeros(BUCKETS + 1, np.int64)
        buckets[0] = self.units if self.graph.units else 0
        self.set(
            Net,
            0,
            {
                "element": config.element_bytes,
                "onchip": config.onchip_bw,
                "buckets": self.put(buckets),
                "near": len(self.graph.units),
                "far_min": IDLE,
                "active": self.alloc(len(self.graph.ports)),
                "served": self.put([-config.dram.interval] * config.dram.channels),
                "n_served": config.dram.channels,
                "interval": config.dram.interval,
                "latency": config.dram.start_up + config.dram.latency,
                "first": -1,
                "logging": log,
            },
        )

    def _fill_units(self, ins: tuple, outs: tuple, ports: np.ndarray) -> None:
        """All units are due in cycle 0, one behind the other."""
        units = self.all_units()
        units["at"] = [self.unit_at(u.id) for u in self.graph.units]
        units["act"] = [address_of(engine.act(u.kind.name)) for u in self.graph.units]
        units["ins"], units["n_ins"] = ins
        units["outs"], units["n_outs"] = outs
        units["why"] = STARVED
        units["finish"] = -1
        units["after"][:-1] = units["at"][1:]
        units["port"][list(self.graph.ports)] = ports

    def _fill_channels(self, slots: int) -> None:
        channels = self.all_channels()
        channels["src"] = [self.unit_at(c.src[0]) for c in self.graph.channels]
        channels["dst"] = [self.unit_at(c.dst[0]) for c in self.graph.channels]
        channels["slots"] = slots + Slot.words * (np.cumsum(self.depth) - self.depth)
        channels["depth"] = self.depth
        channels["closed"] = -1

    def missing(self, seed: int) -> Self:
        """A fresh copy, in which the reader of each output of a partition misses the last steps of
        its clock or not, as drawn by ``seed`` (docs/stepsim.md, what is a race).
        """
        drawn = copy.copy(self)
        drawn.S = self.S.copy()
        drawn.store = self.store.copy()
        rng = np.random.default_rng(seed)
        for u, state in zip(self.graph.units, self.kinds, strict=True):
            if u.kind.name == "partition":
                at = int(state.of(self.S, self.unit_at(u.id))["misses"])
                drawn.S[at : at + u.kind.n] = rng.integers(0, LAST_STEPS + 1, u.kind.n)
        return drawn

    def simulate(self) -> Self:
        """Run to the end, or as far as it goes."""
        net = self.net
        fault = GROW
        while fault == GROW:
            for name, slack in self.slack.items():
                room = getattr(self, name)
                used = int(net["stored" if name == "store" else "logged"])
                if used > len(room) // 2:
                    room = np.concatenate((room, np.zeros_like(room)))
                    setattr(self, name, room)
                net[name] = room.ctypes.data
                net[f"{name}_room"] = len(room) - slack
            engine.simulate(self.S.ctypes.data)
            fault = net["fault"]
        return self

    @property
    def finished(self) -> bool:
        """True if a run has come to its end."""
        return bool(self.net["fault"] == OK and (self.all_units()["finish"] >= 0).all())

    @property
    def net(self) -> np.void:
        return Net.of(self.S, 0)

    def all_units(self) -> np.ndarray:
        """Words common to all units."""
        return self.every(Unit, self.units, len(self.graph.units), self.unit_words)

    def all_channels(self) -> np.ndarray:
        return self.every(Channel, self.channels, len(self.graph.channels))


@functools.cache
def _copied(state: Record, kind: type[Kind]) -> list[str]:
    """Words that have the value of a parameter."""
    return [name for name in kind.params if name in state.offsets]


def _check(graph: UnitGraph, config: Stepsim, sources: Mapping[int, Tokens]) -> None:
    """Refuse a graph that cannot run."""
    stepsim_kinds.validate(graph)
    for u in graph.units:
        if u.kind.name == "stream" and u.id not in sources:
            raise RunError(
                "no tokens given",
                f"unit {u.name}",
                remedy="give them by unit id: run(..., sources={id: Tokens(...)})",
            )
    if config.dram.kind != "pipe":
        raise ConfigError(
            f"kind must be 'pipe' in the timing `stepsim`, not {config.dram.kind!r}", "stepsim.dram"
        )
