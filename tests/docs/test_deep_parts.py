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
    sources = deep.RECORD.sources(part)
    return {name_of(path) for path in sources.files()}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def test_every_part_of_fabrics_depends_on_all_that_they_are_made_of(deep):
    """Units, benches, programs and presets are found by name: no import
    of a test leads to them.
    """
    made_of = {"hw/units/matmul.py", "tb/bench.sv", "tb/native.cpp", "sim_configs/fig8.toml"}
    for kind in ("*.cpp", "*.sv"):
        files = (ROOT / "tb").glob(kind)
        made_of |= set(map(name_of, files))
    for room in deep.ROOMS:
        files = (ROOT / room).rglob("*.py")
        made_of |= set(map(name_of, files))
    presets = ROOT / "sim_configs"
    files = presets.glob("*.toml")
    made_of |= set(map(name_of, files))
    for part in deep.PARTS:
        if part in deep.OF_THE_SOLVER:
            continue
        names = names_of(deep, part)
        assert made_of <= names, part


def test_parts_of_the_solver_depend_on_it(deep):
    made_of = {"scheduler/dag/evaluate.py", "scheduler/dag/solve/tiles.py"}
    for part in deep.OF_THE_SOLVER:
        assert made_of <= names_of(deep, part)
    names = names_of(deep, "dag_solver")
    problems = "tests/data/problems"
    assert f"{problems}/mlsys-2026-1.json" in names
    names = names_of(deep, "dag_limits")
    assert "cli/dag_solver.py" in names


def test_files_beside_tests_count(deep):
    assert "tests/hw/lockstep.cpp" in names_of(deep, "netlists")
    assert "tests/array/slots.toml" in names_of(deep, "array")
    assert "tests/hostile/run.py" in names_of(deep, "bad_input")


TELL = """
import json
from made import deep
found = {}
for part in deep.PARTS:
    sources = deep.RECORD.sources(part)
    found[part] = sources.digest()
print(json.dumps(found))
"""


def test_a_new_process_tells_the_same_sources(deep):
    """Whatever modules this one has loaded."""
    told = subprocess.check_output([sys.executable, "-c", TELL], cwd=ROOT / "bench", text=True)
    digests = json.loads(told)
    assert set(digests) == set(deep.PARTS)
    for part, digest in digests.items():
        sources = deep.RECORD.sources(part)
        assert digest == sources.digest(), part


def test_scripts_that_deep_tests_import_are_known(deep):
    """By a plain name, from another folder than theirs."""
    searched = searched_folders()
    found = set()
    for part in deep.PARTS.values():
        for file in part:
            test = ROOT / file
            beside = {test.parent}
            for name in IMPORT.findall(test.read_text()):
                if is_in(searched - beside, name) and not is_in(beside, name):
                    found.add(name)
    assert found == set(deep.SCRIPTS)


IMPORT = re.compile(r"^ *(?:from|import) ([\w.]+)", re.M)


def is_in(folders, name):
    path = f"{name.replace('.', '/')}.py"
    return any((folder / path).exists() for folder in folders)


def searched_folders():
    """As pytest is told."""
    text = (ROOT / "pyproject.toml").read_text()
    options = tomllib.loads(text)["tool"]["pytest"]["ini_options"]
    return {ROOT / name for name in options["pythonpath"]}


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
