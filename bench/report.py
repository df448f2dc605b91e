"""Results for the README and docs/results.md, from stored records, for
`docs/generate.py`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import dag_contest
import first_minute as first
import overlay_resources
import overlay_rtl
import speed as rates
from fuzz_report import added
from made import array_rtl, boards, fig8, fuzz, regress
from made.clocks_overlay import RECORD as CLOCKS
from penstock import cli, figures
from penstock.frontend import build, lower
from penstock.frontend.show.draw import draw_fabric
from penstock.hw.nextpnr import SPEEDS
from penstock.machine.config import load
from penstock.machine.record import Record
from penstock.overlay.parts import EVERY
from penstock.runs.tables import total
from tables import frame

ROOT = Path(__file__).parents[1]
STORED = ROOT / "docs" / "results"
COMMAND = ["run", "swiglu", "--config", "small_fpga", "--on", "both"]
"""The README's run of its program."""
EXAMPLE = ["run", "simple_moe", "--config", "small_fpga", "--on", "both"]
"""The run of docs/programs.md."""
MISMATCHES = attrgetter("mismatches")
NAMES = {
    "stepsim_cycles": "our `stepsim` timing",
    "step_cycles": "STeP simulator (published)",
    "hdl_cycles": "HDL (published)",
    "model_cycles": "model",
    "rtl_cycles": "RTL",
    "hbm2_cycles": "model with HBM2",
    "hbm2_rtl_cycles": "RTL with HBM2",
}


def readme() -> dict[str, Callable[[], str]]:
    """The blocks of the README."""
    return {"output": lambda: printed(COMMAND), "results": results_in_short}


def programs() -> dict[str, Callable[[], str]]:
    """The blocks of docs/programs.md."""
    return {"top2": sample, "simple_moe": lambda: printed(EXAMPLE)}


def results() -> dict[str, Callable[[], str]]:
    """The blocks of docs/results.md."""
    return {
        "figure 8": figure_8,
        "runs of figure 8": runs_of_figure_8,
        "agreements": agreements,
        "speed": speed,
        "first minute": first_minute,
    }


def sample() -> str:
    """What `penstock new top2` writes, below its docstring."""
    text = (ROOT / "samples" / "files" / "top2.py").read_text(encoding="utf-8")
    _, _, program = text.partition('"""\n\n')
    return f"```python\n{program}```"


