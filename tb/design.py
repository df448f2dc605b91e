"""Verilog that the bench runs, from a unit graph: one export per structure, cached."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import asdict
from pathlib import Path

from ..hw.export import place
from ..hw.export.module_key import ModuleKey
from ..hw.registry import UNITS
from ..hw.yosys import VERSION as YOSYS
from ..machine import kinds
from ..machine.config import Config, shaping
from ..machine.unitgraph import UnitGraph
from ..system.cache import cache_dir, digest, entry
from ..system.output import write_text
from ..system.sources import PACKAGE, digest_of, sources_of
from .exported import Design
from .toolchain import package_version

BEGIN = re.compile(r"( reg [^=;]*\bcfg\w+) = [^;]*(?=;)")
"""What a run-time register holds from the beginning: of the program that was exported, which says
nothing of the hardware. The bench writes them all; without it, designs share simulators.
"""


def design_of(
    graph: UnitGraph,
    config: Config,
    *,
    probes: bool = True,
    stage: Callable[[str], None] | None = None,
) -> Design:
    """The fabric of a graph, exported or from the cache.

    Parameters
    ----------
    graph, config
        A lowered program and its machine.
    probes
        Whether it has the bench's probes, or is what leaves as Verilog.
    stage
        Called with one line when an export begins (not when the cache has it).
    """
    from ..hw import export, fabric

    shape = graph.structure(config.machine.registers)
    structure = json.dumps({**shape.to_dict(), "name": ""}, sort_keys=True)
    machine = json.dumps(asdict(shaping(config.machine)), sort_keys=True)
    files = [Path(__file__), *_sources(graph)]
    sources = digest(digest_of(files), package_version("amaranth"), YOSYS)
    key = digest(structure, machine, sources, *([] if probes else ["as it leaves"]))
    start = time.perf_counter()
    say = stage or (lambda _line: None)
    with entry("verilog", key, lambda: say("wait for another process's Verilog")) as (
        folder,
        ready,
    ):
        if not ready:
            say("export Verilog")
            made = fabric.Fabric(graph, config, probes=probes)
            done = export.export(made, store=Modules(sources))
            (folder / "fabric.v").write_text(done.verilog, encoding="utf-8")
            (folder / "fabric.json").write_text(json.dumps(done.sidecar), encoding="utf-8")
        sidecar = json.loads((folder / "fabric.json").read_text(encoding="utf-8"))
        verilog = BEGIN.sub(r"\1", (folder / "fabric.v").read_text(encoding="utf-8"))
    return Design(
        graph,
        {"fabric.v": verilog},
        sidecar["top"],
        tuple(sidecar["registers"]),
        tuple(sidecar["shared"]),
        config.machine.port_lanes,
        config.machine.response_lanes,
        config.machine.dram.line_bytes,
        0.0 if ready else time.perf_counter() - start,
        key,
        config.machine.counters,
    )


class Modules(MutableMapping[str, place.Modules]):
    """Modules of earlier exports, on disk: a unit is elaborated once and serves every design that
    has it.

    Parameters
    ----------
    sources
        Digest of everything that shapes a module besides its key.
    """

    def __init__(self, sources: str):
        self.folder = cache_dir() / "modules" / sources
        self.folder.mkdir(parents=True, exist_ok=True)
        os.utime(self.folder)  # used

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def __getitem__(self, name: str) -> place.Modules:
        try:
            stored = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none, or half of one: it is made anew
            raise KeyError(name) from None
        return {part: (ModuleKey(*key), text) for part, (key, text) in stored.items()}

    def __setitem__(self, name: str, modules: place.Modules) -> None:
        write_text(self._path(name), json.dumps(modules))

    def __delitem__(self, name: str) -> None:
        self._path(name).unlink()

    def __iter__(self) -> Iterator[str]:
        return (p.stem for p in self.folder.glob("*.json"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _sources(graph: UnitGraph) -> list[Path]:
    """Files of everything that shapes the Verilog: the hardware's package, components and functions
    from outside, and all that these import.
    """
    from ..hw.functions import DATAPATHS

    of_units = (where.get(u.kind.name) for u in graph.units for where in (UNITS, kinds.KINDS))
    classes = [c for c in (*of_units, *DATAPATHS.values()) if inspect.isclass(c)]
    rooms = [PACKAGE / "hw", PACKAGE / "machine" / "kinds"]
    # What runs tools and keeps files shapes nothing, and a board is around a fabric.
    without = [PACKAGE / "system", PACKAGE / "hw" / "host"]
    return sources_of([*rooms, *classes], without=without)
