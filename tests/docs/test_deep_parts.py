"""The deep tests in parts: every one is in one part, and what passed is
counted.
"""

import re

import generate
import pytest
from penstock.machine.errors import PenstockError

ROOT = generate.ROOT


@pytest.fixture
def deep(monkeypatch):
    import importlib

    return importlib.import_module("made.deep")


def test_every_deep_test_is_in_one_part(deep):
    marked = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").glob("**/test_*.py")
        if re.search(r"\bmark\.deep\b", path.read_text()) and path.name != "test_deep_parts.py"
    }
    files = [file for part in deep.PARTS.values() for file in part]
    assert sorted(files) == sorted(marked)


def test_every_part_depends_on_what_it_tests(deep):
    for part in deep.PARTS:
        files = deep.RECORD.sources(part).files()
        rooms = {path.relative_to(ROOT).parts[0] for path in files}
        assert rooms & {"hw", "scheduler", "model", "cli"}, part


@pytest.mark.parametrize("passes", [True, False])
def test_a_part_is_stored_only_where_all_its_tests_pass(deep, monkeypatch, tmp_path, passes):
    file = tmp_path / "test_it.py"
    file.write_text(
        "import pytest\n\npytestmark = pytest.mark.deep\n\n"
        f"def test_one():\n    assert {passes}\n\n"
        "def test_two():\n    pytest.skip('not here')\n"
    )
    monkeypatch.setitem(deep.PARTS, "mine", (str(file), "-p", "no:cacheprovider"))
    if passes:
        assert deep.run("mine") == {"rows": [{"passed": 1, "skipped": 1}]}
    else:
        with pytest.raises(PenstockError, match="a test failed: nothing is stored"):
            deep.run("mine")


def test_a_part_whose_tests_are_all_skipped_has_not_passed(deep, monkeypatch, tmp_path):
    file = tmp_path / "test_it.py"
    lines = ["import pytest", "@pytest.mark.deep", "def test_one():", "    pytest.skip('not here')"]
    file.write_text("\n".join([*lines, ""]))
    monkeypatch.setitem(deep.PARTS, "mine", (str(file), "-p", "no:cacheprovider"))
    with pytest.raises(PenstockError, match="all its tests were skipped"):
        deep.run("mine")


def test_a_part_that_takes_too_long_is_stopped(deep, monkeypatch, tmp_path):
    file = tmp_path / "test_it.py"
    lines = ["import time", "import pytest", "@pytest.mark.deep", "def test_one():"]
    file.write_text("\n".join([*lines, "    time.sleep(60)", ""]))
    monkeypatch.setitem(deep.PARTS, "mine", (str(file), "-p", "no:cacheprovider"))
    monkeypatch.setattr(deep, "MINUTES", 0.02)
    with pytest.raises(PenstockError, match="takes more than"):
        deep.run("mine")
