"""The command line: parses, calls the Python API, prints.

A module a command, imported when it is asked for: its ``add_arguments`` names a ``handler``, a
function of the parsed arguments that returns the exit status. An error is one message and a
non-zero exit status.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import sys

from ..machine.errors import PenstockError
from ..system import children, interrupts, output, reading
from .examples import EXAMPLES, examples_of

__all__ = ["COMMANDS", "main", "parser"]

MOST_GB = 1_000_000
"""Largest value of ``--max-memory``."""
MOST_MESSAGE = 10_000
"""Characters of an error that is printed."""
ABOUT = "A cycle-exact hardware model of a spatial dataflow accelerator for STeP programs."

COMMANDS = {
    "new": "write a program to start from, or another of the files that come with Penstock",
    "run": "run a program on the model, the RTL, or both",
    "sweep": "run a program at many points, one table; keep and resume results",
    "results": "a store of results: list, table, export, prune",
    "step": "run a script written against the STeP authors' Python, as it is",
    "import": "write the program of a PyTorch layer, from an archive of torch.export",
    "show": "print a program: text form, symbolic metrics, unit graph, drawing",
    "deadlock": (
        "whether a program finishes; if not, who waits for whom, and the channel depths that "
        "free it"
    ),
    "figures": "reproduce figures of the paper: ours beside published numbers, tables and pictures",
    "verilog": "write the Verilog of a program's fabric",
    "board": "load a program into a board, or one in simulation; run it, and read it back",
    "synth": (
        "LUTs, flip-flops, block RAMs, multipliers and clock rates of the parts of a program's "
        "fabric, or of the token overlay"
    ),
    "regress": "the cocotb regressions: RTL against model, every beat",
    "fuzz": "random programs: model against RTL on every beat, values against NumPy",
    "explain": "where a run's cycles went",
    "diff": "lay two sets of records side by side",
    "cache": "simulators and what else is built once: list, prune, clear",
    "demo": "a small program on model and RTL, its Verilog, a timeline, and figure 8",
    "dag": "memory-constrained DAG schedules: solve, check, show, bench, run",
    "array": "one array for all programs: map, show, run",
    "overlay": "the token-dataflow overlay: static against dynamic PEs",
}
"""Name -> line of help. The module of this package with that name has the arguments."""

ELSEWHERE = {"overlay": "..overlay.commands.compare", "import": ".import_"}
"""Modules of commands that have not their names in this package."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; without ``argv``, the one of this process. Returns the exit status."""
    return interrupts.command(lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    output.printable()
    words = sys.argv[1:] if argv is None else argv
    if not words:
        print(overview())
        return 0
    try:
        args = parser(only=words[0]).parse_args(words)
        if argv is None and "started" in args:
            from .dag_solver import process_start

            args.started = process_start()
        output.Shown.wide = vars(args).pop("wide", False)
        with output.prepared(vars(args)), _max_memory(args):
            status = args.handler(args) or 0
        output.flush()
        return status
    except PenstockError as e:
        print(f"penstock: {_short(str(e))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        output.abandon()
        return 1
    except OSError as e:
        place = f": {e.filename}" if e.filename else ""
        print(f"penstock: {e.strerror or e}{place}", file=sys.stderr)
        return 1
    finally:
        if argv is None:
            gc.freeze()  # the process ends here; a last search for garbage takes tenths of a second


def _max_memory(args: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Hand on the option, also to processes that read files for this one."""
    given = getattr(args, "max_memory", None)
    if given is None:
        return contextlib.nullcontext()
    if not 0 < given <= MOST_GB:
        raise PenstockError(f"must be above 0 and at most {MOST_GB}, not {given:g}", "--max-memory")
    return children.environment(reading.MAX_MEMORY, str(int(given * 1e9)))


def _short(message: str) -> str:
    """A message without the middle of a long quotation."""
    if len(message) <= MOST_MESSAGE:
        return message
    return f"{message[: MOST_MESSAGE // 2]} ... {message[-MOST_MESSAGE // 2 :]}"


def overview() -> str:
    """The page that ``penstock`` alone prints: the commands, and where to begin."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            ABOUT,
            "",
            "commands:",
            *(f"  {name:{width}}  {what}" for name, what in COMMANDS.items()),
            "",
            "begin with:",
            *(f"  {line}" for line in EXAMPLES["new"]),
            "",
            "`penstock COMMAND --help` has a command's arguments and examples.",
        ]
    )


class _Version(argparse.Action):
    """Looks the version up when it is asked for."""

    def __init__(self, option_strings, dest, **rest):
        super().__init__(option_strings, dest, nargs=0, **rest)

    def __call__(self, parser, namespace, values, option_string=None):
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        parser.exit()


class _Once(argparse._StoreAction):
    """An option's value; PenstockError where an option that takes one is given twice."""

    def __call__(self, parser, namespace, values, option_string=None):
        given = vars(namespace).setdefault("_given", set())
        if option_string and self.dest in given:
            raise PenstockError("is given twice", option_string, remedy="give it once")
        given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class _Parser(argparse.ArgumentParser):
    """A parser, with those of its commands, that never takes the last of two values silently."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.register("action", None, _Once)
        self.add_argument(
            "--wide",
            action="store_true",
            default=argparse.SUPPRESS,
            help="all columns of tables (default: eight, and 100 characters)",
        )

    def parse_known_args(self, args=None, namespace=None):
        found, rest = super().parse_known_args(args, namespace)
        vars(found).pop("_given", None)
        return found, rest


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The command tree: every command, with its arguments unless it is not ``only``."""
    p = _Parser(prog="penstock", description=ABOUT)
    p.add_argument(
        "--version", action=_Version, default=argparse.SUPPRESS, help="print the version"
    )
    commands = p.add_subparsers(required=True, metavar="COMMAND")
    for name, what in COMMANDS.items():
        c = commands.add_parser(
            name,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=examples_of(name) if name in EXAMPLES else None,
        )
        if only in (None, name):
            importlib.import_module(ELSEWHERE.get(name, f".{name}"), __name__).add_arguments(c)
    return p
