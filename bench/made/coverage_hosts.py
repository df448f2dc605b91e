"""Which branches and statements of ``hw/`` the overlay's regression,
runs on simulated boards and bus models reach: `nox -s records --
coverage_hosts`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from amaranth.lib import wiring
from counted import counted
from inputs import SHIPPED
from penstock.board import design as designs
from penstock.board import overlay as overlays
from penstock.board import run as boards
from penstock.board import simulator
from penstock.board.design import BoardDesign
from penstock.board.run import SIMULATED, Place
from penstock.frontend.spice.source import graph_from
from penstock.hw.fabric import Fabric
from penstock.hw.host.board import Board
from penstock.hw.host.overlay_board import OverlayBoard
from penstock.hw.host.sdram.simulated import SimulatedBoard
from penstock.hw.overlay import Overlay as Component
from penstock.machine.config import load
from penstock.machine.errors import RunError
from penstock.machine.overlay import Overlay
from penstock.overlay import regression
from penstock.overlay.traffic import TRAFFIC
from penstock.runs.point import Point
from penstock.scheduler.token import Mapped, map_graph
from penstock.tb import overlay_api
from penstock.tb.coverage import Reached
from records import Record, Sources, of_overlay, on_rtl, overlay_rtl, preset

from made import bus_runs
from made.reached import rows_of

SIDE = 2
SUITES = ("4x4", "fp64", "pipelined", "adversarial")
"""Of the overlay's regression; their machines as meshes of 2 x 2."""
BOARD = "small_board"
GRAPH = "gen:gates:12"
"""What runs on the overlay of a board."""
BOARDS = {
    "board swiglu": ("swiglu", Place()),
    "board swiglu, sdram": ("swiglu", Place(ram="sdram")),
    "board simple_moe": ("simple_moe", Place()),
}
"""Program, and where it runs."""


def on_overlay(pe: str) -> Reached:
    """The regression on PEs of a kind."""
    found = Reached()
    cases = [case for name in SUITES for case in regression.SUITES[name]]
    for case in cases:
        if case.overlay.pe != pe:
            continue
        small = replace(case, overlay=replace(case.overlay, rows=SIDE, cols=SIDE))
        mapped = mapped_of(small)
        images = [one.image for one in mapped.values()]
        overlay, sizes = overlay_api.hardware(images)
        component = Component(
            overlay=overlay, sizes=sizes, classes=overlay_api.classes_of(images), probes=True
        )
        with counted(component, overlay_api.TOP) as design:
            ran = regression.run_mapped(mapped)
        if not all(outcome.equal for outcome in ran.outcomes):
            raise RunError("RTL and model differ", small.name)
        found.add(design.reached())
        print(f"  {small.name}: {len(found.entered)} of {len(found.there)} branches", flush=True)
    return found


def mapped_of(case: regression.Case) -> dict[str, Mapped]:
    """The graphs of a case, on each of its placements."""
    overlay = case.overlay
    mapped = {}
    for spec, graph in regression.graphs_of(case, SHIPPED / "matrices").items():
        rng = np.random.default_rng(0)
        placements = [TRAFFIC[name](graph, SIDE, rng) for name in case.traffic] or [None]
        for k, placed in enumerate(placements):
            mapped[f"{spec} {k}"] = map_graph(graph, overlay, pe=placed)
    return mapped


def on_board(name: str) -> Reached:
    """A program on a simulated board."""
    program, place = BOARDS[name]
    config = designs.on_board(load(BOARD))
    point = Point(program, config, {})
    design = designs.board_design(
        point.graph, config, divisor=place.divisor, sdram=place.sdram, simulated=True
    )
    with counted(board_of(point, design), designs.TOP) as made:
        boards.run(program, BOARD, place=place, on="both")
    return made.reached()


def board_of(point: Point, design: BoardDesign) -> wiring.Component:
    """The component that a board's design is exported from."""
    lines = design.memory_bytes // point.config.machine.dram.line_bytes
    told = {
        "lines": lines,
        "stream_beats": designs.STREAM_BEATS,
        "digest": design.number,
        "divisor": design.divisor,
    }
    fabric = Fabric(point.graph, point.config)
    if design.sdram is None:
        return Board(fabric, design.fabric.top, **told)
    told |= {"sdram": design.sdram, "recorded_lines": designs.RECORDED_LINES}
    board = Board(fabric, design.fabric.top, **told)
    return SimulatedBoard(board, memory_bytes=design.memory_bytes, clock_mhz=design.sdram)


def overlay_on_board() -> Reached:
    """A graph on the overlay of a simulated board."""
    overlay = Overlay(SIDE, SIDE)
    image = map_graph(graph_from(GRAPH), overlay).image
    divisor = simulator.DIVISOR
    design = overlays.overlay_design(image, divisor=divisor)
    component = Component(
        overlay=image.overlay, sizes=image.sizes, classes=overlay_api.classes_of([image])
    )
    board = OverlayBoard(component, digest=design.number, divisor=divisor)
    with counted(board, designs.TOP) as made:
        overlays.run(GRAPH, overlay, place=SIMULATED, on="both")
    return made.reached()


CASES: dict[str, Callable[[], Reached]] = {
    **{f"overlay {pe}": lambda pe=pe: on_overlay(pe) for pe in ("static", "dynamic")},
    **{name: lambda name=name: on_board(name) for name in BOARDS},
    "board overlay": overlay_on_board,
    **{name: lambda name=name: bus_runs.run(name) for name in bus_runs.CASES},
}
"""Name -> what it reaches."""


def run(case: str) -> dict:
    """What a case reaches, a row for each file."""
    return {"rows": rows_of(CASES[case]())}


def sources(case: str) -> Sources:
    """Those of its design, of its program, and of what counts."""
    shared = ("bench/made/coverage_hosts.py", "hw/covers.py", "bench/counted.py", "tb/coverage.py")
    if case in bus_runs.CASES:
        checks = (f"tests/board/{name}.py" for name in ("bus_checks", "crossing_checks"))
        return of_overlay(*shared, *checks, "tests/board/host_top.py")
    if case in BOARDS:
        program = f"workloads/{BOARDS[case][0]}.py"
        return on_rtl(*shared, "board/*.*", "hw/host/**/*.py", preset(BOARD), program)
    return overlay_rtl(*shared, "overlay/regression.py", "board/*.*", "hw/host/**/*.py")


RECORD = Record("coverage_hosts", cases=lambda: list(CASES), run=run, sources=sources)
