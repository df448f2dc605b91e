"""Writes the reference pages that derive from declarations: `python docs/generate.py`. A test holds them up to date."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

from penstock.frontend.operator_reference import operator_reference
from penstock.machine.config import Machine, Published
from penstock.machine.functions import FUNCTIONS
from penstock.machine.kinds import KINDS

HERE = Path(__file__).parent


def configuration() -> str:
    """Every field of a machine configuration."""
    lines = ["# Configurations", "", "A TOML file with a `[machine]` and a `[published]` table (`sim_configs/` has the presets); unknown fields are refused.", ""]
    for name, cls in (("machine", Machine), ("published", Published)):
        lines += [f"## `[{name}]`", "", "| field | default | meaning, unit, source |", "|---|---|---|"]
        lines += _rows(cls, "")
        lines.append("")
    return "\n".join(lines)


def _rows(cls, prefix: str) -> list[str]:
    out = []
    for f in fields(cls):
        default = f.default_factory() if callable(f.default_factory) else f.default
        if is_dataclass(default):
            out += _rows(type(default), f"{prefix}{f.name}.")
        else:
            out.append(f"| `{prefix}{f.name}` | `{default!r}` | {f.metadata['doc']} |")
    return out


def kinds() -> str:
    """Unit kinds and functions of the `machine` timing."""
    lines = ["# Unit kinds and functions", "", "Declared in `machine/kinds.py` and `machine/functions.py`; the rules are in [timing.md](timing.md). *Run-time* parameters are",
             "configuration registers in the RTL, so that one build serves many values.", "", "| kind | what it does | parameters | run-time |", "|---|---|---|---|"]
    for k in sorted(KINDS.values(), key=lambda k: k.name):
        params = "; ".join(f"`{p}`: {doc}" for p, doc in k.params.items()) + "".join(f"; optional `{p}`: {doc}" for p, doc in k.optional.items())
        lines.append(f"| `{k.name}` | {k.doc} | {params} | {', '.join(f'`{r}`' for r in k.runtime)} |")
    lines += ["", "| function | operands | stages | FLOP per element | |", "|---|--:|--:|--:|---|"]
    lines += [f"| `{f.name}` | {f.arity} | {f.stages} | {f.flops_per_element} | {f.doc} |" for f in FUNCTIONS.values()]
    return "\n".join([*lines, ""])


PAGES = {"configuration.md": configuration, "kinds.md": kinds, "operators.md": operator_reference}


def main() -> None:
    for name, page in PAGES.items():
        (HERE / name).write_text(page().rstrip() + "\n")
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
