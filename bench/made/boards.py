"""Bitstreams: CPU time of synthesis and of place and route, cells in
use, clock rate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from penstock.board import overlay, run
from penstock.board.bitstream import Bitstream
from penstock.board.platforms import BOARDS
from penstock.board.run import Place
from penstock.machine.overlay import Overlay
from records import UNITS, Record, Sources, preset
from routed import routed

SEEDS = (1,)
LEAN = "lean_fpga"
PROGRAMS = ("swiglu", "simple_moe")
GRAPH = "device:mos"
MESHES = (2, 4)
WHAT = (*PROGRAMS, *(f"overlay {n}x{n}" for n in MESHES))
CASES = {
    f"{what}, {board}, seed {seed}": (what, board, seed)
    for board in BOARDS
    for what in reversed(WHAT)
    for seed in SEEDS
}
"""Design, board, seed of the placement."""


def mesh(n: int) -> Overlay:
    """The overlay of n x n static PEs, each with one kind of operation."""
    return Overlay(rows=n, cols=n, pe="static", alu="deep", kinds="specialised")


def maker(what: str) -> Callable[..., Bitstream]:
    """What builds a design."""
    if what in PROGRAMS:
        return lambda **given: run.build(what, LEAN, {}, **given)
    n = int(what.partition("x")[2])
    return lambda **given: overlay.build(GRAPH, mesh(n), **given)


def case(name: str) -> dict:
    """One bitstream."""
    what, board, seed = CASES[name]
    with tempfile.TemporaryDirectory() as out:
        made = maker(what)(place=Place(board), out=out, seed=seed)
    about = {"design": what, "board": board, "part": made.part, "seed": seed}
    shown = {key: getattr(made, key) for key in ("synthesis_s", "routing_s", "fmax_mhz")}
    return routed([about | shown | {"used": made.used}])


def sources(name: str) -> Sources:
    """Board, and what is on it."""
    what = CASES[name][0]
    if what not in PROGRAMS:
        return Sources(("bench/made/boards.py", "board/overlay.py", "hw/host/overlay_board.py"))
    more = (f"workloads/{what}.py", preset(LEAN))
    return Sources(("bench/made/boards.py", "board/run.py", "hw/host/board.py", *UNITS, *more))


RECORD = Record("boards", cases=lambda: CASES, run=case, sources=sources)
