"""LUTs, flip-flops and block RAMs of PEs and switches: figures 5, 6 and 7 of the paper beside ours,
and results per LUT and per block RAM.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...hw.synthesis import BLOCK_KBIT, Cost, cost, look_at_parts
from ...runs.progress import Progress
from ...runs.tables import to_csv
from ...system.output import write_picture, write_text
from ..core.config import PIPELINED, Overlay, needs
from ..core.dataflow import DataflowGraph
from .parts import CAPACITY, EVERY, FURTHER, MESH, PARTS, Part, full_sizes
from .route import clock_rates

PAYLOADS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (16, 32, 64, 128, 256, 512, 1024)
COARSE = {"payloads": (1, 8, 32, 64), "contexts": (16, 128, 1024)}
"""Half the runs: the same ranges in larger steps."""


def _number(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def _csv(name: str) -> list[dict]:
    text = files(__spec__.parent).joinpath("published").joinpath(name).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [{k: v if k in ("figure", "pe") else _number(v) for k, v in row.items()} for row in rows]


def published() -> list[dict]:
    """Figures 5 and 6: one PE without ALU and one switch, by payload and by contexts."""
    return _csv("overlay_resources.csv")


def published_ratios() -> list[dict]:
    """Figure 7: dynamic over static by contexts, PE and switch together, 32 bits."""
    return _csv("overlay_resource_ratios.csv")


def points(
    payloads: Sequence[int] = PAYLOADS, contexts: Sequence[int] = CONTEXTS
) -> list[tuple[Part, int, int]]:
    """Parts with the payloads (at full capacity) and the contexts (at 32 bits) at which they are
    synthesised.
    """
    work = []
    for part in PARTS:
        over = dict.fromkeys(
            [(bits, CAPACITY) for bits in payloads if part.payloads]
            + [(32, n) for n in (contexts[:: part.stride] if part.stride else ())]
            + [(32, CAPACITY)]
        )
        work += [(part, *point) for point in over]
    return work + [(part, 32, CAPACITY) for part in FURTHER]


def sweep(
    family: str = "xc7",
    payloads: Sequence[int] = PAYLOADS,
    contexts: Sequence[int] = CONTEXTS,
    progress: Progress | None = None,
) -> list[dict]:
    """One row per part, payload (at full capacity) and number of contexts (at 32 bits): its cost,
    with the published LUTs and FFs beside it where the family is the paper's.
    """
    progress = progress or Progress()
    work = points(payloads, contexts)
    known = (
        {(r["pe"], r["payload"], r["contexts"] or CAPACITY): r for r in published()}
        if family == "xc7"
        else {}
    )
    progress.plan(len(work))
    rows = []
    for part, bits, n in work:
        progress.stage(f"{part.pe} {part.part}, {part.variant}, {bits} bits, {n} contexts")
        row = {
            "pe": part.pe,
            "part": part.part,
            "variant": part.variant,
            "payload": bits,
            "contexts": n,
            **vars(cost(part.make(bits, n), family)),
        }
        # The paper's dynamic PE has one capacity.
        of = (
            known.get((part.pe, bits, n)) if part in PARTS and "block" not in part.variant else None
        )
        prefix = part.part.lower()
        rows.append(
            row
            | {
                "published lut": of and of[f"{prefix}_lut"],
                "published ff": of and of[f"{prefix}_ff"],
            }
        )
        progress.done(f"{part.pe} {part.part}")
    return rows


def find(
    rows: Sequence[dict],
    pe: str,
    part: str,
    payload: int,
    contexts: int,
    variant: str | None = None,
) -> dict | None:
    """The row of a part; without ``variant`` the first, which is the paper's."""
    return next(
        (
            r
            for r in rows
            if (r["pe"], r["part"], r["payload"], r["contexts"]) == (pe, part, payload, contexts)
            and variant in (None, r["variant"])
        ),
        None,
    )


def _both(
    rows: Sequence[dict],
    pe: str,
    payload: int,
    contexts: int,
    variants: Sequence[str | None] = (None, None),
) -> Cost | None:
    found = [
        find(rows, pe, part, payload, contexts, variant)
        for part, variant in zip(("PE", "switch"), variants, strict=True)
    ]
    costs = [Cost(*(r[k] for k in Cost.__dataclass_fields__)) for r in found if r is not None]
    return costs[0] + costs[1] if len(costs) == 2 else None


