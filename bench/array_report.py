"""The tables of docs/array.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from made import array_rtl
from made.array import CASES, RECORD
from made.price import ARRAYS
from made.price import RECORD as PRICES
from penstock.hw.array.parts import GROUPS
from penstock.machine.array.network import Network
from penstock.machine.array.structure import Structure
from penstock.machine.config import load
from tables import frame

DEAREST = 6
"""Parts of an array that are shown."""
LEAST_CYCLES = 5000
"""Of a program that counts for the median."""


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/array.md."""
    return {
        "presets": presets,
        "sizes": sizes,
        "rtl": on_rtl,
        "ratios": ratios,
        "mapping": mapping,
        "prices": prices,
        "dear": dear,
    }


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


COSTS = {"LUT": "lut", "FF": "ff", "block RAM": "bram", "DSP": "dsp"}
"""Columns, and what of a row they have."""


def _sums(array: str) -> dict[str, dict[str, float]]:
    """Costs of all parts of each kind, and of each program's fabric."""
    sums: dict[str, dict[str, float]] = {}
    for row in PRICES.rows(array):
        mine = sums.setdefault(row["what"], dict.fromkeys(COSTS.values(), 0))
        for key in mine:
            mine[key] += row["number"] * row[key]
    return sums


def prices() -> str:
    """Arrays by kind of part, beside the fabrics of programs."""
    lines = []
    for array in filter(PRICES.rows, ARRAYS):
        sums = _sums(array)
        groups = {what: costs for what, costs in sums.items() if what in GROUPS}
        whole = {key: sum(c[key] for c in groups.values()) for key in COSTS.values()}
        shown = groups | {"all": whole}
        for what, costs in shown.items():
            share = f"{costs['lut'] / whole['lut']:.1%}"
            lines.append((f"`{array}`: {what}", *_costs(costs), share))
        for what, costs in sums.items():
            if what not in GROUPS:
                share = f"{costs['lut'] / whole['lut']:.1%}"
                lines.append((f"own fabric of `{what}`", *_costs(costs), share))
    header = ("parts", *COSTS, "LUT of the array's")
    return frame(header, lines, (False, *[True] * (len(header) - 1)))


def dear() -> str:
    """The parts that take most of an array."""
    lines = []
    told = []
    for array in filter(PRICES.rows, ARRAYS):
        rows = [r for r in PRICES.rows(array) if r["what"] in GROUPS]
        whole = sum(r["number"] * r["lut"] for r in rows)
        most = sorted(rows, key=lambda r: -r["number"] * r["lut"])[:DEAREST]
        for r in most:
            share = r["number"] * r["lut"] / whole
            name = f"`{array}`: {r['what'].removesuffix('s')} `{r['name']}`"
            lines.append((name, str(r["number"]), *_costs(r), f"{share:.1%}"))
        switches = sum(r["number"] * r["lut"] for r in rows if "switches" in r["what"])
        told.append(f"{switches / whole:.0%} of the LUTs of `{array}` are switches.")
    header = ("part", "number", *(f"{cell}, each" for cell in COSTS), "LUT of the array's")
    table = frame(header, lines, (False, *[True] * (len(header) - 1)))
    return f"{table}\n\n{' '.join(told)}"


def _costs(costs: dict) -> list[str]:
    return [f"{costs[key]:,.0f}" for key in COSTS.values()]


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
