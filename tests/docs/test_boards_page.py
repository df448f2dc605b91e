"""The page on boards: each bitstream on record keeps what is promised
of it.
"""

import pytest
from made import boards
from penstock.board.platforms import BOARDS

SHARE = 0.65
"""Of the part's LUT, at most, for a program's fabric with its host."""
SYNTHESIS_S = 300
WHOLE_S = 2_400
"""CPU time at most: of synthesis, and of place and route with it."""
BOUND = (*boards.PROGRAMS, "overlay 4x4")
"""Designs of which a whole build keeps to that time."""


def broken(rows):
    """Of each row, what it breaks."""
    return [
        (row["design"], row["board"], what)
        for row in rows
        for what, kept in promises(row).items()
        if not kept
    ]


def promises(row):
    """What a row has to keep, and whether it does."""
    used, there = row["used"]["LUT"]
    found = {
        "clock": row["fmax_mhz"] >= BOARDS[row["board"]].clock_mhz,
        "synthesis": row["synthesis_s"] < SYNTHESIS_S,
    }
    if row["design"] in boards.PROGRAMS:
        found["LUT"] = used <= SHARE * there
    if row["design"] in BOUND:
        found["build"] = row["synthesis_s"] + row["routing_s"] < WHOLE_S
    return found


def absent(rows):
    """Designs of which a board has no bitstream."""
    there = {(row["design"], row["board"]) for row in rows}
    return [(what, board) for what in BOUND for board in BOARDS if (what, board) not in there]


def test_bitstreams_fit_and_are_made_in_time():
    rows = boards.RECORD.rows()
    assert broken(rows) == []


def test_each_board_has_a_bitstream_of_the_programs_and_of_an_overlay():
    rows = boards.RECORD.rows()
    assert absent(rows) == []


@pytest.mark.parametrize(
    ("design", "changed", "what"),
    [
        ("simple_moe", {"used": {"LUT": [651, 1000]}}, ["LUT"]),
        ("overlay 4x4", {"used": {"LUT": [651, 1000]}}, []),
        ("overlay 2x2", {"synthesis_s": 300.0}, ["synthesis"]),
        ("swiglu", {"routing_s": 2_350.0}, ["build"]),
        ("overlay 2x2", {"routing_s": 2_350.0}, []),
        ("overlay 4x4", {"fmax_mhz": 10.0}, ["clock"]),
    ],
)
def test_a_bitstream_that_breaks_a_promise_is_told(design, changed, what):
    row = {"design": design, "board": "ulx3s", "synthesis_s": 50.0, "routing_s": 100.0}
    row |= {"fmax_mhz": 90.0, "used": {"LUT": [650, 1000]}}
    assert broken([row]) == []
    assert broken([row, row | changed]) == [(design, "ulx3s", one) for one in what]


def test_a_board_without_a_bitstream_is_told():
    rows = [{"design": what, "board": board} for what in BOUND for board in BOARDS]
    assert absent(rows) == []
    assert absent(rows[1:]) == [("swiglu", "ulx3s")]
