"""Programs drawn by the fuzzer in the lean and the deep forms of
machines, on model and RTL.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from penstock import cli
from penstock.machine.forms import FORMS
from records import Record, on_rtl

COUNT = 670
"""Programs of a form; 2,010 of the three."""
SEED = 41
OF_FAILURE = ("backend", "origin", "message")


def run(form: str) -> dict:
    """A campaign in one form: counts, failures and its time."""
    options = ("--count", str(COUNT), "--seed", str(SEED), "--form", form, "--on", "rtl")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "fuzz.json")
        cli.main(["fuzz", *options, "--keep", f"out/fuzz_{form}", "--json", str(out)])
        told = json.loads(out.read_text(encoding="utf-8"))
    failures = [{k: f[k] for k in OF_FAILURE if k in f} for f in told["failures"]]
    kept = {k: told[k] for k in ("counts", "seed", "wall_s")}
    return {"rows": [{"form": form, **kept, "failures": failures}]}


RECORD = Record(
    "fuzz_forms",
    cases=lambda: list(FORMS[1:]),
    run=run,
    sources=lambda case: on_rtl("bench/made/fuzz_forms.py", "fuzz/*.py", "sim_configs/*.toml"),
)
