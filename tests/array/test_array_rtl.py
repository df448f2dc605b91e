"""Programs on the RTL of an array: one build runs all of them, an image each."""

import re
from dataclasses import replace

import pytest
from penstock.machine.array import image as images
from penstock.machine.errors import PenstockError
from penstock.runs import array, array_rtl
from penstock.tb import api
from penstock.tb import array as bench

TRACK = re.compile(r"tile_\w+_valid")
SIZES = ({}, {"batch": 8, "inter": 8}, {"dim": 8, "tile_inter": 2})
pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("rtl-array-tiny")]


@pytest.fixture(scope="module")
def placed():
    return [array.place("swiglu", "array_tiny", p, seed=s) for s, p in enumerate(SIZES)]


def test_one_build_runs_programs_of_several_sizes_and_placements(placed):
    records = array_rtl.run(placed)
    assert [r.values_ok for r in records] == [True] * len(SIZES)
    assert len({r.cycles for r in records}) == len(SIZES)
    for r in records:
        assert r.channels_observed == r.channels_total
        assert r.mismatches == 0
        assert r.compared["beats"] > 100


def test_a_wire_to_another_site_is_found(placed, monkeypatch):
    """Each `valid` of a track leads to the next track's reader: a planted fault."""
    right = api.cut

    def wrong(*args):
        found = right(*args)
        tracks = [k for k, (driver, _) in enumerate(found.links) if TRACK.match(driver.port)]
        links = list(found.links)
        for k, other in zip(tracks, tracks[1:] + tracks[:1], strict=True):
            links[k] = (found.links[k][0], found.links[other][1])
        return replace(found, links=links)

    monkeypatch.setattr(api, "cut", wrong)
    with pytest.raises(PenstockError):
        array_rtl.run([placed[0]])


def test_a_wrong_word_of_an_image_is_found(placed, monkeypatch):
    """A count of copies that is one too high: a planted fault."""
    one = placed[0]
    right = images.encoded

    def wrong(structure, graph, sources):
        units = list(graph.units)
        k = next(u.id for u in units if u.kind.name == "repeat")
        units[k] = replace(units[k], kind=units[k].kind.but(count=units[k].kind.count + 1))
        return right(structure, replace(graph, units=tuple(units)), sources)

    monkeypatch.setattr(bench, "encoded", wrong)
    with pytest.raises(PenstockError):
        array_rtl.run([one])


def test_a_place_too_many_in_a_register_is_found(placed, monkeypatch):
    """Also where it changes no cycle: a planted fault in the FIFO before a slot."""
    one = placed[0]
    right = images.encoded

    def wrong(structure, graph, sources):
        ends = graph.meta["array"]["channels"]
        k = next(k for k, (what, *_) in enumerate(ends) if what == "slot")
        channels = list(graph.channels)
        channels[k] = replace(channels[k], depth=channels[k].depth + 1)
        return right(structure, replace(graph, channels=tuple(channels)), sources)

    monkeypatch.setattr(bench, "encoded", wrong)
    with pytest.raises(PenstockError, match="another number of places than its depth"):
        array_rtl.run([one])
