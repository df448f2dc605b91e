"""Keys of what is kept: they follow what shapes it, and nothing else."""

import importlib.util
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from penstock.hw.export.module_key import module_key
from penstock.machine import config as configs
from penstock.system.sources import digest_of, sources_of
from penstock.tb import toolchain
from penstock.tb.design import Modules, _sources


@pytest.fixture
def unit(tmp_path):
    """A user's module, that imports one beside it, which imports a third within a function."""
    (tmp_path / "my_unit.py").write_text(
        "import numpy\nimport my_helper\nfrom amaranth.hdl import Module\n\nclass Unit:\n    pass\n"
    )
    (tmp_path / "my_helper.py").write_text(
        "def f():\n    from my_table import (\n        A,\n        B)\n"
    )
    (tmp_path / "my_table.py").write_text("A = B = 1\n")
    (tmp_path / "other.py").write_text("")
    return tmp_path


def test_helper_modules_of_a_users_unit_count(unit):
    assert [p.name for p in sources_of([unit / "my_unit.py"])] == [
        "my_helper.py",
        "my_table.py",
        "my_unit.py",
    ]


def test_a_class_that_is_registered_brings_its_file(unit, monkeypatch):
    from penstock.hw.registry import UNITS

    (unit / "my_helper.py").write_text("")
    spec = importlib.util.spec_from_file_location("my_unit", unit / "my_unit.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_unit", module)
    monkeypatch.syspath_prepend(str(unit))
    spec.loader.exec_module(module)
    monkeypatch.setitem(UNITS, "mine", module.Unit)
    graph = SimpleNamespace(units=[SimpleNamespace(kind=SimpleNamespace(name="mine"))])
    before = digest_of(_sources(graph))
    (unit / "other.py").write_text("x = 1\n")
    assert digest_of(_sources(graph)) == before
    (unit / "my_helper.py").write_text("x = 1\n")
    assert digest_of(_sources(graph)) != before


def test_modules_that_run_tools_shape_no_verilog():
    names = {path.name for path in _sources(SimpleNamespace(units=[]))}
    assert {"kind.py", "compute.py", "beat.py", "place.py", "matmul.py"} <= names
    assert not {"children.py", "guardian.py", "cache.py", "record.py"} & names


def test_hardware_does_not_know_the_timing_of_the_memory():
    machine = configs.load("fig8").machine
    slow = replace(
        machine,
        dram=replace(
            machine.dram, start_up=machine.dram.start_up + 1, latency=machine.dram.latency + 1
        ),
    )
    wide = replace(machine, dram=replace(machine.dram, channels=2 * machine.dram.channels))
    assert configs.shaping(slow) == configs.shaping(machine) != configs.shaping(wide)


@pytest.mark.parametrize("name", ["CXXFLAGS", "OPT_FAST", "OBJCACHE"])
def test_variables_that_make_reads_are_part_of_a_key(name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    before = toolchain.make_inputs()
    monkeypatch.setenv(name, "-O0")
    assert toolchain.make_inputs() != before


def test_a_module_that_is_cut_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    store = Modules("sources")
    modules = {"penstock_map": (module_key("map", {"lanes": 16}), "text")}
    store["penstock_map"] = modules
    assert store["penstock_map"] == modules
    (path,) = (tmp_path / "modules" / "sources").iterdir()
    path.write_text(path.read_text()[:-3])
    assert store.get("penstock_map") is None
