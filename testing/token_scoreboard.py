"""The fast model beside a token overlay in a cocotb test: each write to a value memory and each
token of a link is compared in its cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..hw.overlay import load_layout, load_words, look_layout
from ..overlay.core.config import MEMORIES, link_name, packet
from ..overlay.core.image import Image, StaticImage
from ..overlay.core.places import WIRES, Place, links, write_ports
from ..overlay.model.moves import moves
from .agents import Bench, StreamBus, StreamDriver, bits

AFTER = 20
"""Cycles in which nothing may follow the last write."""
BEGINS = 200
"""Cycles from ``start`` in which a run begins."""


class OverlayScoreboard:
    """Scoreboard of a run: writes, tokens and cycles as the fast model has them.

    Parameters
    ----------
    bench
        Of a design with an overlay's ports.
    image
        What runs, with the sizes of the hardware.
    name
        The overlay's name where it is not the top: of its instance, before its ports.
    """

    def __init__(self, bench: Bench, image: Image, name: str = ""):
        self.bench = bench
        self.image = image
        dut = bench.dut
        self.overlay = image.overlay
        prefix = f"{name}_" if name else ""
        self._start, self._running, self._idle, self._cycles, self._value = (
            getattr(dut, prefix + port) for port in ("start", "running", "idle", "cycles", "value")
        )
        self._start.value = 0
        self._load, self._look = (
            StreamDriver(bench, StreamBus.of(dut, prefix + port)) for port in ("load", "look")
        )
        top = dut[name] if name else dut
        self._writes = _ports(bench, top, write_ports(self.overlay))
        self._links = _ports(bench, top, links(self.overlay, image.sizes))
        self._expect()

    def _expect(self) -> None:
        self.model = moves(self.image)
        self.values = self.model.values

    async def load(self) -> None:
        """Load every word of the image."""
        await self._send(self._load, load_words(self.image))

    async def give(self, nodes: np.ndarray, words: np.ndarray) -> None:
        """Load new values of sources, and nothing else."""
        self.image = self.image.with_inputs(nodes, words)
        memory = MEMORIES[self.overlay.pe].index("value")
        columns = {"pe": self.image.node_pe[nodes], "address": self.image.node_address[nodes]}
        columns |= {"data": words, "memory": [memory] * len(nodes)}
        await self._send(self._load, load_layout(self.overlay, self.image.sizes).pack(columns))
        self._expect()

    async def _send(self, driver: StreamDriver, words: Sequence[int]) -> None:
        driver.send(words)
        while driver.queue:
            await self.bench.edge

    async def run(self) -> int:
        """Run the image, and compare until nothing followed for `AFTER` cycles; returns the cycles.

        Raises
        ------
        AssertionError
            The first write or token that differs: its PE or link, cycle, what was expected and
            found.
        """
        self._start.value = 1
        await self.bench.edge
        self._start.value = 0
        for _ in range(BEGINS):
            if self._running.value:
                break
            await self.bench.edge
        else:
            raise AssertionError(f"the run has not begun by cycle {self.bench.cycle}")
        cycles = self.model.cycles
        for cycle in range(cycles + 1 + AFTER):
            for difference in self._differences(cycle):
                raise AssertionError(difference)
            running = bool(bits(self.bench, self._running))
            assert running == (cycle <= cycles), (
                f"cycle {cycle}: model runs for {cycles} cycles, RTL's running is {int(running)}"
            )
            await self.bench.edge
        assert bits(self.bench, self._idle), f"not idle in cycle {cycles + AFTER}"
        found = self._cycles.value.to_unsigned()
        assert found == cycles, f"the counter is {found} in cycle {cycles + AFTER}, not {cycles}"
        return found

    def _differences(self, cycle: int) -> Iterator[str]:
        """Differences in a cycle that ends."""
        for pe, port in self._writes.items():
            at = cycle - port.late
            expected = self.model.writes.get((at, pe))
            found = port.found(at, expected is not None)
            if found != expected:
                yield f"{self._pe(pe)}, cycle {at}: model {_write(expected)}, RTL {_write(found)}"
        for link, port in self._links.items():
            at = cycle - port.late
            token = self.model.tokens.get((at, link))
            found = port.found(at, token is not None)
            if found != (None if token is None else (token,)):
                where = link_name(link % WIRES, self.overlay.cols)
                sides = [self._token(link, t) for t in (token, found[0] if found else None)]
                yield f"{where}, cycle {at}: model {sides[0]}, RTL {sides[1]}"

    def _token(self, link: int, token: int | None) -> str:
        """A token in words."""
        if token is None:
            return "no token"
        if isinstance(self.image, StaticImage) or link >= WIRES:
            return f"{token:#x}"
        fields = packet(self.overlay, self.image.sizes).unpack(token)
        return ", ".join(f"{name} {value:#x}" for name, value in fields.items())

    def _pe(self, pe: int) -> str:
        return f"PE {pe} ({pe % self.overlay.cols}, {pe // self.overlay.cols})"

    async def check_values(self) -> None:
        """Read every node's value, and compare it with the model's; raises AssertionError."""
        nodes = {"pe": self.image.node_pe, "address": self.image.node_address}
        self._look.send(look_layout(self.overlay, self.image.sizes).pack(nodes))
        found: list[tuple[int, int]] = []
        for _ in range(len(self.values) + AFTER):
            await self.bench.edge
            raw = self._value.value
            if raw[0]:
                found.append((raw.to_unsigned() >> 1, self.bench.cycle - 1))
        expected = self.values.tolist()
        count = f"{len(found)} of {len(expected)} values are read by cycle {self.bench.cycle}"
        assert len(found) == len(expected), count
        for node, (model, (rtl, cycle)) in enumerate(zip(expected, found, strict=True)):
            assert model == rtl or not self.model.known[node], (
                f"value of node {node}, cycle {cycle}: model {model:#x}, RTL {rtl:#x}"
            )


def _write(write: tuple[int, ...] | None) -> str:
    return "writes nothing" if write is None else f"writes {write[1]:#x} to address {write[0]}"


def _ports(bench: Bench, top: Any, places: Mapping[int, Place]) -> dict[int, _Port]:
    return {number: _Port(bench, top, place) for number, place in places.items()}


class _Port:
    """Signals of a place."""

    def __init__(self, bench: Bench, top: Any, place: Place):
        self.bench = bench
        self.late = place.late
        self.shift = place.shift
        self.when = [_inside(top, path) for path in place.when]
        self.parts = [_inside(top, path) for path in place.parts]

    def found(self, cycle: int, due: bool) -> tuple[int, ...] | None:
        """Words that move in a cycle; of wires, where one is due."""
        if cycle < 0 or not (all(map(self._high, self.when)) if self.when else due):
            return None
        return tuple(bits(self.bench, part) >> self.shift for part in self.parts)

    def _high(self, signal: Any) -> bool:
        """Lowest bit; in a register those above may be X where it is low."""
        return bool(signal.value[0] if self.shift else bits(self.bench, signal))


def _inside(top: Any, path: str) -> Any:
    for name in path.split("."):
        top = top[name]
    return top
