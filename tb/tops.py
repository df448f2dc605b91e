"""Test tops: units of one room side by side in one fabric, as exported, each with ports of its own;
and how pytest runs the cocotb tests of a module on one.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import cocotb
import networkx as nx

from ..hw import export
from ..hw.yosys import VERSION as YOSYS
from ..machine import config as configs
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.stimulus import Point
from ..system.cache import digest, entry
from ..system.sources import PACKAGE, digest_of, sources_of
from ..testing.agents import Bench, ConfigDriver
from ..testing.beats import damaged
from ..testing.scoreboard import ModelScoreboard
from ..testing.zoo import Zoo
from . import toolchain, waves
from .design import design_of
from .exported import Design, module_ports

DAMAGES = 12
"""Draws of a beat of a kind of unit that is damaged."""
WATCHED = {"penstock_fifo*": ("?_valid", "?_ready", "?_payload")}
"""Signals inside a fabric that tests read: both ends of every channel."""


def small(t: int = 2, dtype: str = "fp32", **machine: Any) -> Config:
    """``small_fpga`` with tiles of edge ``t``, and more as given."""
    base = configs.load("small_fpga")
    given = {"dtype": dtype, "rows_per_cycle": t, "lanes": {"default": t * t}, "load_lines": 32}
    return configs.check(replace(base, machine=replace(base.machine, t=t, **given, **machine)))


def equal(bench: Bench, found: Any, expected: Any) -> None:
    """Raise AssertionError with the cycle where what was found by then is not as expected."""
    assert found == expected, f"{found} by cycle {bench.cycle}, not {expected}"


@dataclass(frozen=True)
class UnitTop:
    """A fabric of units between sources and sinks."""

    zoo: Callable[..., Zoo]
    config: Config = field(default_factory=small)

    @functools.cached_property
    def built(self) -> Zoo:
        return self.zoo()

    @functools.cached_property
    def kinds(self) -> list[str]:
        """Kinds of its units, sources and sinks aside."""
        names = {u.kind.name for u in self.built.graph().units}
        return sorted(names - {"source", "sink"})

    def units(self, kind: str) -> set[int]:
        """Units of a kind, and all that they depend on."""
        graph = self.built.graph()
        joined = nx.Graph([(c.src[0], c.dst[0]) for c in graph.channels])
        joined.add_edges_from((u, poster) for u in graph.memories() for poster in graph.posters(u))
        parts = nx.connected_components(joined)
        return set().union(*(p for p in parts if kind in {graph.units[u].kind.name for u in p}))

    @functools.cached_property
    def design(self) -> Design:
        """The fabric as exported."""
        return design_of(self.built.graph(), self.config, probes=False)

    def point(self, source: str, sink: str, draw: int = 0, **sizes: int) -> Point:
        """Streams of a draw under stall patterns; ``sizes``: arguments of the zoo, where they
        differ from run to run.
        """
        zoo = self.zoo(**sizes) if sizes else self.built
        return zoo.point(cocotb.RANDOM_SEED % 2**32 + draw, source, sink)

    async def agree(self, dut: Any, kind: str, source: str, sink: str, **sizes: int) -> None:
        """Run all units of a kind under stall patterns; each beat is that of the fast model."""
        point = self.point(source, sink, **sizes)
        await (await self.begun(Bench(dut), point, self.units(kind))).run()

    async def agree_again(self, dut: Any, use_twice: bool = True) -> None:
        """Run all units after a reset in mid-run, and once more without one where each is then as
        at first; counters are the model's, too.
        """
        scoreboard = await self.begun(Bench(dut), self.point("random", "random"))
        await scoreboard.run(scoreboard.expected.cycles // 2)
        await scoreboard.bench.reset()
        await scoreboard.run()
        await scoreboard.check_counters()
        if use_twice:
            scoreboard.bench.restart()
            await scoreboard.run()

    async def agree_on_damage(self, dut: Any) -> None:
        """Run the units of each kind with a damaged beat, drawn `DAMAGES` times, where the model
        finds a fault: it is shown in its cycle.
        """
        bench = Bench(dut)
        found = 0
        for draw, kind in enumerate(self.kinds * DAMAGES):
            units = self.units(kind)
            point = self.point("random", "random", draw)
            rng = np.random.default_rng([cocotb.RANDOM_SEED % 2**32, draw])
            u = rng.choice(sorted(point.sources.keys() & units))
            sources = {**point.sources, u: damaged(rng, point.sources[u])}
            with contextlib.suppress(RunError):  # a deadlock
                scoreboard = ModelScoreboard(
                    bench, replace(point, sources=sources), self.config, units
                )
                if scoreboard.fault:
                    await self._configure(scoreboard)
                    await scoreboard.run()
                    found += 1
        await bench.edge  # Icarus ends in a fault where a write is left for after the test
        assert found, "no damage is a fault"

    async def begun(
        self, bench: Bench, point: Point, units: Collection[int] = ()
    ) -> ModelScoreboard:
        """The scoreboard of a point after configuration and reset."""
        scoreboard = ModelScoreboard(bench, point, self.config, units)
        await self._configure(scoreboard)
        return scoreboard

    async def _configure(self, scoreboard: ModelScoreboard) -> None:
        bench = scoreboard.bench
        bench.dut.rst.value = 1
        await ConfigDriver(bench).write(self.design.writes(scoreboard.point))
        await bench.reset()


@dataclass(frozen=True)
class ComponentTop:
    """Components side by side, each with ports of its own; names of ports begin with its name."""

    top: str
    make: Callable[..., Any]

    @functools.cached_property
    def folder(self) -> Path:
        """Folder of its Verilog as exported, or from the cache."""
        files = sources_of([Path(inspect.getfile(self.make)), PACKAGE / "hw"])
        key = digest(self.top, digest_of(files), toolchain.package_version("amaranth"), YOSYS)
        with entry("verilog", key) as (folder, ready):
            if not ready:
                self._write(folder)
        return folder

    def _write(self, folder: Path) -> None:
        from ..hw.parts import SideBySide

        done = export.export(SideBySide(self.make()), self.top)
        (folder / f"{self.top}.v").write_text(done.verilog, encoding="utf-8")

    @property
    def verilog(self) -> dict[str, str]:
        """The top's Verilog by file."""
        return {"top.v": (self.folder / f"{self.top}.v").read_text(encoding="utf-8")}


