"""Coverage: the share of a fabric's one-bit signals that rise and fall in its runs."""

import re
from collections import Counter
from dataclasses import dataclass, field, fields

import pytest
from penstock.tb import api
from penstock.tb.design import design_of
from penstock.tb.exported import Design
from penstock.testing import units
from penstock.testing.graphs import configuration

FLOOR = 0.92
"""Handshakes, conditions and states; less is reached where nothing stalls."""
COUNTED = re.compile(r"^C '.*\x01o\x02([^\x01[]*)\x01h\x02penstock_bench\.fabric([^']*)' (\d+)$")


@dataclass(frozen=True)
class Counting(Design):
    """A design whose simulator counts changes: of each instance, signal and direction."""

    changes: Counter = field(default_factory=Counter)

    @property
    def covered(self):
        return True

    def collect(self, folder):
        for line in (folder / "coverage.dat").read_text(encoding="utf-8").splitlines():
            if found := COUNTED.match(line):
                self.changes[found[1], found[2]] += int(found[3])

    @property
    def share(self):
        return sum(map(bool, self.changes.values())) / len(self.changes)


@pytest.mark.deep
def test_stalled_streams_change_more_signals_than_the_floor_and_one_stream_fewer():
    config = configuration()
    points = units.shapes(config.machine.t, config.machine.dtype).points()
    made = design_of(points[0].graph, config)
    design = Counting(**{f.name: getattr(made, f.name) for f in fields(made)})
    api.simulate(design, points[:1], config)
    assert design.share < FLOOR
    api.simulate(design, points[1:], config)
    assert design.share > FLOOR
