"""Command lines with a file of another kind, an option twice, or a machine that is none."""

from __future__ import annotations

import gzip
import io
import itertools
import random
from collections.abc import Iterator

import numpy as np
from whole import BIG, COPY, MACHINE, MATRIX, PROGRAM, Line

_RUN = "run mine.py --config mine.toml --no-values --quiet"

PLACES = {
    "run {} --config mine.toml --no-values --quiet": "py",
    "sweep {} --config mine.toml --no-values --quiet": "py",
    "show {} --config mine.toml": "py",
    "deadlock {} --config mine.toml --quiet": "py",
    "verilog {} --config mine.toml --out o --quiet": "py long",
    "synth {} --config mine.toml --quiet": "py long",
    "board build {} --board sim --out o --quiet": "py long",
    "array map {} --array mine.toml --quiet": "py",
    "overlay compare step:{} --mesh 1x1 --pe static --quiet": "py",
    "run mine.py --config {} --no-values --quiet": "toml",
    "run mine.py --array {} --quiet": "array",
    "run published_attention --config paper_attention --set trace={} --quiet": "npy npz py long",
    "dag check {} s.json": "problem",
    "dag check p.json {}": "schedule",
    "dag show {} --out o.png": "problem",
    "dag run p.json {} --quiet": "schedule",
    "dag solve {} o.json --time 1 --quiet": "problem",
    "dag bench {} --time 1": "folder",
    "explain {}": "record py",
    "diff r.json {}": "record",
    "diff {} r.json --by tensor": "record",
    "fuzz --replay {}": "recipe",
    "figures fig8 --traces {} --out o --quiet": "folder long",
    "figures fig8 --records {} --out o --quiet": "record",
    "overlay compare {} --mesh 1x1 --pe static --quiet": "graph",
    "overlay compare lu:{} --mesh 1x1 --pe static --quiet": "matrix",
    "overlay compare column:{}:1 --mesh 1x1 --pe static --quiet": "matrix",
    "overlay verilog {} --mesh 1x1 --out o --quiet": "graph long",
    "overlay figures --matrices {} --out o --quiet": "folder long",
    "array dump {} --array array_tiny": "image",
    "results list {}": "store",
}
"""Command lines with a place for a file, and the kinds of files that may stand there; ``long``:
such a line is not tried.
"""


