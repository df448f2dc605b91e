"""The deep campaign of the fuzzer, in parts with a seed each."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from penstock import cli
from records import Record, on_rtl

PARTS = 6
COUNT = 550
STREAMS = 3334
LEAST = 17
"""Programs and streams of a part; how often each of them meets what is to be met."""
OF_FAILURE = ("backend", "origin", "message")


def campaign(*options: str, keep: str) -> dict:
    """What `penstock fuzz` tells; the programs of failures are kept in a
    folder, not in the record.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fuzz.json")
        cli.main(["fuzz", *options, "--keep", keep, "--json", str(out)])
        told = json.loads(out.read_text(encoding="utf-8"))
    del told["versions"]
    told["failures"] = [{k: f[k] for k in OF_FAILURE if k in f} for f in told["failures"]]
    return told


def run(case: str) -> dict:
    """A part."""
    numbers = {
        "--count": COUNT,
        "--streams": STREAMS,
        "--least": LEAST,
        "--seed": CASES.index(case),
    }
    options = (str(word) for pair in numbers.items() for word in pair)
    return {"rows": [campaign(*options, "--on", "rtl", keep="out/fuzz")]}


CASES = tuple(f"part {k + 1}" for k in range(PARTS))
RECORD = Record(
    "fuzz",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: on_rtl("bench/made/fuzz.py", "fuzz/*.py", "sim_configs/*.toml"),
)