def ratios(rows: Sequence[dict]) -> list[dict]:
    """Figure 7: dynamic over static, PE and switch together, at 32 bits by contexts; the dynamic PE
    at full capacity, as in the paper.
    """
    out = []
    dynamic = _both(rows, "dynamic", 32, CAPACITY)
    for r in published_ratios():
        row = {"contexts": r["contexts"]} | {f"published {k}": r[k] for k in ("lut", "ff", "bram")}
        for label in ("LUT RAM", "block RAM"):
            static = _both(rows, "static", 32, r["contexts"], (f"contexts in {label}",) * 2)
            if dynamic and static:
                row |= {
                    f"{k}, contexts in {label}": getattr(dynamic, k) / getattr(static, k)
                    if getattr(static, k)
                    else None
                    for k in ("lut", "ff", "bram")
                }
        if len(row) > 4:
            out.append(row)
    return out


def alus(family: str = "xc7", progress: Progress | None = None, coarse: bool = False) -> list[dict]:
    """ALUs by themselves, homogeneous and specialised, and whole PEs with one, pipelined, fp32;
    unless ``coarse`` also with latency 1, and in fp64.
    """
    from ...hw.arith.format import FP32, FP64
    from ...hw.units.token.alu import Alu
    from ...hw.units.token.dynamic_pe import DynamicPE
    from ...hw.units.token.static_pe import StaticPE

    progress = progress or Progress()
    kinds = {
        EVERY: tuple(PIPELINED["fp32"]),
        "add, compare": ("add", "compare"),
        "mul": ("mul",),
        "div, sqrt": ("div", "sqrt"),
        "exp, log": ("exp", "log"),
    }
    forms = {"fp32": FP32, "fp64": FP64}
    points = [
        *(("fp32", kind, "pipelined") for kind in reversed(kinds)),
        ("fp32", EVERY, "unit"),
        ("fp64", EVERY, "pipelined"),
    ]
    work = []
    for fmt, kind, alu in (p for p in points if not coarse or p[::2] == ("fp32", "pipelined")):
        classes = [c for c in kinds[kind] if c in PIPELINED[fmt]]
        overlay = Overlay(rows=MESH, cols=MESH, format=fmt, alu=alu)
        latencies = {c: overlay.latency(c) for c in classes}
        work.append(
            (
                "ALU",
                fmt,
                kind,
                alu,
                lambda latencies=latencies, fmt=fmt: Alu(form=forms[fmt], latencies=latencies),
            )
        )
        if (fmt, kind, alu) == ("fp32", EVERY, "pipelined"):
            work.append(
                (
                    "dynamic PE",
                    fmt,
                    kind,
                    alu,
                    lambda o=overlay, c=classes: DynamicPE(
                        overlay=o, sizes=full_sizes(CAPACITY), classes=c
                    ),
                )
            )
            static = replace(overlay, pe="static")
            work.append(
                (
                    "static PE",
                    fmt,
                    kind,
                    alu,
                    lambda o=static, c=classes: StaticPE(
                        overlay=o, sizes=full_sizes(CAPACITY), classes=c
                    ),
                )
            )
    progress.plan(len(work))
    rows = []
    for part, fmt, kind, alu, make in work:
        progress.stage(f"{part}, {fmt}, {kind}, {alu}")
        rows.append(
            {
                "part": part,
                "format": fmt,
                "operations": kind,
                "latency": alu,
                **vars(cost(make(), family)),
            }
        )
        progress.done(part)
    return rows


FREE = ("control",)
"""Of a PE's memories, those that are registers; its switch's contexts are the switch's."""
ASYNCHRONOUS = ("present", "ready")
"""Read in the cycle of the address, which block RAM cannot; by PEs that forward results."""