def _arrays(**named: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.savez_compressed(made, allow_pickle=True, **named)
    return made.getvalue()


FILES: dict[str, tuple[str, bytes | None]] = {
    "mine.py": ("py", b""),
    "mine.toml": ("toml", b""),
    "p.json": ("problem", b""),
    "s.json": ("schedule", b""),
    "fail.json": ("recipe", b""),
    "r.json": ("record", b""),
    "g.dfg": ("graph", b""),
    "m.mtx": ("matrix", b""),
    "m.mtx.gz": ("matrix", b""),
    "l.npy": ("npy", b""),
    "e.npz": ("npz", b""),
    ".": ("folder", b""),
    "absent": ("", b""),
    "null.json": ("", b"null"),
    "list.json": ("record", b"[]"),
    "map.json": ("", b"{}"),
    "text.json": ("", b'"text"'),
    "binary.py": ("", b"\x7fELF\x02\x01\x01\x00" + bytes(200)),
    "binary": ("", bytes(range(256)) * 4),
    "picture.py": ("", b"\x89PNG\r\n\x1a\n\x00\x00"),
    "empty.py": ("", b""),
    "empty.toml": ("toml", b""),
    "netlist.cir": ("", b"* divider\nR1 in out 1k\nV1 in 0 5\n.op\n.end\n"),
    "netlist.dfg": ("", b"* divider\nR1 in out 1k\n.end\n"),
    "matrix.dfg": ("matrix", MATRIX.encode()),
    "bomb.mtx.gz": ("", gzip.compress(b"%" * (8 << 20), mtime=0)),
    "bomb.npz": ("", _arrays(data=np.zeros(8 << 20, np.int8))),
    "objects.npy": ("", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False}"),
    "cut.npz": ("", _arrays(data=np.zeros(9))[:60]),
    "folder.py": ("", None),
}
"""Files, their kinds and contents, those of :func:`whole.base` apart."""


def wrong_kinds() -> Iterator[Line]:
    """Each file in each place that is for files of other kinds."""
    for (place, takes), (name, (kind, data)) in itertools.product(PLACES.items(), FILES.items()):
        if kind not in takes.split():
            files = {name: data} if data else {}
            must = True if "--time" not in place and "results" not in place else None
            yield Line(
                [w.format(name) for w in place.split()],
                files,
                refused=must,
                seconds=float("--time" in place),
            )


SETTINGS = f"""
    = channel_depth channel_depth= channel_depth=x channel_depth=0 channel_depth=-1
    channel_depth=1.5 channel_depth=nan channel_depth={BIG} channel_depth=2,,4 channel_depth=2,x
    channel_depth=[2] chanel_depth=2 t=3 t=true dtype=fp99 dram=1 dram.=1 .interval=1
    dram.interval=0 dram.interval.x=1 dram.kind=hbm3 dram.hbm2.stacks=x dram.hbm2.mapping=row
    lanes=4 lanes.default=0 lanes.nonsense=4 units.matmul=-1 machine.t=4 description=x base=fig8
    stepsim.compute_bw=1
""".split()
SETTINGS.append("")
TWICE = [
    "--seed 1 --seed x",
    "--seed 1 --seed -1",
    "--seed 1,2",
    "--config mine.toml --config absent.toml",
    "--json a.json --json b.json",
    "--on model --on rtl",
    "--machine t=4 --machine t=0",
    "--machine channel_depth=2 --machine channel_depth=x",
    "--set n=8 --set n=x",
    "--timing machine --timing stepsim",
    "--wide --wide=1",
    "--wide=x",
    *(f"--tolerance {v}" for v in ("nan", "-1", "x", "inf", "1e400", "''")),
    *(f"--max-memory {v}" for v in ("-1", "0", "nan", "inf", "x", "1e300", BIG, "1,5")),
    *(f"--outputs {v}" for v in (".", "absent/o.npz", "mine.py/o.npz", "/proc/o.npz", "o.txt")),
]
BASES = [
    "base = 3",
    "base = []",
    "base = ''",
    "base = 'absent'",
    "base = 'absent.toml'",
    "base = 'mine.toml'",
    "base = './mine.toml'",
    "base = 'other.toml'",
    "base = '.'",
    "base = '/dev/zero'",
    "base = 'p.json'",
    "base = true",
    "base = 'small_fpga'\nbase = 'fig8'",
    "base = 'small_fpga'\nbogus = 1",
    "base = 'small_fpga'\n[machine]\nt = 'x'",
    "base = 'small_fpga'\n[machine.base]\nt = 4",
    "[machine]\nbase = 'small_fpga'",
    MACHINE + "[defaults.nonsense]\nn = 1",
    MACHINE + "[defaults.mine]\nnonsense = 1",
    MACHINE + "[defaults]\nmine = 3",
    MACHINE + "[machine.dram.hbm2]\nmapping = 3",
    MACHINE + "[machine.dram.hbm2]\nstacks = 'x'",
    MACHINE + "[machine.dram.hbm2]\nnonsense = 1",
]
INPUTS = [
    "np.ma.masked_array(np.ones((n, 8)), mask=True)",
    "np.full((n, 8), None)",
    "np.full((n, 8), 'x')",
    "np.full((n, 8), 1j)",
    "np.full((n, 8), 10**400, object)",
    "np.full((n, 8), np.datetime64('2020-01-01'))",
    "np.ones((8, n, 1))",
    "np.ones(0)",
    "[[]]",
    "[[[]]]",
    "[]",
    "{}",
    "iter([])",
    "lambda: 0",
]
STREAMS = ["np.array(3)", "[[]]", "[[], []]", "[[[]]]", "[None]", "[3, 'x']", "3", "np.ma.masked"]
STREAMS.append("iter([])")
MTX = [
    ("integer general", "1 1 4.5"),
    ("real general", "1 1 4,5"),
    ("real general", "1 1 4.5 volts"),
    ("real general", "1 1"),
    ("real general", "1 1 0x10"),
    ("real general", "1.5 1 2"),
    ("real general", "0 1 2"),
    ("real skew-symmetric", "1 1 2"),
    ("real hermitian", "1 1 2"),
    ("pattern general", "1 1 5"),
    ("real nonsense", "1 1 5"),
]


def wrong_settings() -> Iterator[Line]:
    """Machines, options, tables, arrays and matrices that are refused."""
    for command, value in itertools.product(("run", "sweep", "show", "explain"), SETTINGS):
        values = [] if command in ("show", "explain") else ["--no-values"]
        argv = [command, "mine.py", "--config", "mine.toml", "--machine", value, *values]
        yield Line(argv, refused=True)
    for words in TWICE:
        yield Line([*_RUN.split(), *(w.strip("'") for w in words.split())], refused=True)
    for text in BASES:
        files = {"mine.toml": text.encode(), "other.toml": b"base = 'mine.toml'"}
        yield Line(_RUN.split(), files, refused=True)
    for given in INPUTS:
        more = f"import numpy as np\ndef inputs(seed, n): return {{'x': {given}}}"
        text = PROGRAM.format(body=COPY, more=more).encode()
        yield Line(_RUN.replace(" --no-values", "").split(), {"mine.py": text}, refused=True)
    for given in STREAMS:
        more = f"import numpy as np\ndef streams(seed, n): return {{'s': {given}}}"
        body = f"{COPY}; Sink(Source(graph=g, shape=(2, 2), scalar=8, name='s'))"
        text = PROGRAM.format(body=body, more=more).encode()
        yield Line(_RUN.split(), {"mine.py": text}, refused=True)
    for kind, entry in MTX:
        text = f"%%MatrixMarket matrix coordinate {kind}\n1 1 1\n{entry}\n".encode()
        argv = "overlay compare lu:m.mtx --mesh 1x1 --pe static --quiet"
        yield Line(argv.split(), {"m.mtx": text}, refused=True)
    for rate in ("0", "-1", "x", "nan", "1e99", BIG):
        yield Line(["board", "run", "mine.py", "--board", "sim", "--baud", rate], refused=True)


def mixed(count: int = 200, seed: int = 0) -> Iterator[Line]:
    """Two things of :func:`wrong_settings` that are wrong at once."""
    rng = random.Random(seed)
    for _ in range(count):
        words = [*rng.choice(TWICE).split(), "--machine", rng.choice(SETTINGS)]
        yield Line(
            [*_RUN.split(), *(w.strip("'") for w in words)],
            {"mine.toml": rng.choice(BASES).encode()},
            refused=True,
        )
