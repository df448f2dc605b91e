"""Writes the reference pages that derive from declarations: `python docs/generate.py`.

A test holds them up to date.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, is_dataclass
from pathlib import Path

from penstock.cli import parser as make_parser
from penstock.cli.examples import EXAMPLES, is_long
from penstock.frontend.operator_reference import operator_reference
from penstock.machine.config import Machine, Published
from penstock.machine.functions import FUNCTIONS
from penstock.machine.kinds import KINDS
from penstock.samples import SAMPLES

HERE = Path(__file__).parent


def configuration() -> str:
    """Every field of a machine configuration."""
    lines = [
        "# Configurations",
        "",
        "A TOML file with a `[machine]` and a `[published]` table (`sim_configs/` has the "
        "presets); unknown fields are refused.",
        "What is left out has its default. `description` is a text; `[defaults.NAME]` gives "
        "parameters of the program NAME (a workload, or the name of a file without `.py`) that "
        "hold on this machine unless `--set` says otherwise.",
        "",
    ]
    for name, cls in (("machine", Machine), ("published", Published)):
        lines += [
            f"## `[{name}]`",
            "",
            "| field | default | range | meaning, unit, source |",
            "|---|---|---|---|",
        ]
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
            allowed = f.metadata["allowed"]
            limits = f"{allowed[0]} to {allowed[-1]}" if allowed else ""
            out.append(f"| `{prefix}{f.name}` | `{default!r}` | {limits} | {f.metadata['doc']} |")
    return out


def kinds() -> str:
    """Unit kinds and functions of the `machine` timing."""
    lines = [
        "# Unit kinds and functions",
        "",
        "Declared in `machine/kinds.py` and `machine/functions.py`; the rules are in "
        "[timing.md](timing.md). *Run-time* parameters are",
        "configuration registers in the RTL, so that one build serves many values.",
        "",
        "| kind | what it does | parameters | run-time |",
        "|---|---|---|---|",
    ]
    for k in sorted(KINDS.values(), key=lambda k: k.name):
        params = "; ".join(f"`{p}`: {doc}" for p, doc in k.params.items()) + "".join(
            f"; optional `{p}`: {doc}" for p, doc in k.optional.items()
        )
        lines.append(
            f"| `{k.name}` | {k.doc} | {params} | {', '.join(f'`{r}`' for r in k.runtime)} |"
        )
    lines += ["", "| function | operands | stages | FLOP per element | |", "|---|--:|--:|--:|---|"]
    lines += [
        f"| `{f.name}` | {f.arity} | {f.stages} | {f.flops_per_element} | {f.doc} |"
        for f in FUNCTIONS.values()
    ]
    return "\n".join([*lines, ""])


def cli() -> str:
    """Every command with its arguments, from the parser itself."""
    lines = [
        "# Command line",
        "",
        "`penstock COMMAND --help` says the same. A command that fails prints one message on "
        "standard error and exits with 1 (2: the command line itself",
        "is wrong) and leaves no half-written file. Progress goes to standard error: a bar on a "
        "terminal, plain lines elsewhere, nothing with `--quiet`.",
        "The same calls from Python: [api.md](api.md). The first run after an installation "
        "compiles the model (half a minute; a unit when a program first has it). Simulator "
        "builds (a minute or two for each new structure) are kept in",
        "`PENSTOCK_CACHE`, or in the user's cache folder. What is kept there is verified when it "
        "is used, and built anew where it is damaged; what was not used for longest is removed, "
        "down to",
        "`PENSTOCK_CACHE_GB` (10 unless it is set), but nothing that was used within the hour.",
        "",
        "An interrupt (Ctrl-C, SIGTERM) ends a command, all processes that it started and its "
        "temporary folders within 2 seconds; code that hears of none is ended by force after "
        "one.",
        "`penstock dag solve` then writes the best schedule that it has.",
        "",
        "A file to write may be `-`, standard output: what the command prints goes to standard "
        "error then. Devices and",
        "pipes are written to, links are followed, and any other file appears whole or not at "
        "all and keeps its mode.",
        "",
    ]
    for name, parser in _commands().items():
        what = _help_of(name)
        lines += [f"## `penstock {name}`", "", f"{what[0].upper()}{what[1:]}.", ""]
        for fence, takes_long in (("```sh", False), ("```sh long", True)):
            if examples := [line for line in EXAMPLES.get(name, ()) if is_long(line) == takes_long]:
                lines += [fence, *examples, "```", ""]
        lines += ["| argument | meaning |", "|---|---|"]
        for a in parser._actions:
            if a.dest != "help" and not isinstance(a, argparse._SubParsersAction):
                lines.append(f"| {_argument(a)} | {_meaning(a)} |")
        lines.append("")
    return "\n".join(lines)


def _commands() -> dict[str, argparse.ArgumentParser]:
    """Commands that do something, by their full name."""

    def walk(parser, prefix):
        subs = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not subs:
            return {prefix: parser}
        return {
            k: v
            for name, sub in subs[0].choices.items()
            for k, v in walk(sub, f"{prefix} {name}".strip()).items()
        }

    return walk(make_parser(), "")


def _help_of(name: str) -> str:
    """The line that the parent command prints about a command."""
    parser = make_parser()
    text = ""
    for word in name.split():
        subs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        text = next(c.help for c in subs._choices_actions if c.dest == word)
        parser = subs.choices[word]
    return text


def _argument(a: argparse.Action) -> str:
    if not a.option_strings:
        name = a.metavar or ("{" + ",".join(a.choices) + "}" if a.choices else a.dest.upper())
        return f"`[{name}]`" if a.nargs == "?" else f"`{name}`"
    value = (
        ""
        if a.nargs == 0
        else " "
        + (
            a.metavar
            or ("{" + ",".join(map(str, a.choices)) + "}" if a.choices else a.dest.upper())
        )
    )
    return f"`{a.option_strings[-1]}{value}`"


def _meaning(a: argparse.Action) -> str:
    text = (a.help or "").replace("|", "\\|").replace("**", r"\*\*")
    default = (
        a.default if a.option_strings and a.nargs != 0 and a.default not in (None, [], "") else None
    )
    notes = [
        *(["required"] if a.required and a.option_strings else []),
        *([f"default `{default}`"] if default is not None and "default" not in text else []),
    ]
    return f"{text} ({', '.join(notes)})".strip() if notes else text


def samples() -> str:
    """What comes in the box."""
    lines = [
        "# What comes in the box",
        "",
        "`penstock new NAME` copies a file or a folder from the installed package into this one; "
        "`--out PATH` gives the copy another name.",
        "",
        "| name | copy | what it is | and then |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{name}` | `{s.file}` | {s.what} | `{s.then()}` |" for name, s in SAMPLES.items()]
    lines += [
        "",
        "Programs: [programs.md](programs.md) and [extending.md](extending.md). The graph: "
        "[first_graph.md](first_graph.md). The problem and its format: "
        "[dag_scheduler.md](dag_scheduler.md).",
        "Traces: [figures.md](figures.md). Machines are presets "
        "([configuration.md](configuration.md)); built-in programs, which need no copy, are "
        "listed by `penstock run` when it does not know a name.",
    ]
    return "\n".join([*lines, ""])


PAGES = {
    "cli.md": cli,
    "configuration.md": configuration,
    "kinds.md": kinds,
    "operators.md": operator_reference,
    "samples.md": samples,
}


def main() -> None:
    for name, page in PAGES.items():
        (HERE / name).write_text(page().rstrip() + "\n")
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
