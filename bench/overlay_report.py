"""The results of docs/overlay_results.md, for `docs/generate.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import overlay_placement
import overlay_rtl
import overlay_speed
from made import overlay_curves
from made.overlay_figures import RECORD as FIGURES
from made.overlay_figures import table as stored
from penstock.overlay.figures import conclusion
from penstock.scheduler.token import Floor
from tables import frame


def markdown(table: list[dict], columns: list[str]) -> str:
    if not table:
        return "Not made."
    return frame(
        columns,
        [[r.get(c, "") for c in columns] for r in table],
        [i >= 2 for i in range(len(columns))],
    )


def saturation(cycles: list[dict]) -> list[dict]:
    """Per device, kind of PE and scheduling: the mesh with the fewest
    cycles, and the gain over one PE.
    """
    out = []
    for name in dict.fromkeys(r["graph"] for r in cycles if r["figure"] == "11"):
        mine = [r for r in cycles if r["graph"] == name]
        for column in (
            "static homogeneous",
            "static specialised",
            "published static",
            "dynamic homogeneous",
            "dynamic specialised",
            "published dynamic",
        ):
            known = [r for r in mine if r[column]]
            best = min(known, key=lambda r: int(r[column]))
            out.append(
                {
                    "graph": name,
                    "PEs of": column,
                    "fewest cycles": best[column],
                    "at PEs": best["PEs"],
                    "gain over one PE": f"{int(known[0][column]) / int(best[column]):.1f}",
                }
            )
    return out


def anchors(sweep: list[dict]) -> list[dict]:
    """Per graph: cycles of one PE, and what they exceed its edges and
    its nodes with fan-out by.
    """
    out = []
    for r in sweep:
        if r["PEs"] == "1":

            def over(cycles, count):
                return f"{int(cycles) - int(count)} ({100 * (int(cycles) / int(count) - 1):.2f} %)"

            out.append(
                {n: r[n] for n in ("graph", "nodes", "depth", "edges", "dynamic")}
                | {"over edges": over(r["dynamic"], r["edges"])}
                | {n: r[n] for n in ("read", "results", "static")}
                | {"over read": over(r["static"], r["read"])}
            )
    return out


def rtl_equal(entries: list[dict]) -> str:
    """Equal runs of those made: a row per variant, a column per mesh
    and kind of ALU.
    """
    cells: dict[str, dict[str, list[bool]]] = {}
    for case in entries:
        further = [
            case[k]
            for k, usual in (("format", "fp32"), ("alu", "unit"), ("kinds", "homogeneous"))
            if case[k] != usual
        ] + [case["suite"]] * (case["suite"] in ("adversarial", "placements"))
        cells.setdefault(case["variant"], {}).setdefault(
            " ".join([case["mesh"], *further]), []
        ).extend(g["equal"] for g in case["rows"])

    def side(column):
        return (int(column.partition("x")[0]) if " " not in column else 99, column)

    columns = sorted({c for row in cells.values() for c in row}, key=side)
    table = [
        {"variant": v} | {c: f"{sum(row[c])} of {len(row[c])}" if c in row else "" for c in columns}
        for v, row in cells.items()
    ]
    return markdown(table, ["variant", *columns])


def rtl_placements(entries: list[dict]) -> str:
    """What was compared of the placements, by PE and mesh."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for case in entries:
        groups.setdefault((case["variant"], case["mesh"]), []).extend(case["rows"])
    header = ("PE", "mesh", "graphs", "nodes at most", "cycles", "writes", "tokens", "equal")
    rows = [
        [variant, mesh, str(len(runs)), str(max(g["nodes"] for g in runs))]
        + [str(sum(g[what] for g in runs)) for what in ("cycles", "writes", "tokens")]
        + [f"{sum(g['equal'] for g in runs)} of {len(runs)}"]
        for (variant, mesh), runs in groups.items()
    ]
    return frame(header, rows, [i > 1 for i in range(len(header))])


def rtl_runs(entries: list[dict]) -> str:
    """How many runs were made, and how many were equal."""
    runs = [g for case in entries for g in case["rows"]]
    rows = [
        ("runs on RTL", len(runs)),
        ("cases", len(entries)),
        ("runs equal in cycles, writes, tokens and every bit", sum(g["equal"] for g in runs)),
        ("cycles of runs", sum(g["cycles"] for g in runs)),
        ("writes of nodes compared, each in its cycle", sum(g["writes"] for g in runs)),
        ("tokens compared, each on its link and in its cycle", sum(g["tokens"] for g in runs)),
        ("clocks with loading and reading", sum(case["clocks"] for case in entries)),
    ]
    table = frame(("what", "number"), [(what, str(n)) for what, n in rows], (False, True))
    told = []
    for case in entries:
        for g in case["rows"]:
            if g["equal"]:
                continue
            name = f"`{g['graph']}` of {case['case']}"
            if g["differs"]:
                name += f" ({g['differs']})"
            told.append(name)
    return f"{table}\n\nNot equal: {'; '.join(told)}." if told else table


