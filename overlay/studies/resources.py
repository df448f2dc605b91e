"""LUTs, flip-flops and block RAMs of PEs and switches: figures 5, 6 and 7 of the paper and ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from ...hw.synthesis import Cost, cost, look_at_parts
from ...runs.progress import Progress
from ...runs.tables import to_csv
from ...system.output import write_picture, write_text
from .parts import CAPACITY, FURTHER, PARTS, Part

PAYLOADS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (16, 32, 64, 128, 256, 512, 1024)
ZYNQ = {"lut": 17_600, "ff": 35_200, "bram": 60}
"""Cells of a Zynq 7010; block RAMs of 36 kbit."""
CELLS = {"lut": "LUT", "ff": "FF", "bram": "block RAM"}
RAMS = ("LUT", "block")
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


def fits(rows: Sequence[dict]) -> list[dict]:
    """PEs of 32 bits and full capacity, each with its switch, that have cells in a Zynq 7010; of
    the published ones block RAM is not known.
    """
    pairs = {
        ("dynamic", "token"): ("token", "mesh"),
        ("dynamic", "forward"): ("forward", "mesh forward"),
        **{("static", f"contexts in {r} RAM"): (f"contexts in {r} RAM",) * 2 for r in RAMS},
    }
    out = []
    for (pe, variant), parts in pairs.items():
        if one := _both(rows, pe, 32, CAPACITY, parts):
            cells = {k: getattr(one, k) for k in ("lut", "ff", "bram")}
            out.append({"PE": pe, "variant": variant} | _fit(cells))
    for r in published():
        if (r["payload"], r["contexts"] or CAPACITY) == (32, CAPACITY) and r["figure"] != "fig5b":
            cells = {k: r[f"pe_{k}"] + r[f"switch_{k}"] for k in ("lut", "ff")} | {"bram": None}
            out.append({"PE": r["pe"], "variant": "published"} | _fit(cells))
    return out


def _fit(cells: Mapping[str, float | None]) -> dict:
    """Number of these that a Zynq 7010 has room for, and the cells that limit it."""
    room = {k: int(ZYNQ[k] / n) for k, n in cells.items() if n}
    least = min(room, key=lambda k: room[k])
    named = {CELLS[k]: n for k, n in cells.items()}
    return named | {"PEs that fit": room[least], "by": CELLS[least]}


def write_all(
    out: Path, family: str, coarse: bool = False, progress: Progress | None = None
) -> tuple[list[str], dict[str, list[dict]]]:
    """Write one CSV file per table and resources.png into ``out``; returns the files and the tables
    by title. ``coarse``: fewer payloads and contexts.
    """
    look_at_parts()
    rows = sweep(family, progress=progress, **(COARSE if coarse else {}))
    relations = ratios(rows)
    write_text(out / "resources.csv", to_csv(rows))
    write_text(out / "ratios.csv", to_csv(relations))
    plot(rows, relations, family, out / "resources.png")
    written = [f"{out}/{name}" for name in ("resources.csv", "ratios.csv", "resources.png")]
    tables: dict[str, list[dict]] = {
        "PE (without ALU) and switch": rows,
        "dynamic / static, PE and switch (figure 7)": relations,
    }
    if family == "xc7":
        tables["PEs and their switches in a Zynq 7010"] = fits(rows)
    return written, tables


def plot(rows: Sequence[dict], relations: Sequence[dict], family: str, path: Path) -> None:
    """Figures 5, 6 and 7, published (dashed) and ours."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    kinds = {"LUT RAM": "o", "block RAM": "s"}
    full = f"{CAPACITY} nodes and edges"
    _luts(axes[0, 0], rows, "dynamic", "payload", {"": "o"}, f"dynamic, {full} (figure 6)")
    _luts(axes[0, 1], rows, "static", "payload", kinds, f"static, {CAPACITY} contexts (figure 5a)")
    _luts(axes[1, 0], rows, "static", "contexts", kinds, "static, 32 bits (figure 5b)")
    _ratios(axes[1, 1], relations)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    theirs = ", published by Vivado HLS for Zynq" if family == "xc7" else ""
    fig.suptitle(f"one PE without ALU, one switch; ours by Yosys for {family}{theirs}")
    write_picture(path, fig, dpi=90, metadata={"Software": None})
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
