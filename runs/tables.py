"""Points of a sweep or a regression as rows of a table, with totals; the same rows are printed,
stored and read.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..machine.record import Record
from ..system import output

if TYPE_CHECKING:
    from .outcomes import Outcome


def agreement(rtl: Record) -> str:
    """Result of the comparison of every beat, of an RTL record that has been compared."""
    text = (
        f"model = RTL: {rtl.channels_observed}/{rtl.channels_total} channels observed, "
        f"{rtl.mismatches} mismatched beats"
    )
    if rtl.compared is None:
        return text
    counts = ", ".join(f"{n} {what}" for what, n in rtl.compared.items())
    return f"{text}; compared: {counts}"


def row(o: Outcome, **first) -> dict:
    """A row for a point: its parameters, then the measurements of the backends that ran."""
    out = dict(first)
    model = o.model
    rtl = o.rtl
    any_ = rtl or model
    if model:
        out["cycles model"] = model.cycles
    if rtl:
        out["cycles RTL"] = rtl.cycles
    if model and rtl:
        out["error"] = rtl.cycles / model.cycles - 1
    if any_:
        out |= {"traffic B": any_.offchip_bytes, "lines B": any_.dram_bytes}
        if any_.spilled_bytes is not None:
            out["spilled B"] = any_.spilled_bytes
        out |= {
            "on-chip B": any_.onchip_bytes,
            "off-chip use": any_.offchip_utilisation,
            "compute use": any_.compute_utilisation,
        }
    if model and rtl and rtl.channels_total is not None:
        out |= {
            "channels": f"{rtl.channels_observed}/{rtl.channels_total}",
            "differ": rtl.mismatches,
        }
    if any_:
        out |= {"values": any_.values_ok, "max rel err": any_.max_rel_err, "wall s": any_.wall_s}
    if rtl:
        out["set-up s"] = rtl.setup_s
        out["RTL cycles/s"] = round(rtl.cycles / rtl.wall_s) if rtl.wall_s else None
    if o.error:
        out["failed"] = str(o.error)
    elif any(r.values_ok is False for r in o.records):
        out["failed"] = (
            "; ".join(dict.fromkeys(m for r in o.records for m in r.wrong)) or "not NumPy's values"
        )
    return out


def total(rows: Sequence[dict], **first) -> dict:
    """The last row: sums of cycles, traffic, channels and time, the largest errors, the speed over
    all points.
    """
    out = {**first, "point": f"{sum('failed' not in r for r in rows)} of {len(rows)} points passed"}
    sums = ("cycles model", "cycles RTL", "traffic B", "lines B", "spilled B", "differ", "wall s")
    for name in (*sums, "set-up s"):
        if got := [r[name] for r in rows if r.get(name) is not None]:
            out[name] = sum(got)
    for name in ("error", "max rel err"):
        if got := [r[name] for r in rows if r.get(name) is not None]:
            out[name] = max(got, key=abs)
    if got := [r["values"] for r in rows if r.get("values") is not None]:
        out["values"] = all(got)
    if got := [r["channels"].split("/") for r in rows if "channels" in r]:
        out["channels"] = f"{sum(int(a) for a, _ in got)}/{sum(int(b) for _, b in got)}"
    if out.get("cycles RTL") and out.get("wall s"):
        out["RTL cycles/s"] = round(out["cycles RTL"] / out["wall s"])
    return out


def failures(rows: Iterable[dict]) -> str:
    """The messages of the points that failed, or an empty text."""
    lines = []
    for r in rows:
        if "failed" in r:
            name = " ".join(str(r[k]) for k in ("design", "point") if k in r)
            lines.append(f"FAILED {name}: {r['failed']}")
    return "\n".join(lines)


def one_message(found: Sequence[Outcome]) -> None:
    """Raise an error once where every point fails for one and the same reason."""
    errors = [o.error for o in found if o.error is not None]
    if errors and len(errors) == len(found) and len({str(e) for e in errors}) == 1:
        raise errors[0]


MOST_TENSORS = 8
"""Tensors whose traffic is shown."""


def traffic(r: Record) -> str:
    """The tensors with most traffic of a run, in bytes of the lines moved; empty without any."""
    moved = {t["name"]: t["read_bytes"] + t["written_bytes"] for t in r.tensors}
    most = sorted(moved, key=lambda name: -moved[name])
    if not sum(moved.values()):
        return ""
    shown = [f"{name} {moved[name]}" for name in most[:MOST_TENSORS]]
    if len(most) > MOST_TENSORS:
        rest = sum(moved[name] for name in most[MOST_TENSORS:])
        shown.append(f"{len(most) - MOST_TENSORS} more {rest}")
    return f"lines moved by tensor, B: {', '.join(shown)}"


def wrong(records: Iterable[Record]) -> str:
    """Wrong values of some runs, a line each; empty where there are none."""
    return "\n".join(
        f"{r.workload} on {r.config}, {r.backend.replace('rtl', 'RTL')}: {message}"
        for r in records
        for message in r.wrong
    )


def quantities(records: Sequence[Record]) -> list[dict]:
    """Records of one point side by side: a row per quantity, a column per backend."""
    shown = {
        "cycles": "cycles",
        "bound_cycles": "cycles at least",
        "bound_by": "by",
        "offchip_bytes": "off-chip traffic, B",
        "dram_bytes": "off-chip lines moved, B",
        "spilled_bytes": "of them spilled buffers, B",
        "offchip_utilisation": "off-chip bandwidth used",
        "onchip_bytes": "on-chip requirement, B",
        "onchip_peak_bytes": "on-chip pages in use, B",
        "bound_onchip_bytes": "on-chip pages at least, B",
        "flops": "FLOP",
        "compute_utilisation": "compute used",
        "values_ok": "values right",
        "max_rel_err": "error against float64",
    }
    rows = [
        {"": title} | {r.backend.replace("rtl", "RTL"): getattr(r, name) for r in records}
        for name, title in shown.items()
    ]
    return [r for r in rows if any(v not in (None, "") for k, v in r.items() if k)]


def _names(rows: Sequence[dict]) -> list[str]:
    return list(dict.fromkeys(k for r in rows for k in r))


def to_csv(rows: Sequence[dict]) -> str:
    """Rows as CSV with a header line; empty cells where a row has no value."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _names(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _shown(rows: Sequence[dict]) -> tuple[list[str], list[dict]]:
    """Columns and rows to print: a long message gives way to a verdict and follows the table."""
    names = _names(rows)
    if "failed" in names:
        names[names.index("failed")] = "result"
        rows = [{**r, "result": "FAILED" if "failed" in r else "ok"} for r in rows]
    return names, list(rows)