def printed(command: list[str]) -> str:
    """What a command prints, as a block."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if cli.main([*command, "--quiet"]):
            raise SystemExit(1)
    return f"```text\n{out.getvalue()}```"


@functools.cache
def fig8_records() -> list[Record]:
    """The stored records of the RTL and fresh ones of the model."""
    return figures.fig8_records(False) + figures.hbm2_records(False)


def rtl_records(config: str = figures.FIG8_CONFIG) -> dict[tuple[int, int], Record]:
    """The runs on RTL of a machine, by tile sizes."""
    fig8.RECORD.entries()  # what fig8_records() reads
    found = [r for r in fig8_records() if (r.backend, r.config) == ("rtl", config)]
    return {(r.params["tile_b"], r.params["tile_inter"]): r for r in found}


def all_rtl_records() -> list[Record]:
    """Those with either memory."""
    machines = figures.FIG8_CONFIG, figures.HBM2_CONFIG
    return [r for config in machines for r in rtl_records(config).values()]


def figure_8() -> str:
    """Figure 8 on every backend."""
    header = [
        "tile_b",
        "tile_inter",
        NAMES["step_cycles"],
        NAMES["stepsim_cycles"],
        NAMES["hdl_cycles"],
        "model",
        "RTL",
        NAMES["hbm2_cycles"],
        NAMES["hbm2_rtl_cycles"],
        "beats that differ",
        "off-chip traffic at 256 B/cycle",
        "RTL cycles/s",
    ]
    runs = rtl_records()
    rows = []
    for r in figures.fig8_rows(fig8_records()):
        run = runs[r["tile_b"], r["tile_inter"]]
        cells = [
            r["tile_b"],
            r["tile_inter"],
            r["step_cycles"],
            r["stepsim_cycles"],
            r["hdl_cycles"] or "",
            r["model_cycles"],
            r["rtl_cycles"],
            r["hbm2_cycles"],
            r["hbm2_rtl_cycles"] or "",
            str(run.mismatches),
            f"{r['model_dram_bytes'] / 256:.0f}",
            f"{run.cycles / run.wall_s:.0f}",
        ]
        rows.append([str(c) for c in cells])
    return frame(header, rows, [True] * len(header))


def runs_of_figure_8() -> str:
    """What the check of the RTL found, with both memories."""
    runs = all_rtl_records()
    rate = sum(r.cycles for r in runs) / sum(r.wall_s for r in runs)
    observed = min(r.channels_observed for r in runs)
    rows = [
        ["points on RTL, of both memories", str(len(runs))],
        ["beats that differ from the model's", str(sum(map(MISMATCHES, runs)))],
        ["channels observed", f"{observed} of {max(r.channels_total for r in runs)}"],
        ["outputs bit-equal to NumPy", f"at {sum(bool(r.values_ok) for r in runs)} points"],
        ["largest error against float64", f"{max(r.max_rel_err for r in runs):.1e}"],
        ["RTL cycles/s, all points", f"{rate:.0f}"],
    ]
    return frame(["what", "measured"], rows, [False, False])


def fig8_agreements() -> list[dict]:
    """Of any two series."""
    return figures.fig8_agreements(figures.fig8_rows(fig8_records()))


def agreements() -> str:
    """How far any two series of figure 8 agree."""
    # RTL against model is a run's own check, not one of stored runs against this tree's model.
    rows = [a for a in fig8_agreements() if "rtl" not in a["of"] + a["against"]]
    cells = [
        [
            NAMES[a["of"]],
            NAMES[a["against"]],
            str(a["points"]),
            f"{a['pearson']:.4f}",
            f"{a['max_error']:.1%}",
        ]
        for a in rows
    ]
    return frame(
        ["", "against", "points", "Pearson", "largest error"],
        cells,
        [False, False, True, True, True],
    )


def speed() -> str:
    """The targets, what was measured, and whether they are met."""
    (record,) = rates.RECORD.entries()
    rows = []
    for t in record["rows"]:
        sign = {"at least": "≥", "at most": "≤"}[t["bound"]]
        measured = "" if t["measured"] is None else f"{amount(t['measured'])} {t['unit']}"
        limit = f"{sign} {amount(t['limit'])} {t['unit']}"
        rows.append([t["what"], limit, measured, t["verdict"]])
    table = frame(["what", "target", "measured", ""], rows, [False, True, True, False])
    return f"{table}\n\nMeasured on {record['cores']} cores, {tools(record)}."


def first_minute() -> str:
    """What a new user waits for."""
    (record,) = first.RECORD.entries()
    rows = [
        [t["what"], f"≤ {t['at most']:g}", f"{t['measured']:g}", "met" if t["met"] else "MISSED"]
        for t in record["rows"]
    ]
    table = frame(["what", "target", "measured", ""], rows, [False, True, True, False])
    return f"{table}\n\nMeasured on {record['cores']} cores, {tools(record)}."


def results_in_short() -> str:
    """One line for each claim, with the command and the commit behind
    it.
    """
    rows = [*fig8_lines(), *speed_lines(), *check_lines(), *overlay_lines()]
    rows += [array_line(), board_line(), dag_line()]
    return frame(["what", "measured", "command", "commit"], rows, [False] * 4)


def fig8_lines() -> list[list[str]]:
    """Figure 8, in cycles."""
    runs = all_rtl_records()
    by = {(a["of"], a["against"]): a for a in fig8_agreements()}
    differ = sum(map(MISMATCHES, runs))
    hdl = by["model_cycles", "hdl_cycles"]
    step = by["stepsim_cycles", "step_cycles"]
    return [
        [
            "figure 8, RTL against model",
            f"{len(runs)} points, {differ} beats differ",
            "`penstock figures fig8 --rtl --out out`",
            fig8.RECORD.commits(),
        ],
        [
            "figure 8, model against the published HDL",
            f"{hdl['points']} points, Pearson {hdl['pearson']:.3f}, error ≤ {hdl['max_error']:.1%}",
            "`penstock figures fig8 --out out`",
            "",
        ],
        [
            "figure 8, our `stepsim` timing against the published simulator",
            f"{step['points']} points, error {step['max_error']:.0%}",
            "`penstock figures fig8 --out out`",
            "",
        ],
    ]


def speed_lines() -> list[list[str]]:
    """The rates of model and RTL."""
    wanted = ("model, timing only", "model with values", "RTL, every channel observed")
    return [
        [
            f"speed of the {t['what']}",
            f"{amount(t['measured'])} {t['unit']}",
            "`nox -s bench`",
            rates.RECORD.commits(),
        ]
        for t in rates.RECORD.rows()
        if t["what"] in wanted
    ]


def check_lines() -> list[list[str]]:
    """The regression and the fuzzer."""
    points = total(regress.RECORD.rows(), design="total")
    campaign = added(fuzz.RECORD.rows())
    counts = campaign.counts
    return [
        [
            "regression: every operator, function and workload on RTL",
            f"{points['point']}, {points['differ']} beats differ",
            "`penstock regress`",
            regress.RECORD.commits(),
        ],
        [
            f"fuzzing: {counts['programs']:,} programs, {counts['streams']:,} streams on RTL",
            f"{len(campaign.failures)} failures in {counts['beats compared on RTL']:,} beats",
            "`nox -s fuzz`",
            fuzz.RECORD.commits(),
        ],
    ]


def overlay_lines() -> list[list[str]]:
    """The overlay on RTL, and what one of its tiles costs."""
    runs = overlay_rtl.RECORD.rows()
    xc7 = overlay_resources.records("xc7")
    synthesised = overlay_resources.RECORD.commits()
    lines = [
        [
            "overlay, RTL against model, cycles and values",
            f"{sum(g['equal'] for g in runs)} of {len(runs)} runs equal",
            "`bench/overlay_rtl.py`",
            overlay_rtl.RECORD.commits(),
        ]
    ]
    for pe in ("dynamic", "static"):
        switch, variant = ("mesh", "fifo per_edge") if pe == "dynamic" else (BLOCK, BLOCK)
        contexts = f", {BLOCK}," if pe == "static" else ""
        parts = [part(xc7, pe, "PE", variant), part(xc7, pe, "switch", switch)]
        lut, ff, bram = (sum(float(p[k]) for p in parts) for k in ("lut", "ff", "bram"))
        lines.append(
            [
                f"overlay, {pe} PE without ALU and switch{contexts} on Xilinx 7, {CAPACITY} words, "
                "LUT / FF / block RAM",
                f"{lut:.0f} / {ff:.0f} / {bram:g}",
                "`penstock overlay resources --out out`",
                synthesised,
            ]
        )
    # Which tile is the fastest shows when all of them have been routed.
    whole = () if CLOCKS.missing() else CLOCKS.rows()
    tiles = [r for r in whole if r["speed"] == SPEEDS[0]]
    if told := [line for pe in ("dynamic", "static") if (line := fastest(tiles, pe))]:
        lines.append(
            [
                f"overlay, fastest tile with ALU on ECP5, speed grade {SPEEDS[0]}, clock",
                ", ".join(told),
                "`penstock overlay resources --family ecp5 --fmax --out out`",
                CLOCKS.commits(),
            ]
        )
    return lines


BLOCK = "contexts in block RAM"
CAPACITY = 1024


def fastest(clocks: list[dict], pe: str) -> str:
    """The tile with an ALU of the highest clock rate, and that ALU;
    empty where none is on record.
    """
    tiles = [r for r in clocks if r["part"] == f"{pe} tile" and r["variant"].startswith(EVERY)]
    if not tiles:
        return ""
    best = max(tiles, key=lambda r: r["mhz"])
    _, _, alu = best["variant"].rpartition(", ")
    return f"{pe} {best['mhz']:.0f} MHz ({alu})"


def array_line() -> list[str]:
    """Programs of one array on RTL."""
    runs = array_rtl.RECORD.rows()
    beats = sum(r["beats"] for r in runs)
    right = sum(r["values_ok"] for r in runs)
    return [
        f"array `{array_rtl.ARRAY}`, programs on one RTL, every beat as the model's",
        f"{right} of {len(runs)} programs with right values, {beats:,} beats",
        "`penstock array run --on both`",
        array_rtl.RECORD.commits(),
    ]


def board_line() -> list[str]:
    """What was placed and routed for a board."""
    made = [r for r in boards.RECORD.rows() if r["board"] == BOARD]
    return [
        f"bitstreams for `{BOARD}` (ECP5-85F, speed grade 6), clock that their slowest paths allow",
        ", ".join(f"{r['design']} {r['fmax_mhz']:.0f} MHz" for r in made),
        "`penstock board build`",
        boards.RECORD.commits(),
    ]


BOARD = "ulx3s"


def part(tables: dict[str, list[dict]], pe: str, name: str, variant: str) -> dict:
    """One part of the overlay at 32 bits and full capacity."""
    wanted = (pe, name, variant, 32, CAPACITY)
    keys = ("pe", "part", "variant", "payload", "contexts")
    return next(r for r in tables["resources"] if tuple(r[k] for k in keys) == wanted)


def dag_line() -> list[str]:
    """The contest's problems."""
    _, *solved = dag_contest.RECORD.rows()
    longer = dag_contest.LONGER
    judged = [r for r in solved if r["time_limit_s"] != longer.get(dag_contest.problem(r))]
    best = sum(r["latency"] <= r["anchor_winner"] for r in judged)
    problems = len({r["workload"] for r in judged})
    return [
        f"DAG scheduler, the contest's {problems} public problems, within its time limits",
        f"{best} of {len(judged)} runs at least as good as the winner, either cost of a MatMul",
        "`bench/dag_contest.py`",
        dag_contest.RECORD.commits(),
    ]


def tools(entry: dict) -> str:
    """What a case was made with."""
    known = {**entry["versions"], **entry.get("installed", {})}
    return f"Python {known['python']}, Verilator {known['verilator']}"


def amount(x: float) -> str:
    """Three digits, with k or M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.3g}"


def draw() -> None:
    """The pictures of figure 8 and of its fabric."""
    with tempfile.TemporaryDirectory() as folder:
        figures.fig8(Path(folder), fig8_records())
        (STORED / "fig8.png").write_bytes((Path(folder) / "fig8.png").read_bytes())
    config = load("fig8")
    draw_fabric(lower(build("swiglu", {}, config).graph, config), config, STORED / "fabric.png")
