"""Figure 8 as a whole: published cycles exact, the machine's quality against its bounds, model
against a run of the RTL.
"""

import pytest
from penstock import figures
from penstock.figures.published import fig8
from penstock.runs import api, regress


@pytest.fixture(scope="module")
def records():
    return {
        (r.params["tile_b"], r.params["tile_inter"], r.backend, r.timing): r
        for r in figures.fig8_records(False)
    }


POINTS = [(p.tile_b, p.tile_inter) for p in fig8()]
CYCLES = {
    16: [33_095, 29_015, 26_999, 26_039, 25_655],
    32: [20_823, 16_759, 14_775, 13_879, 13_623],
    64: [14_711, 10_679, 8_759, 7_991, 7_991],
}
"""Cycles of the machine, by tile_b, for tile_inter of 16 to 256."""


@pytest.mark.parametrize("p", fig8(), ids=lambda p: f"{p.tile_b}x{p.tile_inter}")
def test_the_stepsim_timing_is_exact(records, p):
    r = records[p.tile_b, p.tile_inter, "model", "stepsim"]
    assert (r.cycles, r.offchip_bytes, r.onchip_bytes) == (
        p.step_cycles,
        p.offchip_bytes,
        p.onchip_bytes,
    )


@pytest.mark.parametrize(("b", "i"), POINTS)
def test_machine_keeps_the_memory_busy(records, b, i):
    r = records[b, i, "model", "machine"]
    assert r.cycles <= 1.02 * r.offchip_bytes / 256 + (b // 16) * (i // 16) * 16 + 150


def test_the_machine_takes_the_cycles_that_it_took(records):
    now = {
        b: [records[b, i, "model", "machine"].cycles for i in (16, 32, 64, 128, 256)]
        for b in CYCLES
    }
    assert now == CYCLES


@pytest.mark.deep
def test_a_point_on_rtl():
    """The fastest, as the figure has it: values, and every beat."""
    machine, rtl = api.run("swiglu", "fig8", {"tile_b": 64, "tile_inter": 256}, on="both")
    assert machine.cycles == rtl.cycles == CYCLES[64][-1]
    assert rtl.values_ok and rtl.max_rel_err <= 1e-5 and rtl.mismatches == 0
    assert rtl.channels_observed == rtl.channels_total > 20


@pytest.mark.parametrize(
    "p", [p for p in fig8() if p.hdl_cycles], ids=lambda p: f"{p.tile_b}x{p.tile_inter}"
)
def test_machine_is_no_slower_than_the_published_hdl(records, p):
    assert records[p.tile_b, p.tile_inter, "model", "machine"].cycles <= p.hdl_cycles


def test_figure_is_drawn(records, tmp_path):
    rows, agreements = figures.fig8(tmp_path, list(records.values()))
    assert (
        len(rows) == 15
        and next(a for a in agreements if a["of"] == "stepsim_cycles")["max_error"] == 0
    )
    assert (tmp_path / "fig8.csv").stat().st_size and (tmp_path / "fig8.png").read_bytes()[
        :4
    ] == b"\x89PNG"


@pytest.mark.parametrize(("config", "bound"), [("fig8", 1e-5), ("paper_hdl_bf16", 2e-2)])
def test_values_are_bit_equal_and_close_to_float64(config, bound):
    r = api.run("swiglu", config, {"tile_b": 32, "tile_inter": 64})[0]
    assert r.values_ok and r.max_rel_err <= bound


QUICK = "swiglu small_fpga"
"""Design whose simulator takes seconds to build; the others take minutes."""


@pytest.mark.parametrize(
    "design",
    [pytest.param(d, marks=() if d.name == QUICK else pytest.mark.deep) for d in regress.DESIGNS],
    ids=lambda d: d.name,
)
def test_rtl_equals_model(design):
    records, rows = regress.run(designs=(design,), deep=True)
    assert [r["failed"] for r in rows if "failed" in r] == []
    bound = 2e-2 if "bf16" in design.config or design.config == "small_fpga" else 1e-5
    assert all(r.values_ok and r.max_rel_err <= bound for r in records)
