"""Bad input: command lines over all commands, options and file formats.

Options come from the parser itself, so that a new one is tried without being named here; files are
whole ones with something wrong in one place.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterable, Iterator
from functools import partial

from penstock.cli import parser
from penstock.system.output import OutputFolder, folder_option
from whole import BIG, Line
from wrong_files import damaged, json_fields

# -- options
# ----------------------------------------------------------------------------------------

WORDS = {
    "new": [],
    "run": ["mine.py"],
    "sweep": ["mine.py"],
    "show": ["mine.py"],
    "deadlock": ["mine.py"],
    "figures": ["fig8", "--out", "o"],
    "verilog": ["mine.py", "--out", "o"],
    "regress": [],
    "fuzz": ["--count", "1", "--time", "1", "--quiet"],
    "explain": ["r.json"],
    "diff": ["r.json", "r.json"],
    "demo": [],
    "dag solve": ["p.json", "o.json", "--time", "1", "--quiet"],
    "dag check": ["p.json", "s.json"],
    "dag show": ["p.json"],
    "dag bench": [".", "--time", "1"],
    "dag run": ["p.json", "s.json"],
    "overlay compare": ["g.dfg", "--mesh", "1x1", "--pe", "static", "--quiet"],
    "overlay figures": ["--out", "o"],
    "overlay verilog": ["g.dfg", "--mesh", "1x1", "--out", "o"],
    "overlay resources": ["--out", "o"],
}
"""Words that a command takes; a command that is not here is tried without any."""


LONG = ("figures", "verilog", "regress", "demo", "dag bench")
LONG += ("overlay figures", "overlay verilog", "overlay resources")
"""Commands that take more than seconds, or compile: they get what has to be refused."""


NUMBERS = ["", "x", "nan", "-1", "1.5", BIG, "9223372036854775808"]


SOME_NUMBERS = ["0", "1", "3", "16"]


FILES = ["", ".", "absent/o.json", "/proc/o.json", "p.json/o.json", "x" * 300, "o/", "\udce9/o"]


SOME_FILES = ["-", "/dev/null", "/dev/full", "\udce9.json", "o o.json", "./o.json"]


FOLDERS = ["", "-", "/proc/o", "p.json", "p.json/o", "/dev/null/o", "x" * 300]


TEXTS = {
    "--set": ["", "n n=3", *f"= n n= n=x n=0 n=-4 n=nan n=1e400 n={BIG} m=3 n=4,4 n=8.5".split()],
    "--config": ["", "figg8", "absent.toml", "p.json", ".", "/dev/null.toml"],
    "--onchip-rule": ["", "publishd"],
    "--reading": ["", "=", "reuse", "reuse=", "resue=lru", "reuse=lur"],
    "--mesh": ["", "0x0", "17x1", "4", "4x4x4", "-1x2", f"{BIG}x1", "1\u00d71", "²x1"],
    "--memory": ["", "op", "op=", "op=0", "op=-1", "op=x", f"op={BIG}", "po=4", "op=²"],
    "--records": ["", "absent.json", "p.json", ".", "/dev/null"],
    "--traces": ["", "absent", "p.json"],
    "--matrices": ["absent", "p.json"],
    "--only": ["zzz"],
    "--graph": ["", "nothing", "device:dioed", "lu:absent.mtx"],
    "--replay": ["absent.json", "p.json", ".", "/dev/null", "/dev/zero"],
}


def options() -> Iterator[Line]:
    """Every option of every command with values that it should not take, and some that it may."""
    for name, actions in _commands(parser()):
        words = [*name.split(), *WORDS.get(name, [])]
        yield Line([*words, "--bogus"], refused=True)
        yield Line([*words, "a", "b", "c", "d"], refused=True)
        if words != name.split() and name != "fuzz":
            yield Line(name.split(), refused=True)
        for action in actions:
            if action.option_strings and action.nargs != 0:
                option = action.option_strings[-1]
                yield Line([*words, option], refused=True)
                yield from (
                    Line([*words, option, v], refused=must, seconds=_seconds(name, option, v))
                    for v, must in _values(name, action)
                    if must or name not in LONG
                )


def _seconds(name: str, option: str, value: str) -> float:
    return float("--time" in (option, *WORDS.get(name, [])))


def _values(name: str, action: argparse.Action) -> Iterator[tuple[str, bool | None]]:
    option = action.option_strings[-1]
    kind = action.type.args[0] if isinstance(action.type, partial) else action.type
    if action.choices:
        yield from (("", True), (f"{next(iter(action.choices))}x", True))
    elif kind in (folder_option, OutputFolder):
        yield from ((v, True) for v in FOLDERS)
    elif isinstance(action.type, partial):
        yield from ((v, True) for v in FILES)
        yield from ((v, None) for v in SOME_FILES)
    elif option in TEXTS and kind is not int:
        yield from ((v, None) for v in TEXTS[option])
    else:
        yield from ((v, None) for v in NUMBERS if not (name in LONG and v in ("-1", "1.5")))
        yield from (
            (v, None) for v in SOME_NUMBERS if option not in ("--time", "--count", "--streams")
        )


def _commands(
    p: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Names of all commands with their arguments."""
    below = [a for a in p._actions if isinstance(a, argparse._SubParsersAction)]
    for action in below:
        for name, command in action.choices.items():
            yield from _commands(command, (*path, name))
    if not below:
        yield " ".join(path), [a for a in p._actions if not isinstance(a, argparse._HelpAction)]


def every(seed: int = 0) -> list[Line]:
    """All lines of a seed."""
    return list(itertools.chain(*kinds(seed)))


def kinds(seed: int) -> tuple[Iterable[Line], ...]:
    """All lines of a seed, by what is wrong."""
    return options(), damaged(seed), json_fields(seed)


def sample(count: int, seed: int = 0) -> list[Line]:
    """Some of them, of each kind alike."""
    every_kind = [list(lines) for lines in kinds(seed)]
    most = -(-count // len(every_kind))
    rng = random.Random(seed)
    return [line for lines in every_kind for line in rng.sample(lines, min(len(lines), most))]


if __name__ == "__main__":
    print(len(every()))
