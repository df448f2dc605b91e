"""Dynamic against static on the model, a share of the measurement `dynamic`."""

from statistics import median

import fabrics
import pytest


@pytest.mark.deep
def test_dynamic_wins_on_skewed_draws():
    """Tiles of run-time size lie beyond the front of the static ones, and work that is given out as
    it comes is done first.
    """
    found = {}
    for study in ("tiling", "attention"):
        programs = fabrics.variants("small", study).items()
        found[study] = {n: fabrics.drawn(study, *of, range(3), "model") for n, of in programs}
    rows = [row for study in found.values() for of in study.values() for row in of]
    assert all(row["equal"] for row in rows)
    for quantity in ("onchip", "peak"):
        assert median(fabrics.distances(found["tiling"], quantity, True)) > 1
    sides = fabrics.sides(found["attention"])
    assert all(
        row["cycles_x"] > 1 for row in sides if row["variant"] != "dynamic" and "cycles_x" in row
    )
