"""Buffers beyond their scratchpads, on the model and RTL."""

from dataclasses import replace

import numpy as np
import penstock
import pytest
from penstock import model
from penstock.frontend import (
    Bufferize,
    Expand,
    Graph,
    LinearOffChipLoad,
    LinearOffChipStore,
    Map,
    Sink,
    Source,
    Streamify,
    lower,
    matmul,
)
from penstock.frontend.program import Program
from penstock.machine.config import Config, Dram, check
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import ConfigError, LoweringError
from penstock.machine.spilling import without
from penstock.runs.point import Point
from penstock.runs.regress import DESIGNS
from penstock.tb.check import compare
from penstock.tb.tops import small

FEW = small(pages=2, frames=2, dtype="fp32", dram=Dram(channels=4, line_bytes=16))
"""Scratchpads of four tiles."""


def spilling(spill: int, config: Config = FEW) -> Config:
    return check(replace(config, machine=replace(config.machine, spill=spill)))


class Case:
    """A program in the making, with the elements of its sources."""

    def __init__(self) -> None:
        self.g = Graph("case")
        self.given: dict[str, list] = {}
        self.rng = np.random.default_rng(3)

    def tiles(self, name, shape, *sizes, tile=(2, 2)) -> Source:
        """Groups of so many tiles."""
        self.given[name] = [[*self.rng.normal(size=(n, *tile)).astype(np.float32)] for n in sizes]
        return Source(graph=self.g, shape=shape, tile=tile, name=name)

    def ragged(self, name):
        return self.g.dynamic(name, ragged=True)

    @property
    def program(self) -> Program:
        return Program("case", {}, self.g, None, None, lambda seed: self.given)


def twice(c: Case) -> None:
    x = c.tiles("a", (3, c.ragged("A")), 9, 3, 7)
    Sink(Streamify(Bufferize(x, rank=1), repeat=2), name="twice")


def by_reference(c: Case) -> None:
    c.given["r"] = [[0, 0], [0]]
    times = Source(graph=c.g, shape=(2, c.ragged("R")), scalar=8, name="r")
    held = Bufferize(c.tiles("b", (2, c.ragged("B")), 11, 6), rank=1)
    Sink(Streamify(held, ref=times), name="by_reference")


def transposed(c: Case) -> None:
    held = Bufferize(c.tiles("c", (2, 9), 9, 9), rank=1)
    Sink(Streamify(held, shape=(3, 3), stride=(1, 3)), name="transposed")


def through_memory(c: Case) -> None:
    w = LinearOffChipLoad(c.g.input("w", (8, 8), "fp32"), tile=(2, 2))
    LinearOffChipStore(Streamify(Bufferize(w, rank=2)), c.g.output("y", (8, 8), "fp32"))


def product(c: Case) -> None:
    a = c.tiles("m", (1, 2), 2, tile=(6, 4))
    Sink(Map(a, c.tiles("n", (1, 2), 2, tile=(4, 8)), fn=matmul()), name="product")


def repeated(c: Case) -> None:
    Sink(Expand(c.tiles("e", (1, 2), 2, tile=(4, 6)), count=2), name="repeated")


PROGRAMS = (twice, by_reference, transposed, through_memory, product, repeated)


def test_six_programs_are_equal_in_every_beat_and_right():
    """Side by side in one fabric; each spills."""
    c = Case()
    for make in PROGRAMS:
        make(c)
    fast, rtl = penstock.run(c.program, spilling(4096), on="both")
    assert fast.cycles == rtl.cycles and not rtl.mismatches
    assert rtl.channels_observed == rtl.channels_total
    assert fast.values_ok and rtl.values_ok
    assert fast.spilled_bytes == rtl.spilled_bytes > 0
    spilled = {t["name"]: t["written_bytes"] for t in rtl.tensors if t["role"] == "spill"}
    assert len(spilled) >= len(PROGRAMS) and all(spilled.values())
    assert sum(t["read_bytes"] + t["written_bytes"] for t in rtl.tensors) == rtl.dram_bytes


@pytest.mark.parametrize("make", [twice, by_reference, through_memory])
def test_buffers_that_fit_take_the_same_cycles(make):
    c = Case()
    make(c)
    roomy = replace(FEW, machine=replace(FEW.machine, pages=16))
    (plain,) = penstock.run(c.program, roomy)
    (enabled,) = penstock.run(c.program, spilling(4096, roomy))
    assert (enabled.cycles, enabled.dram_bytes) == (plain.cycles, plain.dram_bytes)
    assert enabled.spilled_bytes == 0 and plain.spilled_bytes is None


@pytest.mark.parametrize("design", [d for d in DESIGNS if not d.deep], ids=lambda d: d.name)
def test_programs_that_fit_take_the_same_cycles(design):
    """Each point of the regression."""
    machine = design.machine()
    for params in design.points:
        (plain,), (enabled,) = (
            penstock.run(design.program, config, params, values=False)
            for config in (machine, spilling(1 << 16, machine))
        )
        assert (enabled.cycles, enabled.dram_bytes) == (plain.cycles, plain.dram_bytes)
        assert enabled.spilled_bytes == 0 and plain.spilled_bytes is None


def test_channels_of_readers_that_fetch_nothing_are_observed():
    c = Case()
    twice(c)
    config = spilling(4096, replace(FEW, machine=replace(FEW.machine, pages=16)))
    point = Point(c.program, config, {})
    ran = model.run(point.graph, config, {}, trace=True, sources=point.source_beats())
    report = compare(ran, ran, point.graph)
    assert report.ok and min(len(x.accept) for x in ran.channels) == 0


def test_a_fabric_whose_buffers_fit_is_the_same():
    c = Case()
    through_memory(c)
    roomy = replace(FEW, machine=replace(FEW.machine, pages=16))
    graph = lower(c.g, roomy)
    assert lower(c.g, spilling(4096, roomy)) == replace(
        graph, meta=graph.meta | {"config": FEW.name}
    )
    spills = lower(c.g, spilling(4096))
    assert spills.units[0].kind.stated == graph.units[0].kind.stated
    assert without(spills).ports == graph.ports and len(spills.ports) == len(graph.ports) + 2


def test_a_deadlock_for_pages_names_the_bytes_that_free_it():
    c = Case()
    twice(c)
    with pytest.raises(DeadlockError) as e:
        penstock.run(c.program, FEW)
    bytes_ = e.value.deadlock.spill
    assert f"--machine spill={bytes_}" in str(e.value)
    (freed,) = penstock.run(c.program, spilling(bytes_))
    assert freed.values_ok
    with pytest.raises(DeadlockError):
        penstock.run(c.program, spilling(bytes_ // 2))


def test_scratchpads_that_cannot_spill_are_refused():
    with pytest.raises(ConfigError, match="spill must be 0 or at least t x line_bytes = 32"):
        spilling(31)
    array = penstock.load_config("array_small")
    with pytest.raises(ConfigError, match="scratchpads of an array have no off-chip memory"):
        spilling(1 << 20, array)
    c = Case()
    transposed(c)
    with pytest.raises(LoweringError, match="2 pages x 2 frames = 4, and 4 off-chip"):
        lower(c.g, spilling(64))
