"""Result records survive a round trip and bad files are refused."""

import pytest

from penstock.machine import output, record
from penstock.machine.errors import PenstockError


def test_round_trip(tmp_path):
    r = record.Record("swiglu", "fig8", {"tile_b": 16}, "model", "machine", 123, values_ok=True, units=[{"name": "x"}])
    record.save([r], tmp_path / "a.json")
    assert record.load(tmp_path / "a.json") == [r]


@pytest.mark.parametrize(("text", "message"), [("[", "not valid JSON"), ("{}", "must hold a list"), ('[{"cycles": 1}]', "entry 0 is not a result record")])
def test_bad_files_are_refused(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(PenstockError, match=message):
        record.load(tmp_path / "a.json")


def test_nothing_half_written(tmp_path):
    with pytest.raises(PenstockError, match="no such folder"):
        output.write_text(tmp_path / "absent" / "a.json", "x")
    target = tmp_path / "a.json"
    with pytest.raises(TypeError):
        output.write_text(target, 3)
    assert list(tmp_path.iterdir()) == []
