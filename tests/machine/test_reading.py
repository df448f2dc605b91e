"""Files that come in: text and JSON, with nothing dropped in silence."""

import re

import numpy as np
import pytest
from penstock.cli import main
from penstock.machine.errors import PenstockError, nearest
from penstock.system import reading


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"a\.json, line 1 column 2: not valid JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', r"a\.json: field 'c' is given twice"),
        ("[" * 65 + "]" * 65, "more than 64 deep"),
        ("[" * 100_000, "more than 64 deep"),
        ('{"a":' * 100_000, "more than 64 deep"),
        (
            "9" * 5000,
            r"integers are at most 9223372036854775807 in magnitude, not 9{20}\.\.\. \(5000 "
            r"digits\)",
        ),
        ("[-9223372036854775808]", "integers are at most 9223372036854775807 in magnitude"),
        ("\x00", "not valid JSON"),
        ("", "not valid JSON"),
    ],
)
def test_json_that_is_refused(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(PenstockError, match=message):
        reading.read_json(path)


def test_text_that_is_refused(tmp_path, monkeypatch):
    (tmp_path / "latin").write_bytes("é".encode("latin-1"))
    with pytest.raises(PenstockError, match=r"latin: not a UTF-8 text file \(byte 0\)"):
        reading.read_text(tmp_path / "latin")
    with pytest.raises(PenstockError, match=r"cannot read .*: Is a directory"):
        reading.read_text(tmp_path)
    monkeypatch.setattr(reading, "MOST_BYTES", 1 << 20)
    with pytest.raises(PenstockError, match="/dev/zero: is larger than 1 MiB"):
        reading.read_text("/dev/zero")


def test_what_is_read(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": [9223372036854775807, 1e300, Infinity]}', "utf-8")
    assert reading.read_json(tmp_path / "a.json") == {"a": [(1 << 63) - 1, 1e300, float("inf")]}
    (tmp_path / "deep.json").write_text("[" * 64 + "]" * 64)
    assert reading.read_json(tmp_path / "deep.json")


def test_fields():
    reading.check_fields({"a": 1}, ["a", "b"], "here", ["a"])
    with pytest.raises(
        PenstockError, match=r"unknown field 'widhts'; did you mean 'widths'. known: widths, x"
    ):
        reading.check_fields({"widhts": 1}, ["widths", "x"], "here")
    with pytest.raises(PenstockError, match="here: field 'b' is missing"):
        reading.check_fields({"a": 1}, ["a", "b"], "here", ["a", "b"])


def test_the_nearest_name():
    assert (
        nearest("swigul", ["attention", "swiglu"])
        == "did you mean 'swiglu'? known: attention, swiglu"
    )
    assert nearest("zzz", ["attention"]) == "known: attention"


def test_the_contents_of_an_archive_are_bounded(tmp_path, monkeypatch, capsys):
    np.savez_compressed(tmp_path / "e.npz", data=np.zeros((1 << 16, 8), np.int8))
    sizes = ["tokens=4", "experts=4", "top_k=2", "dim=64", "trace=e.npz"]
    words = ["deadlock", "published_moe", "--config", "paper_moe", "--timing", "stepsim"]
    words += [word for size in sizes for word in ("--set", size)]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    assert re.search(r"e.npz: takes more than [\d,]+ bytes in memory", capsys.readouterr().err)
    assert main([*words, "--max-memory", "0.001"]) == 1
    assert "[65536, 8] experts" in capsys.readouterr().err
