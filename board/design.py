"""Verilog of a board for a program: its fabric, and the host around it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..hw.export import export
from ..machine.beat import LINE_BYTES
from ..machine.config import Config, Dram, check
from ..machine.errors import PenstockError
from ..machine.limits import ADDRESS_BITS
from ..machine.sdram import SDRAM
from ..machine.unitgraph import UnitGraph
from ..system.cache import digest, entry
from ..system.sources import PACKAGE, digest_of
from ..tb import exported
from ..tb.design import design_of

TOP = "penstock_board"
STREAM_BEATS = 256
"""Beats of each stream from and to outside."""
RECORDED_LINES = 1 << 14
"""Lines of a run whose deliveries are recorded, where the memory is an SDRAM."""
MEMORIES = range(2 * LINE_BYTES, (1 << ADDRESS_BITS) // 2 + 1)
"""Bytes of a board's memory."""


@dataclass(frozen=True)
class Design:
    """A board's design, with its host, as Verilog."""

    verilog: dict[str, str]  # text by file; the top is :data:`TOP`
    number: int  # what the register ``DESIGN`` holds: 32 bits of the digest of all this
    divisor: int  # clock cycles of a bit on the serial line
    # columns and rows of its tiles, for a floor plan; None without tiles
    mesh: tuple[int, int] | None = field(default=None, kw_only=True)
    # the clock of its SDRAM in MHz; None where its memory is block RAM
    sdram: float | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class BoardDesign(Design):
    """A fabric with its host."""

    fabric: exported.Design  # the design within
    memory_bytes: int  # of the board's memory


def on_board(config: Config) -> Config:
    """A configuration with the board's memory.

    Raises
    ------
    PenstockError
        It moves more than one line in a cycle.
    """
    if config.machine.port_lanes != 1:
        raise PenstockError(
            f"its memory moves {config.machine.port_lanes} lines in a cycle, a board's one",
            f"configuration {config.name}",
            remedy="set machine.port_lanes = 1",
        )
    from ..hw.host.block_ram import LATENCY  # loads Amaranth, which takes a second

    line_bytes = config.machine.dram.line_bytes
    memory = Dram(kind="ideal", latency=LATENCY, line_bytes=line_bytes)
    return check(replace(config, machine=replace(config.machine, dram=memory)))


def board_design(
    graph: UnitGraph,
    config: Config,
    *,
    divisor: int,
    memory_bytes: int | None = None,
    sdram: float | None = None,
    simulated: bool = False,
    stage: Callable[[str], None] | None = None,
) -> BoardDesign:
    """The board of a lowered program, exported or from the cache.

    Parameters
    ----------
    graph, config
        A program lowered for a configuration of :func:`on_board`.
    divisor
        Clock cycles of a bit on the serial line.
    memory_bytes
        At least so much memory; as much as its tensors take, if not given.
    sdram
        The memory is an SDRAM at a clock of so many MHz; block RAM, if not given.
    simulated
        With the chip of the SDRAM.
    stage
        Called with one line when an export begins.

    Raises
    ------
    PenstockError
        The tensors do not fit into the memory.
    """
    line_bytes = config.machine.dram.line_bytes
    lines = _lines(graph, line_bytes, memory_bytes)
    fabric = design_of(graph, config, probes=False, stage=stage)
    if sdram is not None and lines * line_bytes > SDRAM.bytes:
        raise PenstockError(
            f"its memory of {lines * line_bytes} bytes is more than the SDRAM's {SDRAM.bytes}",
            f"program {graph.name}",
            remedy="use smaller tensors",
        )
    rooms = sorted((PACKAGE / "hw" / "host").rglob("*.py"))
    shared = [PACKAGE / "machine" / f"{name}.py" for name in ("host_map", "host_frames", "sdram")]
    kept = {"lines": lines, "stream_beats": STREAM_BEATS}
    if sdram is not None:
        kept |= {"sdram": sdram, "recorded_lines": RECORDED_LINES}
    shape = [digest_of([Path(__file__), *rooms, *shared]), kept, fabric.key]
    number = number_of(shape)
    key = digest(json.dumps(shape), str(divisor), str(simulated))
    with entry("verilog", f"board-{key}") as (folder, ready):
        path = folder / f"{TOP}.v"
        if not ready:
            if stage:
                stage("export the board")
            facts = kept | {"digest": number, "divisor": divisor}
            path.write_text(_export(graph, config, fabric.top, facts, simulated=simulated))
        top = path.read_text(encoding="utf-8")
    verilog = {**fabric.verilog, f"{TOP}.v": top}
    return BoardDesign(verilog, number, divisor, fabric, lines * line_bytes, sdram=sdram)


def number_of(shape: Sequence[object]) -> int:
    """32 bits of a digest, of values that JSON has."""
    return int(hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:8], 16)


def _lines(graph: UnitGraph, line_bytes: int, memory_bytes: int | None) -> int:
    """Lines of the memory: a power of two."""
    wanted = graph.memory_bytes if memory_bytes is None else memory_bytes
    if wanted < graph.memory_bytes:
        raise PenstockError(
            f"its tensors take {graph.memory_bytes} bytes, the memory has {wanted}",
            f"program {graph.name}",
            remedy="use smaller tensors, or more memory (--memory)",
        )
    return 1 << max(1, (-(-wanted // line_bytes) - 1).bit_length())


def _export(graph: UnitGraph, config: Config, module: str, facts: dict, *, simulated: bool) -> str:
    # Amaranth takes a second to import; only an export needs it.
    from ..hw.fabric import Fabric
    from ..hw.host.board import Board
    from ..hw.host.sdram.simulated import SimulatedBoard

    board = Board(Fabric(graph, config), module, **facts)
    if simulated and "sdram" in facts:
        size = facts["lines"] * config.machine.dram.line_bytes
        board = SimulatedBoard(board, memory_bytes=size, clock_mhz=facts["sdram"])
    return export(board, TOP).verilog
