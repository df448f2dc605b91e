"""Units of very many instances, which are Verilated apart."""

from penstock.runs.api import run
from penstock.tb import api, exported, parts
from penstock.tb.cut import instances_of, within

SIZES = {"batch": 2, "dim": 2, "inter": 2, "tile_b": 2, "tile_inter": 2}

MODULES = {
    "penstock_top": "  penstock_unit a (\n  penstock_unit b (\n  penstock_fifo c (\n",
    "penstock_unit": "  penstock_lane u0 (\n  penstock_lane u1 (\n  assign x = y;\n",
    "penstock_lane": "  assign z = x;\n",
    "penstock_fifo": "  penstock_probe p (\n",
}


def test_instances_are_counted_through_all_modules():
    assert instances_of(MODULES, "penstock_unit") == ["penstock_lane"] * 2
    found = within(MODULES, "penstock_top")
    assert found == {"penstock_top": 8, "penstock_unit": 3, "penstock_lane": 1, "penstock_fifo": 1}


def test_a_fabric_with_parts_has_the_cycles_of_the_model(monkeypatch):
    built = []
    launch = parts.launch

    def seen(build, job, **options):
        built.append(build)
        return launch(build, job, **options)

    monkeypatch.setattr(exported, "APART_INSTANCES", 8)
    monkeypatch.setattr(api.parts, "launch", seen)
    of_model, of_rtl = run("swiglu", "lean_fpga", SIZES, on="both")
    assert of_rtl.cycles == of_model.cycles
    assert of_rtl.mismatches == 0
    (build,) = built
    assert any(m.startswith("penstock_matmul") for m in build.libraries)
