"""Programs drawn by the fuzzer on the one build of `array_small`, on
model and RTL, and those on fabrics of their own beside them.
"""

from __future__ import annotations

from records import Record, Sources, on_rtl, preset

from .fuzz import campaign

ARRAY = "array_small"
CAMPAIGNS = 10
COUNT = 200
"""Programs of a campaign; 2,000 of all."""
OWN = "fabrics of their own"
OWN_COUNT = 200
SEED = 61
KEPT = ("counts", "seconds", "outside", "refused", "seed", "wall_s", "failures")
CASES = (*(f"campaign {k + 1}" for k in range(CAMPAIGNS)), OWN)


def run(case: str) -> dict:
    """A campaign: counts, what was left out and why, failures, its time."""
    if case == OWN:
        options = ("--count", str(OWN_COUNT), "--seed", str(SEED), "--on", "rtl")
    else:
        seed = SEED + CASES.index(case)
        options = ("--count", str(COUNT), "--seed", str(seed), "--on", "rtl")
        options = (*options, "--array", ARRAY)
    told = campaign(*options, keep="out/fuzz_array")
    return {"rows": [{k: told[k] for k in KEPT if k in told}]}


def sources(case: str) -> Sources:
    """What a case depends on."""
    if case == OWN:
        return on_rtl("bench/made/fuzz_array.py", "fuzz/*.py", "sim_configs/*.toml")
    array = ("hw/array/*.py", "tb/parts.cpp", "tb/parts_test.py", preset(ARRAY))
    return on_rtl("bench/made/fuzz_array.py", "fuzz/*.py", *array)


RECORD = Record("fuzz_array", cases=lambda: CASES, run=run, sources=sources)
