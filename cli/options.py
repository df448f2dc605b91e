"""Arguments that several commands share, their values, and checks of output files."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError
from ..machine.forms import FORMS
from ..machine.timings import TIMINGS, current_name
from ..runs import tables
from ..runs.executors import named
from ..runs.progress import display as shown
from ..system import output
from ..system.reading import MOST_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..machine.config import Config
    from ..machine.record import Record
    from ..runs.progress import Progress

CONFIG = "fig8"
"""The configuration where none is named."""
SEVERAL = (
    "NAME=A,B,...",
    "a parameter of the program and its values; several such options make every combination",
)
"""Arguments of :func:`add_program` where a parameter takes several values."""


def add_program(
    c: argparse.ArgumentParser,
    value: str = "NAME=VALUE",
    meaning: str = "a parameter of the program",
    more: str = "",
    default: str | None = CONFIG,
    otherwise: str = "",
    several: bool = False,
) -> None:
    """The program, its configuration and its parameters.

    ``otherwise`` is the configuration where none is named and there is no default; with ``several``
    the command takes several machines (:func:`machines`).
    """
    c.add_argument(
        "program",
        help="a workload's name (swiglu) or a Python file that defines program(**params)" + more,
    )
    if several:
        add_machines(c)
    else:
        c.add_argument("--config", default=default, help=f"preset name or TOML file{otherwise}")
    add_set(c, meaning, value)


def add_machines(c: argparse.ArgumentParser) -> None:
    """The machines that a program runs on."""
    c.add_argument(
        "--config",
        action="append",
        metavar="NAME",
        help=f"preset name or TOML file (default {CONFIG}); several such options: each of them",
    )
    c.add_argument(
        "--machine",
        action="append",
        default=[],
        metavar="FIELD=A,B,...",
        help="other values of a field of the configuration's table [machine], by its name there "
        "(channel_depth, dram.interval, lanes.silu); several make every combination",
    )


def add_set(c: argparse.ArgumentParser, meaning: str, value: str = "NAME=VALUE") -> None:
    """A program's parameters."""
    c.add_argument("--set", dest="params", action="append", default=[], metavar=value, help=meaning)
    add_max_memory(c)


def add_max_memory(c: argparse.ArgumentParser) -> None:
    """Option for the most that a compressed file may hold."""
    c.add_argument(
        "--max-memory",
        type=float,
        metavar="GB",
        help="what a compressed file that is read may take, in 10^9 bytes "
        "(default: 64 times its size, at most 2)",
    )


def add_array(c: argparse.ArgumentParser) -> None:
    """The array that a program is placed on."""
    c.add_argument(
        "--array",
        metavar="NAME",
        help="place the program on this array (preset or TOML file), in place of --config",
    )


def machines(args: argparse.Namespace) -> list[tuple[dict, Config]]:
    """The configurations of :func:`add_machines`, or the array's, in every combination with the
    values of ``--machine``; for each what sets it apart, by column of a table.
    """
    from ..machine.config import load

    array = getattr(args, "array", None)
    if array and args.config:
        raise PenstockError(
            f"is given beside --array {array}",
            "--config",
            remedy="an array's configuration says what its machine is: leave out --config",
        )
    names = [array] if array else args.config or [CONFIG]
    check_once("--config", names)
    settings = grid_of(args.machine, "--machine")
    found: list[tuple[dict, Config]] = []
    for name, *values in itertools.product(names, *settings.values()):
        one = dict(zip(settings, values, strict=True))
        config = load(name, one)
        if array:
            from ..runs.array import array_config

            array_config(config)
        found.append((({"config": name} if len(names) > 1 else {}) | one, config))
    return found


def seeds(args: argparse.Namespace) -> list[int]:
    """The seeds of the inputs, each once."""
    found = args.seed or [0]
    check_once("--seed", found)
    return found


def check_once(option: str, values: list) -> None:
    """Raise where an option has one value twice."""
    for i, value in enumerate(values):
        if value in values[:i]:
            raise PenstockError(f"{option} names {value} twice")


def add_timing(
    c: argparse.ArgumentParser,
    meaning: str = "this machine's cycles, or the published simulator's (model only)",
) -> None:
    c.add_argument("--timing", choices=TIMINGS, type=current_name, default="machine", help=meaning)


def add_rule(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "--onchip-rule",
        default="published",
        metavar="RULE",
        help="rule of the on-chip requirement: published, paper or machine",
    )


def add_run(c: argparse.ArgumentParser, both: str = "") -> None:
    """Options for the place and the way of a run; ``both`` adds to the help of ``--on both``."""
    c.add_argument(
        "--on",
        choices=("model", "rtl", "both"),
        default="model",
        help=f"both: run both and compare every beat{both}",
    )
    add_timing(c)
    c.add_argument(
        "--seed",
        type=int,
        action="append",
        help="seed of the generated inputs (default 0); several such options: each of them",
    )
    add_rule(c)
    c.add_argument("--no-values", action="store_true", help="timing only (model)")
    add_tolerance(c)
    add_file(c, "--json", "write the records")


