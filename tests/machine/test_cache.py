"""The cache: what is damaged is built anew, what is old goes, and one process builds."""

import json
import os
import time

import pytest
from penstock.machine.errors import PenstockError
from penstock.system import cache


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PENSTOCK_CACHE_GB", raising=False)
    return tmp_path / "cache"


def made(key: str = "key", text: str = "{}", kind: str = "sim") -> tuple[bool, str]:
    """Use an entry, filled if need be: whether it was there, and what is in it."""
    with cache.entry(kind, key) as (at, ready):
        if not ready:
            (at / "file.json").write_text(text)
            (at / "program").write_text(text)
    return ready, (at / "file.json").read_text()


def test_an_entry_is_filled_once():
    assert made() == (False, "{}")
    assert made(text="other") == (True, "{}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda at: (at / "file.json").write_text("{"),  # cut
        lambda at: (at / "file.json").write_text("[]"),  # of the same size
        lambda at: (at / "program").unlink(),
        lambda at: (at / "complete").write_text(""),
        lambda at: (at / "complete").write_text('{"files": 3}'),
    ],
)
def test_a_damaged_entry_is_built_anew(folder, damage):
    made()
    damage(folder / "sim" / "key")
    assert made(text="new") == (False, "new")
    assert made() == (True, "new")


def test_an_entry_that_failed_is_begun_again(folder):
    with pytest.raises(ZeroDivisionError):
        with cache.entry("sim", "key") as (at, _):
            (at / "half").touch()
            raise ZeroDivisionError
    assert not (folder / "sim" / "key" / "complete").exists()
    assert made() == (False, "{}")
    assert not (folder / "sim" / "key" / "half").exists()


def age(folder, key: str, seconds: float) -> None:
    at = time.time() - seconds
    os.utime(folder / "sim" / key / "complete", (at, at))


def test_those_not_used_for_longest_make_room(folder, monkeypatch):
    for key in "abc":
        made(key, "x" * 1000)
    for key, seconds in (("a", 9000), ("b", 8000), ("c", 5)):
        age(folder, key, seconds)
    made("a")  # used again
    monkeypatch.setenv("PENSTOCK_CACHE_GB", "1e-6")
    made("d", "x" * 1000)
    assert sorted(e.folder.name for e in cache.entries()) == [
        "a",
        "c",
        "d",
    ]  # the others were used within the hour


def test_a_cache_that_cannot_be_written_is_reported_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        PenstockError,
        match=(
            "cannot be written: Not a directory; set PENSTOCK_CACHE to a folder that you may "
            "write to"
        ),
    ):
        made()


def test_clear_leaves_what_is_being_built(folder):
    made("old")
    with cache.entry("sim", "new"):
        assert [e.folder.name for e in cache.clear()] == ["old"]
    assert [e.folder.name for e in cache.entries()] == ["new"]
    assert json.loads((folder / "sim" / "new" / "complete").read_text()) == {"files": {}}