def inference(rows: Sequence[dict], block_kbit: int) -> list[dict]:
    """Block RAM asked for and given, per kind of PE at 32 bits and full capacity: ``block_kbit`` is
    the size of one.
    """
    out = []
    for part in (*PARTS, *FURTHER):
        found = find(rows, part.pe, part.part, 32, CAPACITY, part.variant)
        if part.part != "PE" or not found:
            continue
        component: Any = part.make(32, CAPACITY)
        apart = {
            *FREE,
            "switch",
            *(ASYNCHRONOUS if component.overlay.forwards else ()),
            *(["context"] if "LUT RAM" in part.variant else []),
        }
        asked = {n: m for n, m in component.specs.items() if n not in apart}
        out.append(
            {
                "pe": part.pe,
                "variant": part.variant,
                "memories (words x bits)": ", ".join(
                    f"{n} {m.depth}x{m.layout.width}" + f", {m.copies} copies" * (m.copies > 1)
                    for n, m in asked.items()
                ),
                "kbit": sum(m.bits for m in asked.values()) / 1024,
                "bram": found["bram"],
                "kbit of bram": found["bram"] * block_kbit,
            }
        )
    return out


VARIANTS: list[tuple[dict[str, Any], str, str]] = [
    (dict(pe="dynamic"), "mesh", "token"),
    (dict(pe="dynamic", local="forward"), "mesh forward", "forward"),
    *(
        (dict(pe="static"), f"contexts in {ram} RAM", f"contexts in {ram} RAM")
        for ram in ("LUT", "block")
    ),
]
"""What is laid side by side: fields of the overlay, and the variants of its switch and PE."""


def density(
    rows: Sequence[dict],
    graphs: Sequence[str],
    meshes: Sequence[tuple[int, int]],
    alu_rows: Sequence[dict] = (),
    progress: Progress | None = None,
) -> list[dict]:
    """Operations per cycle, per 1000 LUTs and per block RAM, of tiles at 32 bits (PE without ALU,
    and switch): dynamic ones of full capacity, static ones with the least swept number of contexts
    that holds the schedule. Dynamic ones take the better of two placements (:data:`PLACED`). The
    best compute density is what the paper argues with. With ``alu_rows`` also per 1000 LUTs of
    tiles with the ALU that the cycles assume (every operation in a cycle). Graphs that need more
    than the capacity at a mesh are told so.
    """
    from ..graphs import graph_from

    progress = progress or Progress()
    progress.plan(len(graphs) * len(meshes) * len(VARIANTS))
    alu = next((r["lut"] for r in alu_rows if tuple(r[k] for k in ALU_KEYS) == UNIT_ALU), None)
    out = []
    for spec in graphs:
        graph = graph_from(spec)
        operations = sum(graph.statistics.ops.values())
        for height, width in meshes:
            for keys, switch, pe in VARIANTS:
                overlay = Overlay(rows=height, cols=width, **keys)
                progress.step(f"{spec} on {height}x{width}")
                contexts = f", {pe}" if overlay.pe == "static" else ""
                row = {
                    "graph": spec,
                    "mesh": f"{height}x{width}",
                    "variant": overlay.name() + contexts,
                    "operations": operations,
                }
                taken = [_placed(graph, overlay, objective) for objective in PLACED[overlay.pe]]
                best = min(taken, key=lambda one: (bool(one.beyond), one.cycles))
                if best.beyond:
                    row |= {"cycles": None, "beyond capacity": best.beyond}
                else:
                    least, tile = _smallest(rows, overlay.pe, (pe, switch), best.contexts)
                    row |= {"placement": best.placement, "cycles": best.cycles, "capacity": least}
                    if tile:
                        row |= _rates(operations / best.cycles, overlay.pes, tile, alu)
                out.append(row)
                progress.done(overlay.name())
    return out


PLACED = {"dynamic": (None, "time"), "static": (None,)}
"""Kind of PE -> objectives of placement that are tried; None: its default, which is time for static
PEs.
"""
ALU_KEYS = ("part", "format", "operations", "latency")
UNIT_ALU = ("ALU", "fp32", EVERY, "unit")
"""The ALU that the cycles assume."""


@dataclass(frozen=True)
class _Placed:
    """A graph on an overlay: what it was placed for, its cycles, context words of a PE, and what is
    beyond the capacity, if anything is.
    """

    placement: str
    cycles: int
    contexts: int
    beyond: str


