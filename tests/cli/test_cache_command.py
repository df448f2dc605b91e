"""``penstock cache``."""

import pytest
from penstock import cli
from penstock.system import cache


@pytest.fixture(autouse=True)
def entries(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    for name in ("one", "two"):
        with cache.entry("sim", name) as (at, _):
            (at / "file").write_text("x" * 1000)


def test_list_has_every_entry_and_the_sum(capsys):
    assert cli.main(["cache", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("one", "two", "total", "kept below 10 GB"))


def test_prune_keeps_below_a_size(capsys):
    assert cli.main(["cache", "prune", "--gb", "1.3e-6"]) == 0
    assert "removed 1 entry, 0.0 MB" in capsys.readouterr().out
    assert [e.folder.name for e in cache.entries()] == ["two"]


def test_clear_removes_everything(capsys):
    assert cli.main(["cache", "clear"]) == 0
    assert "removed 2 entries" in capsys.readouterr().out
    assert cache.entries() == []


@pytest.mark.parametrize(
    "argv", [["list", "--gb", "1"], ["prune", "--gb", "nan"], ["prune", "--gb", "-1"]]
)
def test_a_size_that_means_nothing_is_refused(argv, capsys):
    assert cli.main(["cache", *argv]) == 1
    assert capsys.readouterr().err.startswith("penstock: --gb")
