"""Programs drawn by the fuzzer in the lean and the deep forms of
machines, on model and RTL.
"""

from __future__ import annotations

from penstock.machine.forms import FORMS
from records import Record, on_rtl

from made.fuzz import campaign

COUNT = 670
"""Programs of a form; 2,010 of the three, for each has a seed of its own."""
SEEDS = {form: 41 + k for k, form in enumerate(FORMS[1:])}
KEPT = ("counts", "seed", "wall_s", "failures")


def run(form: str) -> dict:
    """A campaign in one form: counts, failures and its time."""
    numbers = ("--count", str(COUNT), "--seed", str(SEEDS[form]))
    told = campaign(*numbers, "--form", form, "--on", "rtl", keep=f"out/fuzz_{form}")
    return {"rows": [{"form": form, **{k: told[k] for k in KEPT}}]}


RECORD = Record(
    "fuzz_forms",
    cases=lambda: list(SEEDS),
    run=run,
    sources=lambda case: on_rtl("bench/made/fuzz_forms.py", "fuzz/*.py", "sim_configs/*.toml"),
)
