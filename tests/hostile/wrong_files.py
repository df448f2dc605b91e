"""Command lines whose files have something wrong in one place."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator

from whole import BIG, Line, base

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
    """Files that are cut, empty, of another format, missing, a folder, or have bytes changed."""
    rng = random.Random(seed)
    for name, whole in base().items():
        lines = READERS[name]
        for text in (*WRONG, whole[: len(whole) // 2], whole[:-2], whole + whole):
            yield Line(lines[0], {name: text}, seconds=_given(lines[0]))
        yield Line(lines[-1], {name: None}, refused=True)
        for _ in range(6):
            changed = bytearray(whole)
            changed[rng.randrange(len(changed))] = rng.randrange(256)
            line = rng.choice(lines)
            yield Line(line, {name: bytes(changed)}, seconds=_given(line))


def _given(argv: list[str]) -> float:
    return 1.0 if "--time" in argv else 0.0


def json_fields(seed: int) -> Iterator[Line]:
    """JSON files with one value changed, a field gone, unknown or repeated, a number too long."""
    rng = random.Random(seed)
    for name in ("p.json", "s.json", "fail.json", "r.json"):
        value = json.loads(base()[name])
        lines = READERS[name]
        places = list(_places(value))
        for place in places:
            for new in rng.sample(VALUES, 3):
                line = rng.choice(lines)
                yield Line(
                    line,
                    {name: json.dumps(_with(value, place, new)).encode()},
                    seconds=_given(line),
                )
        for place in (p for p in places if isinstance(p[-1], str)):
            yield Line(
                lines[0],
                {name: json.dumps(_without(value, place)).encode()},
                seconds=_given(lines[0]),
            )
        text = base()[name].decode()
        start = text.index('"')
        key = text[start : text.index(":")]
        longer = (
            text.replace(": 0,", f": {BIG},", 1)
            if ": 0," in text
            else text.replace(": [", f": [{BIG}, ", 1)
        )
        for wrong in (
            text[:start] + f"{key}: 1, " + text[start:],
            text[:start] + '"bogus": 1, ' + text[start:],
            longer,
        ):
            yield Line(lines[0], {name: wrong.encode()}, refused=True)


def _places(value, path: tuple = ()) -> Iterator[tuple]:
    entries: Iterable = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, inner in entries:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _with(value, place: tuple, new):
    out = copy.deepcopy(value)
    at = out
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return out


def _without(value, place: tuple):
    out = copy.deepcopy(value)
    at = out
    for key in place[:-1]:
        at = at[key]
    del at[place[-1]]
    return out
