"""The tables of docs/overlay_resources.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable

from made.clocks_overlay import RECORD as CLOCKS
from made.overlay_resources import FORWARD, RECORD
from penstock.overlay.parts import CAPACITY
from penstock.overlay.resources import TABLES
from tables import frame


def records(family: str) -> dict[str, list[dict]]:
    """Tables of one family by name; those that were not made are empty."""
    found: dict[str, list[dict]] = {name: [] for name in TABLES}
    for row in RECORD.rows(family):
        found[row["table"]].append({k: v for k, v in row.items() if k != "table"})
    return found


def cell(value) -> str:
    return (
        ""
        if value is None
        else f"{value:.3g}"
        if isinstance(value, float) and not value.is_integer()
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


def table(rows: list[dict], columns: dict[str, str] | None = None) -> str:
    """Columns by key, with their titles (default: every column that has
    a value).
    """
    columns = columns or {
        k: k
        for k in dict.fromkeys(k for r in rows for k in r)
        if any(r.get(k) is not None for r in rows)
    }
    numeric = [all(isinstance(r.get(k), (int, float, type(None))) for r in rows) for k in columns]
    return frame([*columns.values()], [[cell(r.get(k)) for k in columns] for r in rows], numeric)


SWEPT = {("dynamic", "PE"): "fifo per_edge", ("dynamic", "switch"): "mesh"}
BLOCK = "contexts in block RAM"


def pivot(rows: list[dict], by: str, keep: Callable[[dict], bool]) -> list[dict]:
    """One row per value of ``by``: LUT / FF / block RAM of every part
    that is swept, and the published LUT / FF.
    """
    out: dict[object, dict] = {}
    for r in rows:
        if keep(r) and r["variant"] in (
            SWEPT.get((r["pe"], r["part"])),
            "contexts in LUT RAM",
            BLOCK,
        ):
            row = out.setdefault(r[by], {by: r[by]})
            row[f"{r['pe']} {r['part']}" + (f", {r['variant']}" if r["pe"] == "static" else "")] = (
                f"{r['lut']} / {r['ff']} / {cell(r['bram'])}"
            )
            if r["published lut"] is not None:
                row[f"published {r['pe']} {r['part']}"] = (
                    f"{r['published lut']} / {r['published ff']}"
                )
    return [out[k] for k in sorted(out)]


def by_payload(family: str) -> str:
    """LUT / FF / block RAM at full capacity, by the width of a value."""
    rows = records(family)["resources"]
    return table(
        pivot(rows, "payload", lambda r: r["contexts"] == CAPACITY and r["variant"] != BLOCK)
    )


def by_contexts(family: str) -> str:
    """The same at 32 bits, by nodes, edges and contexts."""
    return table(pivot(records(family)["resources"], "contexts", lambda r: r["payload"] == 32))


def full(found: dict[str, list[dict]]) -> str:
    """Every variant at full capacity."""
    return table(
        [r for r in found["resources"] if (r["payload"], r["contexts"]) == (32, CAPACITY)],
        {
            k: k
            for k in (
                "pe",
                "part",
                "variant",
                "lut",
                "lut_ram",
                "ff",
                "bram",
                "published lut",
                "published ff",
            )
            if any(r.get(k) is not None for r in found["resources"])
        },
    )


class Facts:
    """Numbers of the text, taken from one family's tables."""

    def __init__(self, found: dict[str, list[dict]]):
        self.found = found

    def part(self, pe: str, part: str, variant: str) -> dict:
        return next(
            r
            for r in self.found["resources"]
            if (r["pe"], r["part"], r["variant"], r["payload"], r["contexts"])
            == (pe, part, variant, 32, CAPACITY)
        )

    def alu(self, part: str, latency: str = "pipelined") -> dict:
        return next(
            r
            for r in self.found["alus"]
            if (r["part"], r["format"], r["operations"], r["latency"])
            == (part, "fp32", "every operation", latency)
        )

    def best(self, kind: str, key: str) -> dict[tuple, float]:
        """The best number per graph and mesh, of variants whose name
        begins so; only where both kinds of tile fit.
        """
        out: dict[tuple, float] = {}
        for r in self.found["density"]:
            if r["variant"].startswith(kind) and r[key] is not None:
                out[r["graph"], r["mesh"]] = max(out.get((r["graph"], r["mesh"]), 0), r[key])
        return out

    def gain(self, key: str, kind: str = "static") -> str:
        """Range of the best static over the best dynamic tile."""
        dynamic = self.best("dynamic", key)
        static = self.best(kind, key)
        gains = sorted(static[at] / dynamic[at] for at in static if at in dynamic)
        return f"{gains[0]:.2g} to {gains[-1]:.2g}"


