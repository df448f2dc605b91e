"""The tables of docs/regression.md, for `docs/generate.py`."""

from __future__ import annotations

from collections.abc import Callable

from made.deep import RECORD as DEEP
from made.regress import RECORD
from penstock.frontend import build
from penstock.frontend.graph import OPERATORS
from penstock.runs import regress
from penstock.runs.tables import total as total_of
from tables import frame

FORMS = "regression_forms"
"""Part of the deep tests."""


def markdown(header: tuple[str, ...], rows: list[tuple]) -> str:
    """A table; numbers stand at the right."""
    cells = [[f"{v:.2g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return frame(
        header,
        cells,
        [bool(rows) and isinstance(rows[0][i], (int, float)) for i in range(len(header))],
    )


def by_design(entries: list[dict]) -> list[tuple]:
    """One line for each design, from the rows of its points."""
    out = []
    for entry in entries:
        name, mine = entry["case"], entry["rows"]
        channels = (
            mine[0].get("channels", "-")
            if len({r.get("channels") for r in mine}) == 1
            else "several"
        )
        out.append(
            (
                name,
                len(mine),
                sum(r.get("cycles model") or 0 for r in mine),
                sum(r.get("cycles RTL") or 0 for r in mine),
                channels,
                sum(r.get("differ") or 0 for r in mine),
                "yes" if all(r.get("values") for r in mine) else "NO",
                float(max(r.get("max rel err") or 0.0 for r in mine)),
                entry.get("commit") or "unknown",
            )
        )
    return out


def uses(names: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Operators and functions, each with those of the designs ``names``
    that have it.
    """
    operators: dict[str, list[str]] = {
        n: [] for n, cls in OPERATORS.items() if cls.__module__.startswith("penstock.")
    }
    functions: dict[str, list[str]] = {}
    for d in regress.DESIGNS:
        if d.name in names:
            for node in build(d.program, d.points[0], d.machine()).graph.nodes:
                found = [operators.setdefault(type(node).__name__, [])]
                if fn := node.args.get("fn"):
                    found.append(functions.setdefault(fn.name, []))
                for f in found:
                    if d.name not in f:
                        f.append(d.name)
    return operators, functions


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/regression.md."""
    return {
        "total": total,
        "forms": forms,
        "designs": designs,
        "operators": lambda: listed("operator", uses(names())[0]),
        "functions": lambda: listed("function", uses(names())[1]),
    }


def forms() -> str:
    """The last run of the designs in other forms of their machines."""
    stored = {entry["case"]: entry for entry in DEEP.entries(FORMS)}
    if FORMS not in stored:
        return f"Not run yet: `nox -s deep -- {FORMS}`."
    (row,) = stored[FORMS]["rows"]
    passed = row["passed"]
    at = stored[FORMS]["commit"]
    how = f"`nox -s deep -- {FORMS}`"
    return f"{passed} tests passed at {at} ({how})."


def names() -> set[str]:
    """The designs of the stored table."""
    return {entry["case"] for entry in RECORD.entries()}


def total() -> str:
    """What all points come to, and which designs are not among them."""
    found = total_of(RECORD.rows(), design="total")
    verilators = dict.fromkeys(entry["versions"]["verilator"] for entry in RECORD.entries())
    missing = [d.name for d in regress.DESIGNS if d.name not in names()]
    rows = [
        ("points", found["point"]),
        ("cycles on the model", str(found["cycles model"])),
        ("cycles on RTL", str(found["cycles RTL"])),
        ("channels observed", found["channels"]),
        ("beats that differ", str(found["differ"])),
        ("simulations, s", f"{found['wall s']:.0f}"),
        ("made with", f"Verilator {', '.join(verilators)}"),
        ("designs not in the table", ", ".join(missing) or "none"),
    ]
    return markdown(("what", "how much"), rows)


def designs() -> str:
    """A line for each design."""
    header = (
        "design",
        "points",
        "cycles, model",
        "RTL",
        "channels",
        "differ",
        "bit-equal to NumPy",
        "error against float64",
        "commit",
    )
    return markdown(header, by_design(RECORD.entries()))


def listed(what: str, found: dict[str, list[str]]) -> str:
    """What is used where: four designs, and how many more."""
    rows = []
    for name, where in sorted(found.items()):
        more = f" and {len(where) - 4} more" if len(where) > 4 else ""
        rows.append((f"`{name}`", f"{', '.join(where[:4])}{more}"))
    return markdown((what, "designs"), rows)