def _table(names: Sequence[str], rows: Sequence[dict], title: str | None):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(title=title, box=box.SIMPLE, title_justify="left")
    for n in names:
        cells = [r[n] for r in rows if r.get(n) is not None]
        numeric = any(isinstance(v, (int, float)) or _NUMBER.fullmatch(str(v)) for v in cells)
        out.add_column(n, justify="right" if numeric else "left", overflow="fold")
    for r in rows:
        out.add_row(*(Text(_cell(r.get(n))) for n in names))
    return out


def _cell(v) -> str:
    if v is None:
        return "-"
    if isinstance(v, bool):
        return "yes" if v else "NO"
    if isinstance(v, float):
        return f"{v:.4g}"
    return str(v)


_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?%?")
"""A number that is text already: it stands at the right of its column, too."""
RULE = "\u2500"
"""Character of a table's lines."""
MOST_COLUMNS = 8
MOST_WIDTH = 100
"""Characters of a line of a printed table."""
WIDE = 10_000
"""Columns of a terminal that is wide enough for anything."""


def _width(table) -> int:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDE)
    return console.measure(table).maximum


def text_table(rows: Sequence[dict], title: str | None = None) -> str:
    """Rows as an aligned table of plain text, as wide as it needs to be."""
    return _text(_table(*_shown(rows), title))


def _text(table) -> str:
    """A table as text, as wide as it needs to be."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=_width(table), no_color=True).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n") + "\n"


def _ruled(text: str, encoding: str | None) -> str:
    """A table's text with the rule that an encoding has."""
    try:
        RULE.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.replace(RULE, "-")
    return text


def fitting(
    rows: Sequence[dict], width: int, title: str | None = None, keep: Collection[str] = ()
) -> tuple[object, list[str]]:
    """A table of at most ``MOST_COLUMNS`` columns and ``width`` characters, and the names of the
    columns left out: those that take half of the width, then from the right (but not the verdict,
    nor those to ``keep``).
    """
    names, rows = _shown(rows)
    every = list(names)
    table = _table(names, rows, title)
    spare = [n for n in names[1:] if n != "result" and n not in keep]
    if len(names) > MOST_COLUMNS or _width(table) > width:
        spare.sort(key=lambda n: _width(_table([n], rows, None)) > width // 2)
    while spare and (len(names) > MOST_COLUMNS or _width(table) > width):
        names.remove(spare.pop())
        table = _table(names, rows, title)
    return table, [n for n in every if n not in names]


def print_table(rows: Sequence[dict], title: str | None = None, keep: Collection[str] = ()) -> None:
    """Print rows on standard output: the columns that fit (:func:`fitting`), or with `--wide` all
    of them.
    """
    from rich.console import Console

    if output.Shown.wide:
        print(_ruled(text_table(rows, title), sys.stdout.encoding))
        return
    width = min(MOST_WIDTH, Console().width) if sys.stdout.isatty() else MOST_WIDTH
    table, left_out = fitting(rows, width, title, keep)
    print(_ruled(_text(table), sys.stdout.encoding))
    if left_out:
        print(f"not shown: {', '.join(left_out)} (--wide shows all)")
