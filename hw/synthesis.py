"""Cost of a component on an FPGA, by Yosys."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError, RunError
from ..system import children
from ..system.cache import digest, entry
from .yosys import VERSION, synthesised

if TYPE_CHECKING:
    from amaranth.lib import wiring

LUTS = {
    "xc7": {"LUT1": 1, "LUT2": 1, "LUT3": 1, "LUT4": 1, "LUT5": 1, "LUT6": 1},
    "ecp5": {"LUT4": 1, "CCU2C": 2},
}
LUT_RAMS = {
    "xc7": {
        "RAM32X1S": 1,
        "RAM32X1D": 2,
        "RAM64X1S": 1,
        "RAM64X1D": 2,
        "RAM128X1S": 2,
        "RAM128X1D": 4,
        "RAM256X1S": 4,
        "RAM32M": 4,
        "RAM64M": 4,
        "SRL16E": 1,
        "SRLC32E": 1,
    },
    "ecp5": {"TRELLIS_DPR16X4": 4},
}
"""LUTs that a memory primitive takes."""
FLIP_FLOPS = {"xc7": ("FDRE", "FDSE", "FDCE", "FDPE"), "ecp5": ("TRELLIS_FF",)}
BLOCK_RAMS = {"xc7": {"RAMB18E1": 0.5, "RAMB36E1": 1.0}, "ecp5": {"DP16KD": 1.0}}
MULTIPLIERS = {"xc7": ("DSP48E1",), "ecp5": ("MULT18X18D", "ALU54B")}
SCRIPTS = {
    "xc7": "synth_xilinx -family xc7 -flatten -top {top}",
    "ecp5": "synth_ecp5 -noabc9 -top {top}",
}
FAMILIES = tuple(SCRIPTS)
"""FPGA families: Xilinx 7 (6-input LUTs, the paper's) and Lattice ECP5 (4-input LUTs; the two of a
carry cell count).
"""
OTHER = (
    "BUFG",
    "IBUF",
    "OBUF",
    "INV",
    "CARRY4",
    "MUXF7",
    "MUXF8",
    "$scopeinfo",
    "PFUMX",
    "L6MUX21",
)
"""Cells that take no LUT, flip-flop, block RAM or multiplier of their own."""


def look_at_parts() -> None:
    """Let components be asked what they are made of, without a warning that they are not
    converted.
    """
    from amaranth.hdl import UnusedElaboratable

    warnings.filterwarnings("ignore", category=UnusedElaboratable)


@dataclass(frozen=True)
class Cost:
    """Cells of one component."""

    lut: int  # LUTs in all: logic, and those that are memory
    lut_ram: int  # those that are memory
    # ff, bram, dsp: flip-flops; block RAMs (xc7: of 36 kbit, halves for 18; ecp5: of 18 kbit);
    # multiplier blocks
    ff: int
    bram: float
    dsp: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )


@dataclass(frozen=True)
class Cells:
    """Result of the synthesis of one component."""

    cells: dict[str, int]  # cells by type, as Yosys names them
    digest: str  # of the component's Verilog, the script and the version of Yosys

    def cost(self, family: str) -> Cost:
        """Raises ``RunError`` for a cell that is not known here."""
        return _count(self.cells, family)


def cost(component: wiring.Component, family: str = "xc7") -> Cost:
    """Cost of a component by itself; results are cached.

    Raises
    ------
    PenstockError
        For an unknown family.
    RunError
        Yosys failed, or gave a cell that is not known here.
    """
    return synthesise(component, family).cost(family)


def synthesise(
    component: wiring.Component, family: str = "xc7", *, memories: bool = False
) -> Cells:
    """Synthesise a component by itself; results are kept in the cache folder.

    Parameters
    ----------
    component
        What leaves as Verilog.
    family
        One of `FAMILIES`.
    memories
        Stop (ecp5 alone) when memories are mapped and logic is not: seconds instead of minutes.

    Raises
    ------
    PenstockError
        For an unknown family.
    RunError
        Yosys failed.
    """
    from .export import export  # which loads Amaranth; names of families do without

    if family not in SCRIPTS:
        raise PenstockError(
            f"unknown FPGA family {family!r}", remedy=f"use one of {', '.join(FAMILIES)}"
        )
    done = export(component)
    script = _script(done.top, family, memories)
    key = digest(done.verilog, script, VERSION)
    with entry("synth", key) as (folder, ready):
        stored = folder / "cells.json"
        if not ready:
            stored.write_text(json.dumps(_run(done.verilog, script)))
        return Cells(json.loads(stored.read_text(encoding="utf-8")), key)


def _script(top: str, family: str, memories: bool) -> str:
    command = SCRIPTS[family].format(top=top)
    if memories:
        command += " -run begin:map_gates"
    return f"read_verilog in.v; {command}; tee -q -o stat.json stat -json"


def _run(verilog: str, script: str) -> dict[str, int]:
    with children.temporary() as folder:
        synthesised(verilog, script, folder)
        return json.loads((folder / "stat.json").read_text(encoding="utf-8"))["design"][
            "num_cells_by_type"
        ]


def _count(cells: dict[str, int], family: str) -> Cost:
    known = {
        *LUTS[family],
        *LUT_RAMS[family],
        *FLIP_FLOPS[family],
        *BLOCK_RAMS[family],
        *MULTIPLIERS[family],
        *OTHER,
    }
    if strange := sorted(set(cells) - known):
        raise RunError(
            f"cells of unknown cost: {', '.join(strange)}",
            f"synthesis for {family}",
            remedy="add them to hw/synthesis.py",
        )

    def total(weights):
        return sum(cells.get(cell, 0) * weight for cell, weight in weights.items())

    memory = total(LUT_RAMS[family])
    return Cost(
        int(total(LUTS[family]) + memory),
        int(memory),
        int(total(dict.fromkeys(FLIP_FLOPS[family], 1))),
        float(total(BLOCK_RAMS[family])),
        int(total(dict.fromkeys(MULTIPLIERS[family], 1))),
    )