def add_file(c: argparse.ArgumentParser, option: str, meaning: str, **options) -> None:
    """A file that the command writes; ``options`` as of `add_argument`."""
    c.add_argument(option, type=output.file(option), metavar="OUT", help=meaning, **options)


def add_tolerance(c: argparse.ArgumentParser) -> None:
    """Option for the distance allowed between values and their reference."""
    c.add_argument(
        "--tolerance",
        type=float,
        metavar="ERROR",
        help="fail where an output is further from float64, relative to its largest number "
        "(default, where the program has a reference(): its `tolerance`, or 1e-3, bf16 5e-2)",
    )


def values_verdict(records: Iterable[Record]) -> int:
    """Messages about wrong values, on standard error; the exit status."""
    if text := tables.wrong(records):
        print(text, file=sys.stderr)
        return 1
    return 0


def add_out(c: argparse.ArgumentParser, **options) -> None:
    """The folder of what a command writes; ``options`` as of `add_argument`."""
    c.add_argument(
        "--out",
        type=output.folder_option,
        metavar="DIR",
        **options,
        help="folder of the files, made if it is not there",
    )


def add_waves(c: argparse.ArgumentParser, meaning: str) -> None:
    """The files of a waveform."""
    c.add_argument("--waves", type=_stem, metavar="STEM", help=meaning)


def _stem(text: str) -> output.OutputStem:
    """The path of a waveform's files; a name of dots alone becomes that of a folder."""
    named = os.path.basename(text).strip(".")
    return output.stem("--waves")(text if named else os.path.join(text, ""))


def add_form(c: argparse.ArgumentParser) -> None:
    """The form of the machines that programs run on."""
    c.add_argument(
        "--form",
        choices=FORMS,
        default="any",
        help="machines: lean ones have narrow lines and registers, deep ones deep pipelines",
    )


def add_executor(c: argparse.ArgumentParser) -> None:
    """Option for the place where many points run."""
    c.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes, or workers of a cluster, at a time (default: the cores; 1: this process)",
    )
    c.add_argument(
        "--executor",
        default="processes",
        metavar="WHERE",
        help="processes (of this machine), dask:ADDRESS (of a scheduler), slurm or slurm:PARTITION",
    )


def pool(args: argparse.Namespace):
    """The pool that :func:`add_executor` asks for, as a context."""
    return named(args.executor, args.jobs)


def add_quiet(c: argparse.ArgumentParser) -> None:
    c.add_argument("--quiet", action="store_true", help="no progress on standard error")


def display(args: argparse.Namespace) -> Progress:
    """The display of progress that :func:`add_quiet` asks for."""

    return shown(args.quiet)


def one_value(pairs: list[str], option: str = "--set") -> dict:
    """Parameters of a single point."""
    one = {}
    for name, values in parse_params(pairs, option).items():
        if len(values) > 1:
            if not all(isinstance(v, (int, float)) for v in values):
                values = [",".join(map(str, values))]  # a text with commas
            else:
                raise PenstockError(
                    f"{option} {name} takes one value here, not {len(values)}",
                    remedy="`penstock sweep` runs every combination",
                )
        one[name] = values[0]
    return one


def parse_params(pairs: list[str], option: str = "--set") -> dict[str, list]:
    """NAME=VALUE[,VALUE...] pairs; numbers, true and false are recognised, anything else stays
    text.
    """
    out = {}
    for pair in pairs:
        name, eq, value = pair.partition("=")
        if not eq or not all(part.isidentifier() for part in name.split(".")):
            raise PenstockError(f"{option} takes NAME=VALUE, not {pair!r}")
        if name in out:
            raise PenstockError(
                f"{option} {name} is given twice",
                remedy=f"`penstock sweep ... {option} {name}=A,B` runs several values",
            )
        out[name] = [_value(f"{option} {name}", v) for v in value.split(",")]
    return out


def grid_of(pairs: list[str], option: str = "--set") -> dict[str, list]:
    """Parameters, or fields, of several points: each value once."""
    out = parse_params(pairs, option)
    for name, values in out.items():
        check_once(f"{option} {name}", values)
    return out


def _value(where: str, text: str) -> int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if not abs(number) <= MOST_INTEGER:
            shown = text if len(text) <= 24 else f"{text[:20]}..."
            raise PenstockError(
                f"{where} takes numbers of at most {MOST_INTEGER} in magnitude, not {shown}"
            )
        return number
    return text


def verdict(rows: list[dict]) -> int:
    """Messages of the points that failed, on standard error; the exit status."""
    if text := tables.failures(rows):
        print(text, file=sys.stderr)
        return 1
    return 0
