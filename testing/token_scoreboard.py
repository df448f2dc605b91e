"""The fast model beside a token overlay in a cocotb test: each write to a value memory and each
token of a link is compared in its cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..hw.overlay import load_layout, load_words, look_layout
from ..overlay.core.config import LINKS, MEMORIES, Layout, link_name, packet
from ..overlay.core.image import DynamicImage, Image, StaticImage
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
        cols = self.overlay.cols
        tiles = [top[f"tile_{pe % cols}_{pe // cols}"] for pe in range(self.overlay.pes)]
        self._writes = [_Write(bench, tile["pe"], self.overlay.pe) for tile in tiles]
        sides = {k: divmod(k, len(LINKS)) for k in self.overlay.links()}
        ends = {k: (tiles[pe], f"{LINKS[side]}_o") for k, (pe, side) in sides.items()}
        if isinstance(image, DynamicImage):
            layout = packet(self.overlay, image.sizes)
            torus = self.overlay.torus
            self._links = {k: _Link(bench, *side, layout, torus) for k, side in ends.items()}
        else:
            self._wires = {k: tile[side] for k, (tile, side) in ends.items()}
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
            raise AssertionError(f"the run does not begin within {BEGINS} cycles")
        cycles = self.model.cycles
        for cycle in range(cycles + 1 + AFTER):
            for difference in self._differences(cycle):
                raise AssertionError(difference)
            running = bool(bits(self.bench, self._running))
            assert running == (cycle <= cycles), (
                f"cycle {cycle}: model runs for {cycles} cycles, RTL's running is {int(running)}"
            )
            await self.bench.edge
        assert bits(self.bench, self._idle), f"not idle {AFTER} cycles after the end"
        found = self._cycles.value.to_unsigned()
        assert found == cycles, f"cycles: model {cycles}, RTL's counter {found}"
        return found

    def _differences(self, cycle: int) -> Iterator[str]:
        """Differences in a cycle that ends."""
        for pe, port in enumerate(self._writes):
            at = cycle - port.late
            expected = self.model.writes.get((at, pe))
            found = port.found(at)
            if expected != found:
                yield f"{self._pe(pe)}, cycle {at}: model {_write(expected)}, RTL {_write(found)}"
        if isinstance(self.image, StaticImage):
            yield from self._wrong_wires(cycle - 1)
            return
        for link, port in self._links.items():
            at = cycle - port.late
            expected = self.model.tokens.get((at, link))
            found = port.found(at)
            if expected != found:
                where = link_name(link, self.overlay.cols)
                sides = port.told(expected), port.told(found)
                yield f"{where}, cycle {at}: model {sides[0]}, RTL {sides[1]}"

    def _wrong_wires(self, cycle: int) -> Iterator[str]:
        """Links of static PEs: values that somebody receives."""
        for link, wire in self._wires.items():
            expected = self.model.tokens.get((cycle, link))
            if expected is not None and (found := bits(self.bench, wire)) != expected:
                where = link_name(link, self.overlay.cols)
                yield f"{where}, cycle {cycle}: model {expected:#x}, RTL {found:#x}"

    def _pe(self, pe: int) -> str:
        return f"PE {pe} ({pe % self.overlay.cols}, {pe // self.overlay.cols})"

    async def check_values(self) -> None:
        """Read every node's value, and compare it with the model's; raises AssertionError."""
        nodes = {"pe": self.image.node_pe, "address": self.image.node_address}
        self._look.send(look_layout(self.overlay, self.image.sizes).pack(nodes))
        found: list[int] = []
        for _ in range(len(self.values) + AFTER):
            await self.bench.edge
            raw = self._value.value
            if raw[0]:
                found.append(raw.to_unsigned() >> 1)
        expected = self.values.tolist()
        assert len(found) == len(expected), f"{len(found)} of {len(expected)} values are read"
        for node, sides in enumerate(zip(expected, found, strict=True)):
            assert sides[0] == sides[1], (
                f"value of node {node}: model {sides[0]:#x}, RTL {sides[1]:#x}"
            )


def _write(write: tuple[int, int] | None) -> str:
    return "writes nothing" if write is None else f"writes {write[1]:#x} to address {write[0]}"


class _Write:
    """Write port of a PE's value memory; static PEs show a write a cycle later."""

    def __init__(self, bench: Bench, pe: Any, kind: str):
        self.late = int(kind == "static")
        memory, port = (pe, "_put") if self.late else (pe["values"], "write")
        self.bench = bench
        self.ports = [memory[f"{port}__{name}"] for name in ("en", "addr", "data")]

    def found(self, cycle: int) -> tuple[int, int] | None:
        """Address and value that are written in a cycle."""
        en, address, data = self.ports
        if cycle < 0 or not bits(self.bench, en):
            return None
        return bits(self.bench, address), bits(self.bench, data)


class _Link:
    """A link of dynamic PEs: a stream, or a register, which shows a token a cycle later."""

    def __init__(self, bench: Bench, tile: Any, side: str, layout: Layout, is_register: bool):
        self.late = int(is_register)
        self.bench = bench
        self.port = tile[side] if is_register else StreamBus.of(tile, side)
        self.layout = layout

    def found(self, cycle: int) -> int | None:
        """Token that a router puts there in a cycle."""
        if isinstance(self.port, StreamBus):
            return self.port.beat(self.bench) if self.port.moves(self.bench) else None
        if cycle < 0 or not self.port.value[0]:
            return None
        return bits(self.bench, self.port) >> 1

    def told(self, token: int | None) -> str:
        """A token in words."""
        if token is None:
            return "no token"
        return ", ".join(f"{name} {value:#x}" for name, value in self.layout.unpack(token).items())
