"""Bad input: command lines over all commands, options and file formats.

Options come from the parser itself, so that a new one is tried without
being named here; files are whole ones with something wrong in one
place.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import io
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from penstock.cli import parser
from penstock.system.output import OutputFolder, folder_option

BIG = "9" * 5000


@dataclass
class Line:
    """A command line.

    Attributes
    ----------
    argv
        Its words.
    files
        Files beside those of :func:`base`, or in their place; None: a folder.
    refused
        Whether it has to be refused; None: it may be taken.
    seconds
        What it is given with ``--time``.

    """

    argv: list[str]
    files: dict[str, bytes | None] = field(default_factory=dict)
    refused: bool | None = None
    seconds: float = 0.0


# -- whole files
# ------------------------------------------------------------------------------------

PROGRAM = """
from penstock.frontend import *

def program(n=8):
    g = Graph("mine")
    x, y = g.input("x", (n, 8), "fp32"), g.output("y", (n, 8), "fp32")
    {body}
    return g
{more}
"""
COPY = "LinearOffChipStore(LinearOffChipLoad(x, tile=(4, 8), shape=(n // 4,), stride=(1,)), y)"
MACHINE = """
description = "a small machine"
[machine]
t = 4
rows_per_cycle = 4
port_lanes = 4
load_lines = 64
[machine.lanes]
default = 16
[machine.dram]
channels = 4
"""
PROBLEM = {
    "widths": [16, 16, 16, 16],
    "heights": [16, 16, 16, 16],
    "inputs": [[0, 1], [2]],
    "outputs": [[2], [3]],
    "base_costs": [100, 10],
    "op_types": ["MatMul", "Pointwise"],
    "fast_memory_capacity": 2000,
    "slow_memory_bandwidth": 4,
    "native_granularity": [8, 8],
}
GRAPH = (
    "graph half\nx = input 1.5\ny = input 2\nk = const 0.5\ns = add x y\nh = mul s k\noutput z = "
    "h\n"
)
MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 5\n1 1 2\n2 2 3\n3 3 4\n1 2 1\n2 1 1\n"
RECIPE = {
    "backend": "model",
    "message": "values differ",
    "origin": "seed 0",
    "config": {
        "name": "fuzz",
        "machine": {"t": 2, "rows_per_cycle": 2, "port_lanes": 2, "load_lines": 32},
        "stepsim": {},
    },
    "recipe": {
        "seed": 3,
        "run": {"depths": None, "depth": 0, "stalls": None},
        "steps": [
            {
                "op": "Source",
                "shape": ["static"],
                "tile": [2, 2],
                "dtype": "fp32",
                "elements": [[2, 2], [2, 2]],
            },
            {"op": "Map", "ins": [[0, 0]], "fn": ["exp", {}]},
        ],
    },
}
RECORD = {
    "workload": "w",
    "config": "c",
    "params": {"n": 1},
    "backend": "model",
    "timing": "machine",
    "cycles": 30,
    "dram_bytes": 640,
    "offchip_bytes": 600,
    "offchip_bytes_per_cycle": 64.0,
    "offchip_utilisation": 0.3,
    "flops": 100,
    "allocated_flops_per_cycle": 8,
    "seed": 0,
    "units": [
        {"name": "a", "kind": "load", "node": "l", "busy": 9, "blocked": 1, "starved": 20},
        {"name": "b", "kind": "sink", "node": "s", "busy": 9, "blocked": 1, "starved": 20},
    ],
    "channels": [{"name": "a_b", "src": "a", "dst": "b", "depth": 2, "occupancy": 0.5}],
}
OVERLAY = {k: v for k, v in RECORD.items() if k not in ("units", "channels")} | {
    "overlay": {
        "bounds": {"depth": 3, "work": 2, "link": 1, "best": 3},
        "variant": "static edge",
        "nodes": 4,
        "edges": 3,
        "depth": 3,
        "nodes_per_pe": 2,
        "cut_edges": 1,
        "memory_bits": 99,
    }
}


def base() -> dict[str, bytes]:
    """The files that every line finds."""
    lengths = io.BytesIO()
    routing = io.BytesIO()
    np.save(lengths, np.arange(64, dtype=np.uint8))
    np.savez(routing, data=np.zeros((64, 8), np.int64))
    schedule = {
        "subgraphs": [[0], [1]],
        "granularities": [[8, 8, 8], [8, 8, 1]],
        "tensors_to_retain": [[], []],
        "traversal_orders": [None, None],
        "subgraph_latencies": [400.0, 128.0],
    }
    texts = {
        "mine.py": PROGRAM.format(body=COPY, more=""),
        "mine.toml": MACHINE,
        "p.json": json.dumps(PROBLEM),
        "s.json": json.dumps(schedule),
        "fail.json": json.dumps(RECIPE),
        "r.json": json.dumps([RECORD, OVERLAY]),
        "g.dfg": GRAPH,
        "m.mtx": MATRIX,
    }
    files = {name: text.encode() for name, text in texts.items()}
    return files | {
        "l.npy": lengths.getvalue(),
        "e.npz": routing.getvalue(),
        "m.mtx.gz": gzip.compress(MATRIX.encode()),
    }


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
LONG = (
    "figures",
    "verilog",
    "regress",
    "demo",
    "dag bench",
    "overlay figures",
    "overlay verilog",
    "overlay resources",
)
"""Commands that take more than seconds, or compile: they get what has to be refused."""
NUMBERS = ["", "x", "nan", "-1", "1.5", BIG, "9223372036854775808"]
SOME_NUMBERS = ["0", "1", "3", "16"]
FILES = ["", ".", "absent/o.json", "/proc/o.json", "p.json/o.json", "x" * 300, "o/", "\udce9/o"]
SOME_FILES = ["-", "/dev/null", "/dev/full", "\udce9.json", "o o.json", "./o.json"]
FOLDERS = ["", "-", "/proc/o", "p.json", "p.json/o", "/dev/null/o", "x" * 300]
TEXTS = {
    "--set": [
        "",
        "=",
        "n",
        "n=",
        "n=x",
        "n=0",
        "n=-4",
        "n=nan",
        "n=1e400",
        f"n={BIG}",
        "m=3",
        "n n=3",
        "n=4,4",
        "n=8.5",
    ],
    "--config": ["", "figg8", "absent.toml", "p.json", ".", "/dev/null.toml"],
    "--onchip-rule": ["", "publishd"],
    "--reading": ["", "=", "reuse", "reuse=", "resue=lru", "reuse=lur"],
    "--mesh": ["", "0x0", "17x1", "4", "4x4x4", "-1x2", f"{BIG}x1", "1\u00d71", "²x1"],
    "--tile": ["", "0x1", "4", "x"],
    "--memory": ["", "op", "op=", "op=0", "op=-1", "op=x", f"op={BIG}", "po=4", "op=²"],
    "--records": ["", "absent.json", "p.json", ".", "/dev/null"],
    "--traces": ["", "absent", "p.json"],
    "--matrices": ["absent", "p.json"],
    "--only": ["zzz"],
    "--graph": ["", "nothing", "device:dioed", "lu:absent.mtx"],
    "--replay": ["absent.json", "p.json", ".", "/dev/null", "/dev/zero"],
}
TEXTS_TAKEN = {("overlay compare", "--mesh", "17x1")}


def options() -> Iterator[Line]:
    """Every option of every command with values that it should not
    take, and some that it may.
    """
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
    return (
        1.0
        if "--time" in WORDS.get(name, []) and option != "--time"
        else 1.0
        if option == "--time"
        else 0.0
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


# -- files
# ------------------------------------------------------------------------------------------

READERS = {
    "mine.py": [["run", "mine.py", "--no-values", "--quiet"]],
    "mine.toml": [["run", "mine.py", "--config", "mine.toml", "--no-values", "--quiet"]],
    "p.json": [
        ["dag", "check", "p.json", "s.json"],
        ["dag", "solve", "p.json", "o.json", "--time", "1", "--quiet"],
    ],
    "s.json": [["dag", "check", "p.json", "s.json"]],
    "fail.json": [["fuzz", "--replay", "fail.json"]],
    "r.json": [["explain", "r.json"], ["diff", "r.json", "r.json"]],
    "g.dfg": [["overlay", "compare", "g.dfg", "--mesh", "1x1", "--pe", "static", "--quiet"]],
    "m.mtx": [["overlay", "compare", "lu:m.mtx", "--mesh", "1x1", "--pe", "static", "--quiet"]],
    "m.mtx.gz": [
        ["overlay", "compare", "lu:m.mtx.gz", "--mesh", "1x1", "--pe", "static", "--quiet"]
    ],
    "l.npy": [
        ["show", "published_attention", "--config", "paper_attention", "--set", "trace=l.npy"],
        [
            "deadlock",
            "published_attention",
            "--config",
            "paper_attention",
            "--timing",
            "stepsim",
            "--set",
            "requests=4",
            "--set",
            "trace=l.npy",
            "--quiet",
        ],
    ],
    "e.npz": [
        [
            "deadlock",
            "published_moe",
            "--config",
            "paper_moe",
            "--timing",
            "stepsim",
            "--set",
            "tokens=4",
            "--set",
            "experts=4",
            "--set",
            "top_k=2",
            "--set",
            "dim=64",
            "--set",
            "trace=e.npz",
            "--quiet",
        ]
    ],
}
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
VALUES = [
    None,
    True,
    "x",
    -1,
    0,
    1.5,
    float("nan"),
    float("inf"),
    5e-324,
    2**63 - 1,
    2**31,
    [],
    {},
    [None],
    [[-1]],
    {"a": 1},
]


def damaged(seed: int) -> Iterator[Line]:
    """Files that are cut, empty, of another format, missing, a folder,
    or have bytes changed.
    """
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
    """JSON files with one value changed, a field gone, unknown or
    repeated, a number too long.
    """
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
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
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


TOML = [
    "[machine]\nt = {v}\n",
    "[machine]\npages = {v}\n",
    "[machine]\nchannel_depth = {v}\n",
    "[machine]\naccum_tiles = {v}\n",
    "[machine]\nload_lines = {v}\n",
    "[machine.dram]\nlatency = {v}\n",
    "[machine.dram]\nchannels = {v}\n",
    "[machine.lanes]\nsilu = {v}\n",
    "[machine.units]\nmatmul = {v}\n",
    "[stepsim]\ncompute_bw = {v}\n",
    "[defaults.mine]\nn = {v}\n",
    "description = {v}\n",
    "machine = {v}\n",
    "bogus = {v}\n",
]
TOML_VALUES = [
    "true",
    "-1",
    "0",
    "3",
    "9223372036854775807",
    "9223372036854775808",
    "1e9",
    "nan",
    "'x'",
    "[]",
    "{}",
    BIG,
]


def configurations(seed: int) -> Iterator[Line]:
    """Machines with one wrong value."""
    rng = random.Random(seed)
    for text in TOML:
        for v in rng.sample(TOML_VALUES, 5):
            yield Line(READERS["mine.toml"][0], {"mine.toml": text.format(v=v).encode()})


BODIES = [
    "1 / 0",
    "raise SystemExit(0)",
    "import nothere",
    "return 3",
    "return None",
    "g = None",
    "n.x",
    "program(n)",
    "g.input('z', (0, 8), 'fp32')",
    "g.input('z', (2**63, 8), 'fp32')",
    "g.input('x', (8, 8), 'fp32')",
    "g.input('z', (8, 8), 'fp16')",
    "g.input('z', (8.5, 8), 'fp32')",
    "g.input(3, (8, 8), 'fp32')",
    "LinearOffChipLoad(x)",
    "LinearOffChipLoad(x, tile=(0, 8), shape=(1,), stride=(1,))",
    "LinearOffChipLoad(x, tile=(4, 8), shape=(10**12,), stride=(0,))",
    "LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(-1,))",
    "LinearOffChipStore(x, y)",
    "Map(x, fn='exp')",
    "Source(graph=g, shape=(2,), scalar=0)",
    "Source(graph=g, shape=(2,), scalar=10**9)",
    "Sink(3)",
    "x + 1.0",
    "Fifo(LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,)), depth=10**9)",
    "exec('(' * 300 + ')' * 300)",
    "print(chr(0xdce9))",
]
MORE = [
    "def inputs(): return {}",
    "def inputs(seed, n): return 3",
    "def inputs(seed, n): return {'x': None}",
    "def inputs(seed, n): return {'x': 'text'}",
    "def inputs(seed, n): return {'x': [[1j] * 8] * 8}",
    "def inputs(seed, n): return {'x': [[1] * 8] * 8, 'q': 1}",
    "inputs = 3",
    "def inputs(seed, n): return {'x': [[1e400] * 8] * 8}",
    "def inputs(seed, n): return {'x': [[10**400] * 8] * 8}",
    "def inputs(seed, n): return {'x': [[1, 2], [3]]}",
    "def inputs(seed, n): raise MemoryError",
    "def inputs(seed, n): return {1: 2}",
    "def reference(z): return {}",
    "def reference(x): return {'y': x[:1]}",
    "reference = None",
    "def reference(x): return {'y': 'text'}",
    "def streams(seed, n): return 3",
    "def streams(seed, n): return {'q': []}",
    "streams = 3",
    "program = 3",
]


def programs() -> Iterator[Line]:
    """Programs that do not build, or whose inputs, streams and
    references are not what is asked for.
    """
    run = ["run", "mine.py", "--config", "mine.toml", "--quiet"]
    for body in BODIES:
        yield Line(run, {"mine.py": PROGRAM.format(body=body, more="").encode()}, refused=None)
    for more in MORE:
        yield Line(run, {"mine.py": PROGRAM.format(body=COPY, more=more).encode()})
    chain = (
        "a = LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,))\n    for _ in "
        "range(1200): a = Map(a, fn='exp')\n    LinearOffChipStore(a, y)"
    )
    yield Line(
        ["show", "mine.py", "--config", "mine.toml"],
        {"mine.py": PROGRAM.format(body=chain, more="").encode()},
    )


SPECIFICATIONS = [
    "",
    ":",
    "device:",
    "device:dioed",
    "device:diode*",
    "device:diode*0",
    "device:diode*-1",
    f"device:diode*{BIG}",
    "device:diode*1000000000",
    "gen:",
    "gen:gates",
    "gen:gates:",
    "gen:gates:x",
    "gen:gates:2",
    "gen:gates:10:-1",
    f"gen:gates:10:{BIG}",
    "gen:gates:9999999999",
    "gen:gats:10",
    "lu:",
    "lu:absent.mtx",
    "lu:m.mtx:order=",
    "lu:m.mtx:order=adm",
    "lu:p.json",
    "lu:.",
    "lu:/dev/zero",
    "column:m.mtx",
    "column:m.mtx:9",
    "column:m.mtx:-1",
    "column:m.mtx:x",
    "column:m.mtx:2:d=0",
    "column:m.mtx:2:d=1000000000000",
    "step:",
    "step:absent.py",
    "step:mine.py,n",
    "step:mine.py,n=0",
    "step:mine.py,tile=3",
    "step:mine.py,seed=-1",
    "step:mine.py,t=1000000000",
    "expr:",
    "expr:x",
    "expr:x =",
    "expr:x = y",
    "expr:x = 1 / 0 +",
    "expr:x = y ** 1000000",
    "expr:x = " + "(" * 500 + "y" + ")" * 500,
    "expr:x = " + "+".join("y" * 3000),
    "nothing",
    ".",
    "/dev/zero",
    "/dev/null",
    "absent.dfg",
]
GRAPHS = [
    "",
    "output y = x\n",
    "x = input\n",
    "x = input nan\noutput y = x\n",
    "x = input 1e999\noutput y = x\n",
    "x = input 1 2\noutput y = x\n",
    "x = const\noutput y = x\n",
    "x = add x x\noutput y = x\n",
    "x = input\nx = input\noutput y = x\n",
    "x = input\noutput y = z\n",
    "x = inptu\noutput y = x\n",
    "graph\n",
    "= =\n",
    "x = input 1\noutput y = x\n",
    "x = input 1\n"
    + "".join(f"x{i} = sqrt {'x' if i == 0 else f'x{i - 1}'}\n" for i in range(20_000))
    + "output y = x19999\n",
]
MATRICES = [
    "",
    "%%MatrixMarket\n",
    "%%MatrixMarket matrix coordinate real general\n",
    "%%MatrixMarket matrix coordinate real general\n0 0 0\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 2000000000\n1 1 1\n",
    "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1\n",
    "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 3 1\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 nan\n2 2 1\n",
    "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n",
    "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
    "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1e-320\n",
    "%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n",
    "%%MatrixMarket matrix coordinate real general\n-1 -1 1\n1 1 1\n",
    f"%%MatrixMarket matrix coordinate real general\n{BIG} 1 1\n1 1 1\n",
]


def graphs() -> Iterator[Line]:
    """Dataflow graphs and matrices."""
    compare = ["--mesh", "1x1", "--pe", "static", "--quiet"]
    yield from (Line(["overlay", "compare", spec, *compare]) for spec in SPECIFICATIONS)
    yield from (Line(READERS["g.dfg"][0], {"g.dfg": text.encode()}) for text in GRAPHS)
    yield from (Line(READERS["m.mtx"][0], {"m.mtx": text.encode()}) for text in MATRICES)


def arrays() -> Iterator[Line]:
    """Traces of other types, shapes and values."""
    for made in (
        np.zeros(0, int),
        np.zeros((2, 2), int),
        np.full(64, -1),
        np.full(64, 2.5),
        np.full(64, np.nan),
        np.full(64, 250, np.uint8),
        np.full(64, 2**63, np.uint64),
        np.array(["a"] * 64),
        np.array(3),
        np.zeros(2, int),
    ):
        npy = io.BytesIO()
        npz = io.BytesIO()
        np.save(npy, made)
        np.savez(npz, data=made)
        yield from (
            Line(argv, {name: data.getvalue()})
            for name, data in (("l.npy", npy), ("e.npz", npz))
            for argv in READERS[name][-1:]
        )


def problems() -> Iterator[Line]:
    """Problems of the scheduler that are legal and large, or just not."""

    def line(*argv: str, **changes) -> Line:
        return Line(["dag", *argv], {"p.json": json.dumps(PROBLEM | changes).encode()}, seconds=1.0)

    solve = ("solve", "p.json", "o.json", "--time", "1", "--quiet")
    yield line(*solve, slow_memory_bandwidth=5e-324)
    yield line(*solve, slow_memory_bandwidth=1e-9)
    yield line(*solve, fast_memory_capacity=1e18)
    yield line(*solve, base_costs=[1e18, 1e18])
    yield line(*solve, widths=[1 << 24] * 4, heights=[1 << 24] * 4, native_granularity=[1, 1])
    n = 3000
    chain = {
        "widths": [16] * (n + 1),
        "heights": [16] * (n + 1),
        "inputs": [[i] for i in range(n)],
        "outputs": [[i + 1] for i in range(n)],
        "base_costs": [1] * n,
        "op_types": ["Pointwise"] * n,
    }
    yield line(*solve, **chain)
    yield line("show", "p.json", **chain)
    for target in ("/dev/null", "-", "/dev/full", "p.json", "./p.json", "absent/o.json"):
        yield line("solve", "p.json", target, "--time", "1", "--quiet")


def every(seed: int = 0) -> list[Line]:
    """All lines of a seed."""
    return list(
        itertools.chain(
            options(),
            damaged(seed),
            json_fields(seed),
            configurations(seed),
            programs(),
            graphs(),
            arrays(),
            problems(),
        )
    )


def sample(count: int, seed: int = 0) -> list[Line]:
    """Some of them, of each kind alike."""
    kinds = [
        list(k)
        for k in (
            options(),
            damaged(seed),
            json_fields(seed),
            configurations(seed),
            programs(),
            graphs(),
            arrays(),
            problems(),
        )
    ]
    rng = random.Random(seed)
    return [
        line
        for lines in kinds
        for line in rng.sample(lines, min(len(lines), -(-count // len(kinds))))
    ]


if __name__ == "__main__":
    print(len(every()))
