"""Clock rates of the overlay's parts and tiles on Lattice ECP5, placed
and routed between registers. A case is one part at one speed grade.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.synthesis import look_at_parts
from penstock.overlay.route import pieces
from records import Record, of_overlay
from routed import routed
from silent import silent

SEEDS = (1, 2, 3)
LARGE = (1,)
"""Seeds of what has an ALU: it takes minutes for each."""
SLOW, FAST = SPEEDS[0], SPEEDS[-1]


@dataclass(frozen=True)
class Case:
    """What is placed and routed.

    Attributes
    ----------
    part, variant
        As :func:`~penstock.overlay.route.pieces` has them.
    speed
        Grade of the device.
    aim
        Clock rate in MHz that it is to reach; None where there is none.

    """

    part: str
    variant: str
    speed: str = SLOW
    aim: int | None = None


AIMS = {
    ("dynamic switch", "mesh"): 110,
    ("ALU, deep", "every operation"): 90,
    ("static tile", "no ALU"): 115,
    ("dynamic tile", "no ALU"): 85,
    ("static tile", "every operation, deep"): 80,
    ("dynamic tile", "every operation, deep"): 80,
    ("dynamic tile", "every operation, registered"): 80,
}
"""At the slowest grade."""


def _cases() -> dict[str, Case]:
    named = [(part, variant) for part, variant, _ in pieces()]
    found = {f"{p}, {v}": Case(p, v, aim=AIMS.get((p, v))) for p, v in named}
    return found | {f"{p}, {v}, grade {FAST}": Case(p, v, FAST) for p, v in AIMS}


CASES = _cases()


def run(case: str) -> dict:
    """One part, placed and routed from each seed."""
    look_at_parts()
    asked = CASES[case]
    (make,) = (m for part, variant, m in pieces() if (part, variant) == (asked.part, asked.variant))
    seeds = LARGE if "every operation" in asked.variant else SEEDS
    return routed([vars(asked) | rates(make, seeds=seeds, speed=asked.speed)])


RECORD = Record(
    "clocks_overlay",
    cases=lambda: CASES,
    run=run,
    sources=lambda case: silent(
        of_overlay(
            "bench/made/clocks_overlay.py",
            "overlay/route.py",
            "hw/nextpnr.py",
            without=("tb", "cli", "model", "scheduler"),
        )
    ),
)