class WrittenTop(ComponentTop):
    """A design that ``make`` writes into a folder."""

    def _write(self, folder: Path) -> None:
        self.make(folder)


def signals(top: str, ports: Sequence[str], watched: Mapping[str, Sequence[str]]) -> str:
    """Verilator's control file: signals that tests write and read, ports of the top among them."""
    lines = [f'public_flat_rw -module "{top}" -var "{port}"' for port in ports]
    for module, names in watched.items():
        lines += [f'public_flat_rd -module "{module}" -var "{name}"' for name in names]
    return "\n".join(["`verilator_config", *lines]) + "\n"


def simulate(
    hdl: Any, design: Design | ComponentTop, watched: Mapping[str, Sequence[str]] = WATCHED
) -> None:
    """Build a design with the simulator that pytest chooses, unless the cache has it, and run the
    cocotb tests of the module that calls.
    """
    top = design.top
    verilog = "\n".join(design.verilog.values())
    ports = module_ports(verilog, [top])[top]
    texts = {f"{top}.v": "`timescale 1ns/1ps\n" + verilog}
    args = ["-g2012"]
    if hdl.simulator == "verilator":
        texts = {"signals.vlt": signals(top, ports, watched), **texts}
        args = [*toolchain.FLAGS, *toolchain.layout()]
        hdl.runner.traced = hdl.runner.own_headers = hdl.waves
        hdl.runner.objects = toolchain.ready_objects(toolchain.make_variables())
    key = digest(
        *(f"{name}\n{text}" for name, text in texts.items()),
        hdl.simulator,
        str(hdl.waves),
        *args,
        toolchain.package_version("cocotb"),
        *toolchain.tools_in_use(),
        str(toolchain.make_inputs()),
    )
    with entry("sim", f"{top}-{key}") as (folder, ready):
        if not ready:
            (folder / "src").mkdir()
            for name, text in texts.items():
                (folder / "src" / name).write_text(text, encoding="utf-8")
            hdl.build(
                sources=[folder / "src" / name for name in texts],
                toplevel=top,
                build_args=args,
                build_dir=folder,
                waves=hdl.waves,
                always=True,
            )
            toolchain.keep_runtime(folder, toolchain.make_variables())
    hdl.toplevel_lang = "verilog"
    form = "fst" if hdl.simulator == "icarus" or not hdl.waves else toolchain.wave_format()
    dump = Path(hdl.test_dir, f"dump.{form}")
    if hdl.waves:
        dump.parent.mkdir(parents=True, exist_ok=True)
        dump.unlink(missing_ok=True)
        hdl.env["COCOTB_RESULTS_ATTACHMENTS"] = str(dump)
        hdl.plusargs.append(f"+dumpfile_path={dump}")
    try:
        results = hdl.test(toplevel=top, build_dir=folder)
    finally:
        if hdl.waves and dump.is_file():
            waves.of_suite(dump, top, design.graph if isinstance(design, Design) else None, ports)
    assert "<testcase" in results.read_text(encoding="utf-8"), f"no cocotb test ran: {results}"