def changes() -> str:
    """What hand-written RTL takes beside the published HLS, on Xilinx
    7.
    """
    f = Facts(records("xc7"))
    first, *_, last = records("xc7")["ratios"]
    in_lut, in_block = "contexts in LUT RAM", BLOCK
    return frame(
        ("what", "ours", "published"),
        [
            *_parts(f),
            *(
                (
                    f"dynamic over static, {what}, at {r['contexts']} contexts",
                    *(_ratio(r[column]) for column in (f"{key}, {in_lut}", f"published {key}")),
                )
                for what, key, r in (
                    ("LUTs", "lut", first),
                    ("LUTs", "lut", last),
                    ("flip-flops", "ff", last),
                    ("block RAM", "bram", last),
                )
            ),
            *(
                (
                    f"the same with {BLOCK}, {what}, at {last['contexts']} contexts",
                    _ratio(last[f"{key}, {in_block}"]),
                    "",
                )
                for what, key in (("LUTs", "lut"), ("block RAM", "bram"))
            ),
        ],
        (False, True, True),
    )


def _ratio(x: float) -> str:
    return f"{x:.2f}"


def _parts(f: Facts) -> list[tuple[str, str, str]]:
    """LUTs and flip-flops of the parts that the paper has."""
    found = []
    for name, pe, part, variant in (
        ("buffered router", "dynamic", "switch", "mesh"),
        ("dynamic PE", "dynamic", "PE", "fifo per_edge"),
        ("static PE", "static", "PE", "contexts in LUT RAM"),
        ("time-multiplexed switch", "static", "switch", "contexts in LUT RAM"),
    ):
        r = f.part(pe, part, variant)
        found += [
            (f"{name}, {what}", str(r[key]), str(r[f"published {key}"]))
            for what, key in (("LUTs", "lut"), ("flip-flops", "ff"))
        ]
    return found


def prices() -> str:
    """What faster dynamic PEs, and ALUs, cost on Xilinx 7."""
    f = Facts(records("xc7"))
    pe = f.part("dynamic", "PE", "fifo per_edge")
    rows = []
    for name, part, variant in (
        ("dynamic PE, FIFO order", "PE", "fifo per_edge"),
        ("with criticality order and consumer chains", "PE", "criticality per_pe"),
        ("and two consumers a cycle (`wake` = 2)", "PE", "criticality per_pe wake2"),
        ("buffered router for the wider packets of `wake` = 2", "switch", "mesh wake2"),
        ("deflection router", "switch", "hoplite"),
    ):
        r = f.part("dynamic", part, variant)
        times = f"{r['lut'] / pe['lut']:.1f}" if part == "PE" else ""
        rows.append((name, str(r["lut"]), cell(r["bram"]), times))
    rows += [
        (name, str(f.alu(key)["lut"]), "", "")
        for name, key in (
            ("pipelined fp32 ALU by itself", "ALU"),
            ("dynamic PE with it", "dynamic PE"),
            (f"static PE with it, {BLOCK}", "static PE"),
        )
    ]
    header = ("what", "LUTs", "block RAM", "times the dynamic PE")
    return frame(header, rows, (False, True, True, True))


