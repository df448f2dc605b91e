"""The deep campaign of the fuzzer, as `nox -s fuzz` runs it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from penstock import cli
from records import Record, on_rtl

CAMPAIGN = ("--count", "3300", "--streams", "20000", "--on", "rtl", "--least", "100")
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


def run(_case: str) -> dict:
    """All of it."""
    return {"rows": [campaign(*CAMPAIGN, keep="out/fuzz")]}


RECORD = Record(
    "fuzz",
    cases=lambda: ["campaign"],
    run=run,
    sources=lambda case: on_rtl("bench/made/fuzz.py", "fuzz/*.py", "sim_configs/*.toml"),
)
