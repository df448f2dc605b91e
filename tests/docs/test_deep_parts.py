"""The deep tests in parts: every one is in one part, and what passed is
counted.
"""

import json
import re
import subprocess
import sys
import tomllib

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


def names_of(deep, part):
    return {path.relative_to(ROOT).as_posix() for path in deep.RECORD.sources(part).files()}


def test_every_part_of_fabrics_depends_on_all_that_they_are_made_of(deep):
    """Units, benches, programs and presets are found by name: no import
    of a test leads to them.
    """
    rooms = [path for room in deep.ROOMS for path in (ROOT / room).rglob("*.py")]
    rooms += [path for kind in ("*.cpp", "*.sv") for path in (ROOT / "tb").glob(kind)]
    rooms += (ROOT / "sim_configs").glob("*.toml")
    all_of_them = {path.relative_to(ROOT).as_posix() for path in rooms}
    assert {"hw/units/matmul.py", "tb/bench.sv", "sim_configs/fig8.toml"} <= all_of_them
    for part in deep.PARTS:
        if part not in deep.OF_THE_SOLVER:
            assert all_of_them <= names_of(deep, part), part


def test_parts_of_the_solver_depend_on_it(deep):
    for part in deep.OF_THE_SOLVER:
        names = names_of(deep, part)
        assert {"scheduler/dag/evaluate.py", "scheduler/dag/solve/tiles.py"} <= names
    assert "tests/data/problems/mlsys-2026-1.json" in names_of(deep, "dag_solver")
    assert "cli/dag_solver.py" in names_of(deep, "dag_limits")


def test_files_beside_tests_count(deep):
    assert "tests/hw/lockstep.cpp" in names_of(deep, "netlists")
    assert "tests/array/slots.toml" in names_of(deep, "array")
    assert "tests/hostile/run.py" in names_of(deep, "bad_input")


def test_a_new_process_tells_the_same_sources(deep):
    """Whatever modules this one has loaded."""
    told = "import json; from made import deep; print(json.dumps({"
    told += "part: deep.RECORD.sources(part).digest() for part in deep.PARTS}))"
    new = subprocess.check_output([sys.executable, "-c", told], cwd=ROOT / "bench", text=True)
    assert json.loads(new) == {part: deep.RECORD.sources(part).digest() for part in deep.PARTS}


def test_scripts_that_deep_tests_import_are_known(deep):
    """By a plain name, from another folder than theirs."""
    searched = [ROOT / name for name in searched_folders()]
    found = set()
    for file in {file for part in deep.PARTS.values() for file in part}:
        for name in re.findall(r"^ *(?:from|import) ([\w.]+)", (ROOT / file).read_text(), re.M):
            path = f"{name.replace('.', '/')}.py"
            if not ((ROOT / file).parent / path).exists():
                found |= {name for folder in searched if (folder / path).exists()}
    assert found == set(deep.SCRIPTS)


def searched_folders():
    text = (ROOT / "pyproject.toml").read_text()
    return tomllib.loads(text)["tool"]["pytest"]["ini_options"]["pythonpath"]


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
