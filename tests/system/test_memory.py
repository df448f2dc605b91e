"""Many points in the memory of one."""

import gc
import weakref

from penstock.runs import api, outcomes, point


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