def _placed(graph: DataflowGraph, overlay: Overlay, objective: str | None) -> _Placed:
    """Place a graph, and run the model where it fits."""
    from ...scheduler.token import map_graph, method_of
    from ..model import simulate

    image = map_graph(graph, overlay, objective=objective).image
    words = needs(overlay, image.sizes)
    beyond = {k: n for k, n in words.items() if n > (2 if k == "chain" else 1) * CAPACITY}
    most = max(beyond.items(), key=lambda kv: kv[1], default=None)
    return _Placed(
        placement=objective or method_of(overlay),
        cycles=0 if beyond else simulate(image).cycles,
        contexts=words.get("context", CAPACITY),
        beyond=f"{most[0]}: {most[1]}" if most else "",
    )


def _smallest(rows: Sequence[dict], kind: str, variants: tuple[str, str], contexts: int):
    """The least number of contexts swept that holds so many, and the tile that has it."""
    for n in CONTEXTS:
        if n >= contexts and (tile := _both(rows, kind, 32, n, variants)):
            return n, tile
    return CAPACITY, _both(rows, kind, 32, CAPACITY, variants)


def _rates(rate: float, pes: int, tile, alu: float | None) -> dict[str, float | None]:
    """Operations per cycle, and per 1000 cycles and 1000 LUTs or a block RAM."""
    found = {
        "ops per cycle": rate,
        "ops per kcycle and kLUT": 1e6 * rate / (tile.lut * pes),
        "ops per kcycle and BRAM": 1e3 * rate / (tile.bram * pes) if tile.bram else None,
    }
    if alu is not None:
        found["ops per kcycle and kLUT, with ALU"] = 1e6 * rate / ((tile.lut + alu) * pes)
    return found


TABLES = {
    "resources": "PE (without ALU) and switch",
    "ratios": "dynamic / static, PE and switch (figure 7)",
    "memories": "memories in block RAM",
    "alus": "PEs with ALU",
    "density": "operations per LUT and per block RAM",
    "clocks": "placed and routed",
}


def write_all(
    out: Path,
    family: str,
    graphs: Sequence[str],
    meshes: Sequence[tuple[int, int]],
    progress: Progress | None = None,
    clocks: bool = False,
    coarse: bool = False,
) -> tuple[list[str], dict[str, list[dict]]]:
    """Write one CSV file per table of :data:`TABLES` and resources.png into ``out``; returns the
    files and the tables by title. ``clocks``: place and route as well (ecp5); ``coarse``: fewer
    payloads, contexts and ALUs.
    """
    look_at_parts()
    rows = sweep(family, progress=progress, **(COARSE if coarse else {}))
    with_alu = alus(family, progress, coarse)
    made = {
        "resources": rows,
        "ratios": ratios(rows),
        "memories": inference(rows, BLOCK_KBIT[family]),
        "alus": with_alu,
        "density": density(rows, graphs, meshes, with_alu, progress),
    }
    if clocks:
        made["clocks"] = clock_rates(progress)
    tables = {TABLES[name]: table for name, table in made.items()}
    written = []
    for name, table in made.items():
        if table:
            write_text(out / f"{name}.csv", to_csv(table))
            written.append(f"{out}/{name}.csv")
    plot(rows, made["ratios"], made["density"], family, out / "resources.png")
    return [*written, f"{out}/resources.png"], tables