def rtl_graphs(entries: list[dict]) -> str:
    """The graphs of the suite that has most."""
    every = [[(g["graph"], g["nodes"]) for g in case["rows"]] for case in entries]
    rows = [(f"`{name}`", str(nodes)) for name, nodes in max(every, key=len)]
    return frame(("graph", "nodes"), rows, (False, True))


def speed_section(record: dict) -> str:
    """The lines of bench/overlay_speed.py."""
    names = {
        "what": "what",
        "graph": "graph",
        "nodes": "nodes",
        "limit": "at most s",
        "wall_s": "wall s",
        "cpu_s": "CPU s",
        "cycles": "cycles",
        "verdict": "verdict",
    }
    table = [
        {title: "" if r[key] is None else str(r[key]) for key, title in names.items()}
        for r in record["rows"]
    ]
    made = f"Made on {record['cores']} cores, load average {record['load']} before it began."
    return f"{markdown(table, list(names.values()))}\n\n{made}"


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/overlay_results.md."""
    return {
        "placement": placement,
        "placement aims": overlay_placement.aims,
        "floor causes": floor_causes,
        "placement dynamic": overlay_placement.beside,
        "assumptions": assumptions,
        "assumptions of the sweep": swept,
        "cycles": cycles,
        "ratios": lambda: cycles(True),
        "conclusion": concluded,
        "causes": causes,
        "saturation": lambda: whole(saturation(curves())),
        "one PE": lambda: whole(anchors(stored("sweep"))),
        "sweep": sweep,
        "runs on RTL": lambda: rtl_runs(overlay_rtl.RECORD.entries()),
        "equal on RTL": lambda: rtl_equal(overlay_rtl.RECORD.entries()),
        "placements on RTL": lambda: rtl_placements(overlay_rtl.RECORD.entries("placements")),
        "graphs on RTL": lambda: rtl_graphs(overlay_rtl.RECORD.entries()),
        "speed": lambda: speed_section(*overlay_speed.RECORD.entries()),
    }


def floor_causes() -> str:
    """How often each bound decides the floor."""
    rows = overlay_placement.RECORD.rows()
    decides = Counter(r["by"] for r in rows)
    causes = [(f"`{f.name}`", str(decides[f.name])) for f in fields(Floor)]
    return frame(("bound", "decides the floor of"), causes, (False, True))


def placement() -> str:
    """Placements for time, and how many cases of them there are."""
    record = overlay_placement.RECORD
    missing = len(record.missing())
    of = len(list(record.cases()))
    told = f"{of - missing} of {of} graphs on meshes have been run."
    return f"{overlay_placement.placement()}\n\n{told}"


def curves() -> list[dict]:
    """The rows of figures 10 to 12, as texts."""
    return overlay_curves.texts(overlay_curves.RECORD.rows())


def columns(found: list[dict]) -> list[str]:
    """The columns of a table, in order; none where it was not made."""
    return list(found[0]) if found else []


def whole(found: list[dict]) -> str:
    """A table of every column."""
    return markdown(found, columns(found))


def assumptions() -> str:
    """What the numbers rest on."""
    parts = overlay_curves.assumptions()
    return "\n".join(f"* {part[0].upper()}{part[1:]}" for part in parts)


def swept() -> str:
    """The same of the tables of causes and of all listed graphs."""
    (entry,) = FIGURES.entries()
    parts = entry["assumptions"].split("; ")
    return "\n".join(f"* {part[0].upper()}{part[1:]}." for part in parts)


def cycles(ratios: bool = False) -> str:
    """Figures 10 and 11; ``ratios``: figure 12."""
    found = curves()
    hidden = ("figure", "nodes", "edges", "depth")
    wanted = [c for c in columns(found) if c not in hidden and ("ratio" in c) == ratios]
    keys = ["graph", "PEs"] if ratios else []
    return markdown(found, [*keys, *wanted])


def concluded() -> str:
    """What the paper concludes, by setting."""
    found = overlay_curves.RECORD.rows()
    return whole(overlay_curves.texts(conclusion(found)) if found else [])


def causes() -> str:
    """What the ratio of dynamic to static is made of."""
    found = stored("causes")
    shown = [
        c
        for c in columns(found)
        if c in ("graph", "PEs") or c.startswith("static multicast") or c.endswith("ratio")
    ]
    return markdown(found, shown)


def sweep() -> str:
    """Every listed graph on every mesh."""
    found = stored("sweep")
    return markdown(found, [c for c in columns(found) if c not in ("read", "results")])
