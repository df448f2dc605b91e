"""Recorded clocks beside their aims: none is far below, and each that
is below has a remedy.
"""

from pathlib import Path

import overlay_resources
import synthesis_report
from made import clocks, clocks_overlay

LEAST = 0.8
"""Of an aim, that every part reaches."""
PAGE = Path(synthesis_report.__file__).parents[1] / "docs" / "synthesis.md"


def of_units():
    """(name, MHz, aim) of the deep form at the slowest grade."""
    for row in clocks.RECORD.rows():
        if (row["pipelines"], row["speed"]) != ("deep", clocks.SLOW):
            continue
        if row["name"] != clocks.FABRIC:
            yield row["name"], row["mhz"], synthesis_report.AIM
        elif row["program"] == synthesis_report.PROGRAM:
            yield row["name"], row["mhz"], synthesis_report.FABRIC_AIM


def of_overlay():
    """((part, variant), MHz, aim) of the parts that have an aim of
    their own.
    """
    for row in clocks_overlay.RECORD.rows():
        name = row["part"], row["variant"]
        if row["aim"] is not None and name not in overlay_resources.FORMER:
            yield name, row["mhz"], row["aim"]


def far_below(rows):
    return [name for name, mhz, aim in rows if mhz < LEAST * aim]


def below(rows):
    return {name for name, mhz, aim in rows if mhz < aim}


def test_no_part_is_far_below_its_aim():
    assert far_below(of_units()) == []
    assert far_below(of_overlay()) == []


def test_one_that_is_far_below_is_told():
    rows = [("store", 64.0, 80), ("load", 63.9, 80)]
    assert far_below(rows) == ["load"]
    assert below([*rows, ("zip", 80.0, 80)]) == {"store", "load"}


def test_each_unit_below_its_aim_has_a_remedy():
    _, _, rest = PAGE.read_text().partition("What limits units, and what would cut it:")
    told, _, _ = rest.partition("\n## ")
    names = {" ".join(name.split()[:2]) for name in below(of_units())}
    called = {"load RandomOffChipLoad": "load by address", "scratchpad Bufferize_1": "scratchpad"}
    assert [name for name in names if called.get(name, name) not in told] == []


def test_each_part_of_the_overlay_below_its_aim_has_a_remedy():
    assert below(of_overlay()) <= overlay_resources.REMEDIES.keys()