def plot(
    rows: Sequence[dict],
    relations: Sequence[dict],
    densities: Sequence[dict],
    family: str,
    path: Path,
) -> None:
    """Figures 5, 6 and 7, published (dashed) and ours; below, results per LUT and per block RAM."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(3, 2, figsize=(12, 13), layout="constrained")
    kinds = {"LUT RAM": "o", "block RAM": "s"}
    _luts(
        axes[0, 0],
        rows,
        "dynamic",
        "payload",
        {"": "o"},
        f"dynamic, {CAPACITY} nodes and edges (figure 6)",
    )
    _luts(axes[0, 1], rows, "static", "payload", kinds, f"static, {CAPACITY} contexts (figure 5a)")
    _luts(axes[1, 0], rows, "static", "contexts", kinds, "static, 32 bits (figure 5b)")
    _ratios(axes[1, 1], relations)
    for ax, key in zip(axes[2], ("kLUT", "BRAM"), strict=True):
        _densities(ax, densities, f"ops per kcycle and {key}")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    theirs = (
        ", published by Vivado HLS for Zynq"
        if any(r["published lut"] is not None for r in rows)
        else ""
    )
    fig.suptitle(f"one PE without ALU, one switch; ours by Yosys for {family}{theirs}")
    write_picture(path, fig, dpi=110, metadata={"Software": None})
    plt.close(fig)


def _luts(ax, rows, pe: str, by: str, variants: dict[str, str], title: str) -> None:
    """LUTs of PE and switch by payload or contexts; ``variants``: what their names contain, and
    markers.
    """
    for part, colour in {"PE": "#3182bd", "switch": "#e6550d"}.items():
        for key, style in (("published lut", "--"), ("lut", "-")):
            for variant, marker in variants.items():
                mine = sorted(
                    (r[by], r[key])
                    for r in rows
                    if (r["pe"], r["part"]) == (pe, part)
                    and variant in r["variant"]
                    and r[key] is not None
                    and (r["payload"] == 32 if by == "contexts" else r["contexts"] == CAPACITY)
                    and r["variant"] in {p.variant for p in PARTS}
                )
                if mine:
                    label = f"{part}, " + (
                        "published" if key != "lut" else f"ours{f' ({variant})' if variant else ''}"
                    )
                    ax.plot(
                        *zip(*mine, strict=True),
                        style,
                        marker=marker,
                        markersize=4,
                        color=colour,
                        alpha=0.5 if key != "lut" else 1,
                        label=label,
                    )
    ax.set_xscale("log", base=2)
    ax.set_xlabel("payload (bits)" if by == "payload" else "contexts")
    ax.set_ylabel("LUTs")
    ax.set_ylim(bottom=0)
    ax.set_title(title)
    ax.legend(frameon=False, fontsize=8)


def _ratios(ax, relations) -> None:
    for key, colour in (("lut", "#3182bd"), ("ff", "#31a354"), ("bram", "#756bb1")):
        name = {"lut": "LUT", "ff": "FF", "bram": "block RAM"}[key]
        for column, style, label in (
            (f"published {key}", "--", f"{name}, published"),
            (f"{key}, contexts in LUT RAM", "-", f"{name}, contexts in LUT RAM"),
            (f"{key}, contexts in block RAM", ":", f"{name}, contexts in block RAM"),
        ):
            line = [(r["contexts"], r[column]) for r in relations if r.get(column) is not None]
            if line:
                ax.plot(
                    *zip(*line, strict=True),
                    style,
                    marker="o",
                    markersize=4,
                    color=colour,
                    alpha=0.5 if "published" in column else 1,
                    label=label,
                )
    ax.set_xscale("log", base=2)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("contexts")
    ax.set_ylabel("dynamic / static")
    ax.set_title("PE and switch (figure 7)")
    ax.legend(frameon=False, fontsize=7)


def _densities(ax, densities, key: str) -> None:
    """Bars per graph and mesh, one for each kind of tile; no bar where the graph does not fit."""
    places = list(dict.fromkeys((r["graph"], r["mesh"]) for r in densities))
    kinds = list(dict.fromkeys(r["variant"] for r in densities))
    width = 0.8 / max(len(kinds), 1)
    for k, kind in enumerate(kinds):
        bars = [
            (places.index((r["graph"], r["mesh"])), r[key])
            for r in densities
            if r["variant"] == kind and r.get(key) is not None
        ]
        colour = (
            ("#a63603", "#e6550d")
            if kind.startswith("static")
            else ("#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c")
        )
        ax.bar(
            [at + (k - (len(kinds) - 1) / 2) * width for at, _ in bars],
            [v for _, v in bars],
            width,
            label=kind,
            color=colour[sum(x.startswith(kind[:6]) for x in kinds[:k]) % len(colour)],
        )
    ax.set_xticks(range(len(places)), [f"{graph}\n{mesh}" for graph, mesh in places], fontsize=7)
    ax.set_ylabel(key)
    ax.set_title("results per LUT" if "LUT" in key else "results per block RAM")
    ax.legend(frameon=False, fontsize=7)
