"""Result records survive a round trip and bad files are refused."""

import json

import pytest
from penstock.machine import record
from penstock.machine.errors import PenstockError
from penstock.runs import explain


def test_round_trip(tmp_path):
    r = record.Record(
        "swiglu",
        "fig8",
        {"tile_b": 16},
        "model",
        "machine",
        123,
        values_ok=True,
        units=[{"name": "x", "kind": "sink", "busy": 1, "blocked": None, "starved": None}],
    )
    record.save([r], tmp_path / "a.json")
    assert record.load(tmp_path / "a.json") == [r]


RECORD = {
    "workload": "w",
    "config": "c",
    "params": {},
    "backend": "model",
    "timing": "machine",
    "cycles": 3,
}
UNIT = {"name": "a", "kind": "sink", "busy": 1, "blocked": 0, "starved": 0}
CHANNEL = {"name": "x", "src": "a", "dst": "a", "depth": 2, "occupancy": 0.5}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cycels": 3}, "unknown field 'cycels'; did you mean 'cycles'"),
        ({"units": [3]}, r"units\[0\] has no name that is str"),
        ({"units": [UNIT | {"busy": "x"}]}, r"units\[0\] has no busy that is int"),
        (
            {"units": [UNIT], "channels": [CHANNEL | {"dst": "b"}]},
            "channel 'x' must join two of the units",
        ),
        ({"units": [UNIT], "channels": [CHANNEL | {"depth": 0}]}, "hold at least 1 beat"),
        ({"overlay": {}}, "overlay has no bounds that is dict"),
        ({"schedule": {"programs": 3}}, "schedule has no predicted that is float"),
    ],
)
def test_records_whose_parts_are_not_whole(tmp_path, more, message):
    (tmp_path / "a.json").write_text(json.dumps([RECORD | more]))
    with pytest.raises(PenstockError, match=message):
        record.load(tmp_path / "a.json")


def test_explain_takes_a_record_with_nothing_but_its_cycles(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps([RECORD, RECORD | {"cycles": 0, "units": [UNIT], "channels": [CHANNEL]}])
    )
    first, second = record.load(tmp_path / "a.json")
    assert explain.text(first) == "w on c, model, machine timing: 3 cycles"
    assert "busy" in explain.text(second)


def test_diff_lays_equal_configurations_and_seeds_side_by_side_first():
    def made(config, seed, cycles):
        return record.Record("w", config, {"n": 1}, "model", "machine", cycles, seed=seed)

    rows = explain.diff(
        [made("small", 0, 10), made("small", 1, 20)],
        [made("small", 1, 40), made("large", 0, 5), made("large", 2, 7)],
    )
    assert [(r["config"], r["seed"], r["cycles A"], r["cycles B"], r["B/A"]) for r in rows] == [
        ("small | large", 0, 10, 5, 0.5),
        ("small", 1, 20, 40, 2.0),
        ("large", 2, None, 7, None),
    ]
