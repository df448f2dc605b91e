"""Memory: of many points, and of this process alone."""

import gc
import subprocess
import sys
import weakref

from penstock.runs import api, outcomes, point
from penstock.system import memory


def test_a_point_that_has_run_leaves_only_its_record(monkeypatch):
    made = []
    alive = []

    class Point(point.Point):
        def __init__(self, *args):
            gc.collect()
            alive.append(sum(one() is not None for one in made))
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr(outcomes, "Point", Point)
    api.outcomes(
        "swiglu",
        "fig8",
        [{"tile_b": b, "batch": 16, "dim": 16, "inter": 16, "tile_inter": 16} for b in (4, 8, 16)],
        timing="stepsim",
        values=False,
    )
    assert len(made) == 3 and max(alive) <= 1


MANY = 300 * 2**20
SAYS = "from penstock.system import memory; print(memory.peak())"


def said():
    """Peak memory that a fresh process reports of itself."""
    return int(subprocess.check_output([sys.executable, "-c", SAYS]))


def test_a_process_says_nothing_of_the_one_that_started_it():
    held = bytearray(b"1") * MANY
    assert memory.peak() > len(held)
    assert said() < MANY / 2


def test_the_peak_stays_when_memory_is_given_back():
    before = memory.peak()
    held = bytearray(b"1") * (before + MANY)
    del held
    assert memory.peak() > before
