"""The deep campaign of the fuzzer, in parts with a seed each."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from penstock.cli import fuzz as command
from records import Record, on_rtl

PARTS = 3
COUNT = 800
STREAMS = 6667
"""Programs and streams of a part."""
LEAST = 50
"""How often all parts together meet each thing that is to be met, at
least; the tests hold the record to it.
"""
OF_FAILURE = ("backend", "origin", "message")


def campaign(*options: str, keep: str) -> dict:
    """What `penstock fuzz` tells; the programs of failures are kept in a
    folder, not in the record.
    """
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fuzz.json")
        command.command(parser.parse_args([*options, "--keep", keep, "--json", str(out)]))
        told = json.loads(out.read_text(encoding="utf-8"))
    for word in ("versions", "least", "below"):
        told.pop(word, None)
    told["failures"] = [{k: f[k] for k in OF_FAILURE if k in f} for f in told["failures"]]
    return told


def run(case: str) -> dict:
    """A part."""
    numbers = {"--count": COUNT, "--streams": STREAMS, "--seed": CASES.index(case)}
    options = (str(word) for pair in numbers.items() for word in pair)
    return {"rows": [campaign(*options, "--on", "rtl", keep="out/fuzz")]}


CASES = tuple(f"part {k + 1}" for k in range(PARTS))
RECORD = Record(
    "fuzz",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: on_rtl("bench/made/fuzz.py", "fuzz/*.py", "sim_configs/*.toml"),
)
