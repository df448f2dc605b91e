"""Bad input: command lines over all commands, options and file formats.

Options come from the parser itself, so that a new one is tried without being named here; files are
whole ones with something wrong in one place.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from functools import partial

from penstock.cli import parser
from penstock.system.output import OutputFolder, folder_option
from whole import BIG, Line, base

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
                    Line([*words, option, v], refused=must)
                    for v, must in _values(name, action)
                    if must or name not in LONG
                )


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


_READERS = {
    "mine.py": ["run mine.py --no-values --quiet"],
    "mine.toml": ["run mine.py --config mine.toml --no-values --quiet"],
    "p.json": ["dag check p.json s.json", "dag solve p.json o.json --time 1 --quiet"],
    "s.json": ["dag check p.json s.json"],
    "fail.json": ["fuzz --replay fail.json"],
    "r.json": ["explain r.json", "diff r.json r.json"],
    "g.dfg": ["overlay compare g.dfg --mesh 1x1 --pe static --quiet"],
    "m.mtx": ["overlay compare lu:m.mtx --mesh 1x1 --pe static --quiet"],
    "m.mtx.gz": ["overlay compare lu:m.mtx.gz --mesh 1x1 --pe static --quiet"],
    "l.npy": [
        "show published_attention --config paper_attention --set trace=l.npy",
        "deadlock published_attention --config paper_attention --timing stepsim --set requests=4"
        " --set trace=l.npy --quiet",
    ],
    "e.npz": [
        "deadlock published_moe --config paper_moe --timing stepsim --set tokens=4 --set experts=4"
        " --set top_k=2 --set dim=64 --set trace=e.npz --quiet"
    ],
}
READERS = {file: [line.split() for line in lines] for file, lines in _READERS.items()}
"""Command lines that read a file."""


WRONG = [
    b"",
    b"\x00\xff\xfe",
    "é".encode("latin-1"),
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"nonsense\n",
    b"\xef\xbb\xbf",
]


VALUES = [None, True, "x", -1, 0, 1.5, float("nan"), float("inf"), 5e-324, 2**63 - 1, 2**31]
VALUES += [[], {}, [None], [[-1]], {"a": 1}]


def damaged(seed: int) -> Iterator[Line]:
    """Files that are cut, empty, of another format, missing, a folder, or have a byte changed."""
    rng = random.Random(seed)
    for name, whole in base().items():
        lines = READERS[name]
        for text in (*WRONG, whole[: len(whole) // 2], whole[:-2], whole + whole):
            yield Line(lines[0], {name: text})
        yield Line(lines[-1], {name: None}, refused=True)
        for _ in range(6):
            changed = bytearray(whole)
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            yield Line(rng.choice(lines), {name: bytes(changed)})


def json_fields(seed: int) -> Iterator[Line]:
    """JSON files with a value changed, a field gone, unknown or repeated."""
    rng = random.Random(seed)
    for name in ("p.json", "s.json", "fail.json", "r.json"):
        text = base()[name].decode()
        first, *_ = lines = READERS[name]
        for place in _places(json.loads(text)):
            for value in rng.sample(VALUES, 3):
                yield Line(rng.choice(lines), {name: _edited(text, place, value)})
            if isinstance(place[-1], str):
                yield Line(first, {name: _edited(text, place)})
        start = text.index('"')
        for field in (text[start : text.index(":")], '"bogus"'):
            wrong = f"{text[:start]}{field}: 1, {text[start:]}"
            yield Line(first, {name: wrong.encode()}, refused=True)


def _places(value, path: tuple = ()) -> Iterator[tuple]:
    """Keys that lead to each value within a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in inside:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from _places(inner, (*path, key))


def _edited(text: str, place: tuple, *new) -> bytes:
    """JSON with another value at a place, or without it."""
    whole = at = json.loads(text)
    for key in place[:-1]:
        at = at[key]
    if new:
        at[place[-1]] = new[0]
    else:
        del at[place[-1]]
    return json.dumps(whole).encode()


def lines(seed: int = 0, count: int | None = None) -> list[Line]:
    """All lines of a seed; ``count``: so many of them, of each kind alike."""
    kinds = [list(x) for x in (options(), damaged(seed), json_fields(seed))]
    if count is not None:
        most = -(-count // len(kinds))
        rng = random.Random(seed)
        kinds = [rng.sample(found, min(len(found), most)) for found in kinds]
    return [line for found in kinds for line in found]
