"""The tables of docs/array.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from made import array_rtl, tracks
from made.array import MEMORIES, RECORD
from made.price import ARRAYS
from made.price import RECORD as PRICES
from penstock.hw.array.parts import GROUPS
from penstock.machine.array.network import Network
from penstock.machine.array.structure import Structure
from penstock.machine.config import load
from records import RESULTS
from tables import frame

ONE = {
    "slots": "slot",
    "tile switches": "tile switch",
    "small switches": "small switch",
    "FIFOs": "FIFO",
    "choices": "choice",
    "interconnect": "interconnect",
}
"""A part of each group."""
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
        "loops": loops,
        "mapping": mapping,
        "tracks": on_tracks,
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
            name = f"`{array}`: {ONE[r['what']]} `{r['name']}`"
            lines.append((name, str(r["number"]), *_costs(r), f"{share:.1%}"))
        switches = sum(r["number"] * r["lut"] for r in rows if "switches" in r["what"])
        told.append(f"{switches / whole:.0%} of the LUTs of `{array}` are switches.")
    header = ("part", "number", *(f"{cell}, each" for cell in COSTS), "LUT of the array's")
    table = frame(header, lines, (False, *[True] * (len(header) - 1)))
    return f"{table}\n\n{' '.join(told)}"


def _costs(costs: dict) -> list[str]:
    return [f"{costs[key]:,.0f}" for key in COSTS.values()]


def _ran() -> dict[str, dict[str, dict]]:
    """Rows of each program, by memory."""
    return {e["case"]: {r["memory"]: r for r in e["rows"]} for e in RECORD.entries()}


def _ratio(row: dict) -> float:
    return row["there"] / row["own"]


def _is_judged(of: dict[str, dict]) -> bool:
    """Whether a program counts: it takes 5,000 cycles and more, and its
    feedback loops cross no switch.
    """
    row = of["pipe"]
    return row["own"] >= LEAST_CYCLES and not row["loops"]


def judged() -> dict[str, list[float]]:
    """Ratios of the programs that count, by memory."""
    long = [of for of in _ran().values() if _is_judged(of)]
    return {memory: [_ratio(of[memory]) for of in long] for memory in MEMORIES}


def ratios() -> str:
    """Cycles on the array beside those on a fabric of its own, with two
    memories.
    """
    lines = []
    for case, of in _ran().items():
        cells = [
            x
            for r in (of[memory] for memory in MEMORIES)
            for x in (f"{r['own']:,}", f"{r['there']:,}", f"{_ratio(r):.3f}")
        ]
        lines.append((case, *cells, "yes" if _is_judged(of) else ""))
    one = ("own fabric", "array", "ratio")
    header = ("program", *one, *(f"{x}, `ideal`" for x in one), "judged")
    table = frame(header, lines, (False, *[True] * 6, False))
    shares = judged()
    return (
        f"{table}\n\nThe median ratio of the {len(shares['pipe'])} programs that are judged is "
        f"{median(shares['pipe']):.3f}, and {median(shares['ideal']):.3f} with memory `ideal`."
    )


def looped() -> list[tuple[str, dict]]:
    """Runs of programs whose feedback loops cross switches."""
    return [(case, r) for case, of in _ran().items() for r in of.values() if r["loops"]]


def loops() -> str:
    """What feedback loops may add, and what their programs take longer."""
    lines = [
        (
            f"{case}, `{r['memory']}`",
            str(r["loops"]),
            str(r["loop_hops"]),
            f"{r['rounds']:,}",
            f"{r['loop_hops'] * r['rounds']:,}",
            f"{r['there'] - r['own']:,}",
        )
        for case, r in looped()
    ]
    header = ("program", "loops", "hops", "rounds", "hops x rounds", "cycles more")
    return frame(header, lines, (False, *[True] * 5))


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


def mappings() -> dict[str, dict]:
    """What is known of the mapping of each program."""
    return {e["case"]: e["mapping"] for e in RECORD.entries()}


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
            f"{r['cost'] / r['longer_cost']:.3f}",
            f"{r['cpu_s']:.1f}",
        )
        for case, r in mappings().items()
    ]
    header = (
        "program",
        "units",
        "channels",
        "on wires",
        "hops",
        "tracks of a link",
        "links over the least",
        "cost over ten times longer",
        "CPU s",
    )
    return frame(header, lines, (False, *([True] * 8)))


WIDTH = {1: "1", 2: "1/2", 4: "1/4"}
"""Of the tile plane, in beats."""
NO_END = "stops"


def _luts() -> dict[tuple[str, int, int], int]:
    """LUT of a plane's switches, by plane, tracks and parts of a beat."""
    rows = tracks.RECORD.rows("price")
    return {(r["plane"], r["tracks"], r["parts"]): r["lut"] for r in rows}


