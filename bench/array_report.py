"""The tables of docs/array.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from made import array_rtl
from made.array import CASES, RECORD
from penstock.machine.array.network import Network
from penstock.machine.array.structure import Structure
from penstock.machine.config import load
from tables import frame

LEAST_CYCLES = 5000
"""Of a program that counts for the median."""


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/array.md."""
    return {"presets": presets, "sizes": sizes, "rtl": on_rtl, "ratios": ratios, "mapping": mapping}


def presets() -> str:
    """What the shipped arrays have."""
    lines = []
    for name in ("array_tiny", "array_small", "array_moe8"):
        config = load(name)
        array = config.array
        assert array is not None
        network = Network(array)
        lines.append(
            (
                f"`{name}`",
                f"{array.rows} x {array.cols}",
                str(len(network.slots)),
                str(len(network.wires)),
                str(len(network.offchip)),
                f"{array.tracks['tile']} + {array.tracks['small']}",
            )
        )
    header = ("preset", "sites", "slots", "local wires", "off-chip slots", "tracks, tile + small")
    return frame(header, lines, (False, True, True, True, True, True))


def sizes() -> str:
    """What an image sets, by slot and switch."""
    structure = Structure(load("array_small"))
    lines = [
        (f"`{x.name}`", str(x.number), f"{x.bits:,}", f"{x.table_bits:,}")
        for x in structure.sizes()
    ]
    table = frame(("slot or switch", "number", "registers", "tables"), lines, (False, *[True] * 3))
    words = sum(block.layout.registers for block in structure.blocks)
    return (
        f"{table}\n\nIts image has {4 * structure.words:,} bytes, {4 * words:,} of them for "
        "registers."
    )


def _rows() -> dict[str, dict]:
    return dict(zip(CASES, RECORD.rows(), strict=True))


def ratios() -> str:
    """Cycles on the array beside those on a fabric of its own."""
    rows = _rows()
    lines = [
        (case, f"{r['own']:,}", f"{r['there']:,}", f"{r['there'] / r['own']:.3f}")
        for case, r in rows.items()
    ]
    header = ("program", "own fabric", "array", "ratio")
    table = frame(header, lines, (False, True, True, True))
    shares = [r["there"] / r["own"] for r in rows.values() if r["own"] >= LEAST_CYCLES]
    return (
        f"{table}\n\nThe median ratio of the {len(shares)} programs of {LEAST_CYCLES:,} cycles and "
        f"more is {median(shares):.3f}."
    )


def on_rtl() -> str:
    """Programs on one simulator build, and how fast they run."""
    built = array_rtl.RECORD.entry(array_rtl.ARRAY)
    lines = [
        (
            case,
            f"{r['own']:,}",
            f"{r['there']:,}",
            f"{r['there'] / r['own']:.3f}",
            f"{r['fifos']:,}",
            f"{r['beats']:,}",
            f"{r['there'] / r['clocked_cpu_s']:,.0f}",
        )
        for case, r in zip(array_rtl.PROGRAMS, built["rows"], strict=True)
    ]
    header = ("program", "own fabric", "array", "ratio", "FIFOs", "beats", "cycles a CPU second")
    table = frame(header, lines, (False, *[True] * 6))
    return (
        f"{table}\n\nFrom an empty cache the export takes {built['export_cpu_s']:.0f} seconds of "
        f"CPU, and the simulator build {built['build_cpu_s']:.0f}."
    )


def mapping() -> str:
    """Size of the problems, and of their answers."""
    lines = [
        (
            case,
            str(r["units"]),
            str(r["channels"]),
            str(r["wires"]),
            str(r["hops"]),
            f"{r['tile_tracks']} + {r['small_tracks']}",
            f"{r['longest']:.2f}",
            f"{r['cpu_s']:.1f}",
        )
        for case, r in _rows().items()
    ]
    header = (
        "program",
        "units",
        "channels",
        "on wires",
        "hops",
        "tracks of a link",
        "links over the least",
        "CPU s",
    )
    return frame(header, lines, (False, *([True] * 7)))
