"""Command lines whose files have something wrong in one place."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Iterable, Iterator

import numpy as np
from whole import BIG, COPY, PROBLEM, PROGRAM, Line, base

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


TOML = {
    "[machine]": "t pages channel_depth accum_tiles load_lines",
    "[machine.dram]": "latency channels",
    "[machine.lanes]": "silu",
    "[machine.units]": "matmul",
    "[stepsim]": "compute_bw",
    "[defaults.mine]": "n",
    "": "description machine bogus",
}


TOML_VALUES = f"true -1 0 3 {2**63 - 1} {2**63} 1e9 nan 'x' [] {{}} {BIG}".split()


def configurations(seed: int) -> Iterator[Line]:
    """Machines with one wrong value."""
    rng = random.Random(seed)
    for table, fields in TOML.items():
        for field in fields.split():
            for v in rng.sample(TOML_VALUES, 5):
                text = f"{table}\n{field} = {v}\n"
                yield Line(READERS["mine.toml"][0], {"mine.toml": text.encode()})


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
    """Programs that do not build, or whose inputs, streams and references are not what is asked
    for.
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


SPECIFICATIONS = f"""
    : device: device:dioed device:diode* device:diode*0 device:diode*-1 device:diode*{BIG}
    device:diode*1000000000 gen: gen:gates gen:gates: gen:gates:x gen:gates:2 gen:gates:10:-1
    gen:gates:10:{BIG} gen:gates:9999999999 gen:gats:10 lu: lu:absent.mtx lu:m.mtx:order=
    lu:m.mtx:order=adm lu:p.json lu:. lu:/dev/zero column:m.mtx column:m.mtx:9 column:m.mtx:-1
    column:m.mtx:x column:m.mtx:2:d=0 column:m.mtx:2:d=1000000000000 step: step:absent.py
    step:mine.py,n step:mine.py,n=0 step:mine.py,tile=3 step:mine.py,seed=-1
    step:mine.py,t=1000000000 expr: expr:x nothing . /dev/zero /dev/null absent.dfg
""".split()
SPECIFICATIONS += ["", "expr:x =", "expr:x = y", "expr:x = 1 / 0 +", "expr:x = y ** 1000000"]
SPECIFICATIONS += [f"expr:x = {'(' * 500}y{')' * 500}", "expr:x = " + "+".join("y" * 3000)]


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


MATRICES = {
    "coordinate real general": [
        "",
        "0 0 0\n",
        "2 2 2000000000\n1 1 1\n",
        "2000000000 2000000000 1\n1 1 1\n",
        "2 3 1\n1 1 1\n",
        "2 2 1\n3 3 1\n",
        "2 2 2\n1 1 nan\n2 2 1\n",
        "2 2 1\n1 1 1\n",
        "1 1 1\n1 1 1e-320\n",
        "-1 -1 1\n1 1 1\n",
        f"{BIG} 1 1\n1 1 1\n",
    ],
    "coordinate complex general": ["1 1 1\n1 1 1 1\n"],
    "coordinate pattern general": ["1 1 1\n1 1\n"],
    "array real general": ["1000000 1000000\n1\n"],
}


def graphs() -> Iterator[Line]:
    """Dataflow graphs and matrices."""
    compare = ["--mesh", "1x1", "--pe", "static", "--quiet"]
    yield from (Line(["overlay", "compare", spec, *compare]) for spec in SPECIFICATIONS)
    yield from (Line(READERS["g.dfg"][0], {"g.dfg": text.encode()}) for text in GRAPHS)
    heads = ((f"%%MatrixMarket matrix {kind}\n", rest) for kind, rest in MATRICES.items())
    texts = ["", "%%MatrixMarket\n", *(head + body for head, rest in heads for body in rest)]
    yield from (Line(READERS["m.mtx"][0], {"m.mtx": text.encode()}) for text in texts)


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
    n = 1000
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