def over_own(own: int, row: dict, parts: int) -> tuple[str, float | None]:
    """Cycles of a program over those of its own fabric, as a text and a
    number, where a beat is cut into parts; None: it does not run. Of
    quarters only a bound is known: the cycles of halves, or four for each
    beat of the busiest track.
    """
    if "lacks" in row:
        return "-", None
    cycles = row["there"] if parts == 1 else row["half"]
    if cycles is None:
        return NO_END, None
    if parts > 2:
        cycles = max(cycles, parts * row["busiest"])
        return f">= {cycles / own:.2f}", None
    return f"{cycles / own:.2f}", cycles / own


def by_program() -> dict[str, tuple[int, dict[tuple[str, int], dict]]]:
    """Cycles of the own fabric, and rows by plane and tracks."""
    entries = {e["case"]: e for e in tracks.RECORD.entries() if e["case"] in tracks.PROGRAMS}
    return {
        case: (e["own"], {(r["plane"], r["tracks"]): r for r in e["rows"]})
        for case, e in entries.items()
    }


def on_tracks() -> str:
    """Cycles and LUT over numbers and widths of tracks."""
    if not (found := by_program()):
        return "Not on record yet."
    luts = _luts()
    lines = []
    for plane in tracks.PLANES:
        for parts in tracks.WIDTHS if plane == "tile" else (1,):
            for number in tracks.TRACKS:
                cells = [over_own(own, of[plane, number], parts)[0] for own, of in found.values()]
                lut = luts.get((plane, number, parts))
                told = "" if lut is None else f"{lut / 1e6:.2f}"
                lines.append((plane, str(number), WIDTH[parts], *cells, told))
    header = ("plane", "tracks", "width, beats", *found, "switches, million LUT")
    table = frame(header, lines, (False, *[True] * (len(header) - 1)))
    return f"{table}{_beside_whole(luts)}"


def _beside_whole(luts: dict[tuple[str, int, int], int]) -> str:
    """How far the line is from switches that were synthesised whole."""
    array = load(tracks.SMALL).array
    assert array is not None
    told = []
    for plane, count in array.tracks.items():
        rows = PRICES.rows(f"{tracks.SMALL}, {plane} switches")
        whole = sum(r["number"] * r["lut"] for r in rows)
        if whole and (plane, count, 1) in luts:
            told.append(f"{luts[plane, count, 1] / whole - 1:+.1%} ({plane} plane)")
    if not told:
        return ""
    return f"\n\nAt the preset's tracks the line is {', '.join(told)} off whole switches."


def draw_tracks(path: Path) -> None:
    """Cycles and LUT over the tracks of the tile plane."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    numbers = list(tracks.TRACKS)
    for k, (case, (own, of)) in enumerate(by_program().items()):
        for parts, line in ((1, "-"), (2, "--")):
            shares = [over_own(own, of["tile", n], parts)[1] for n in numbers]
            values = [float("nan") if x is None else x for x in shares]
            label = case if parts == 1 else None
            left.plot(numbers, values, line, marker="o", ms=4, color=f"C{k}", label=label)
    left.axhline(1, color="k", lw=0.8)
    left.set_ylabel("cycles over those of the own fabric\n(dashed: links of half a beat)")
    left.set_ylim(top=1.2 * left.get_ylim()[1])
    left.legend(fontsize=8, ncols=2, loc="upper center")
    luts = _luts()
    for plane, parts in (("tile", 1), ("tile", 2), ("tile", 4), ("small", 1)):
        values = [luts.get((plane, n, parts), float("nan")) / 1e6 for n in numbers]
        width = "a beat" if parts == 1 else f"{WIDTH[parts]} beat"
        right.plot(numbers, values, marker="o", ms=4, label=f"{plane} plane, {width} wide")
    right.set_ylabel("LUT of the plane's switches, millions")
    right.set_ylim(bottom=0)
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.set_xlabel("tracks of a link in each direction")
        axis.set_xticks(numbers)
        axis.set_xlim(numbers[0] - 0.3, numbers[-1] + 0.3)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw() -> None:
    """The picture of the page."""
    if tracks.RECORD.entries():
        draw_tracks(RESULTS / "tracks.png")