def forward() -> str:
    """What forwarding of results costs, on either family."""
    lines = []
    for case, family in FORWARD.items():
        rows = RECORD.rows(case)
        for r, before in zip(rows, [None, *rows], strict=False):
            more = f"{r['lut'] / before['lut']:.2f}" if before else ""
            costs = [cell(r[k]) for k in ("lut", "lut_ram", "ff", "bram")]
            lines.append([family, r["variant"], *costs, more])
    header = ("family", "dynamic PE", "LUTs", "LUT RAM", "FFs", "block RAM", "LUTs over the last")
    return frame(header, lines, [i > 1 for i in range(len(header))])


def gains() -> str:
    """Results per LUT and per block RAM: the range of best static over
    best dynamic tile.
    """
    f = Facts(records("xc7"))
    rows = [
        (f"per LUT, {where}", f.gain("ops per kcycle and kLUT", f"static multicast, {where}"))
        for where in ("contexts in LUT RAM", BLOCK)
    ]
    rows += [
        ("per LUT, ALU counted", f.gain("ops per kcycle and kLUT, with ALU")),
        ("per block RAM", f.gain("ops per kcycle and BRAM")),
    ]
    return frame(("results", "best static over best dynamic tile"), rows, (False, True))


def clocks() -> str:
    """Rates after place and route, at the slowest grade and the
    fastest, with what is aimed at.
    """
    rows = CLOCKS.rows()
    if not rows:
        return "No part has been placed and routed at these sources."
    columns = {
        "part": "part",
        "variant": "variant",
        "speed": "grade",
        "aim": "aim",
        "mhz": "MHz",
        "seeds": "by seed",
        **{name: name for name in ("lut", "ff", "bram", "dsp", "share")},
    }
    return table(rows, columns)


FORMER = {("dynamic tile", "every operation, deep")}
"""Whose aim is that of the form with a register more."""
REMEDIES = {
    ("dynamic switch", "mesh"): (
        "a register behind each output, which the choice among FIFOs' heads ends in: a cycle more "
        "for each hop"
    ),
    ("dynamic tile", "no ALU"): (
        "a register behind the queue of ready nodes: a cycle more for each level of a graph"
    ),
    ("ALU, deep", "every operation"): (
        "the multiplier's own registers, which Yosys does not use, around the product of `square`; "
        "or one stage more of `log`"
    ),
    ("dynamic tile", "every operation, registered"): (
        "a register behind `issue`: a result enters the list of what is due a cycle later and a "
        "place nearer, and what stands in the register counts as taken"
    ),
}
"""What would cut the path of a part."""


def missed() -> str:
    """Parts below their aim, with the path that limits them and what
    would cut it.
    """
    rows = []
    for row in CLOCKS.rows():
        name = row["part"], row["variant"]
        aim = row["aim"]
        if aim is None or name in FORMER:
            continue
        if row["mhz"] >= aim:
            continue
        share = f"{row['mhz'] / aim:.0%}"
        rows.append(row | {"of aim": share, "remedy": REMEDIES.get(name, "")})
    if not rows:
        return "No part that has been placed and routed is below its aim."
    columns = {
        "part": "part",
        "variant": "variant",
        "of aim": "of its aim",
        "path": "path",
        "remedy": "what would cut it",
    }
    return table(rows, columns)


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/overlay_resources.md."""
    found = {"changes": changes, "prices": prices, "gains": gains, "clocks": clocks}
    found["missed"] = missed
    found["forward"] = forward
    for family in ("xc7", "ecp5"):
        tables = {
            "full": lambda family=family: full(records(family)),
            "memories": lambda family=family: table(records(family)["memories"]),
            "by payload": lambda family=family: by_payload(family),
            "by contexts": lambda family=family: by_contexts(family),
            "ratios": lambda family=family: table(records(family)["ratios"]),
            "alus": lambda family=family: table(records(family)["alus"]),
            "density": lambda family=family: table(records(family)["density"]),
        }
        found |= {f"{name} {family}": make for name, make in tables.items()}
    return found
