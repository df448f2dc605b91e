"""Random programs on the model against their NumPy meaning; what was found stays right."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from penstock import cli
from penstock.frontend.analysis.forms import forms_of, forms_of_class
from penstock.frontend.operators.boundary import Sink
from penstock.fuzz import campaign, programs, slices, streams
from penstock.fuzz.campaign import Campaign
from penstock.fuzz.coverage import Coverage, wanted
from penstock.fuzz.draw import SIZED, VARIANTS, Goal, attempt, draw
from penstock.fuzz.drawer import Drawer
from penstock.fuzz.focus import Focus
from penstock.fuzz.recipe import Built, Recipe, build
from penstock.fuzz.replay import replay
from penstock.machine.deadlock import DeadlockError
from penstock.machine.errors import PenstockError

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


def test_programs_of_every_operator_have_the_values_of_numpy():
    s = campaign.Campaign()
    campaign.run_programs(s, 3 * len(VARIANTS), 11)
    assert not s.failures, "\n".join(
        f"{f.origin}: {f.message}\n{json.dumps(f.recipe.to_dict())}" for f in s.failures
    )
    assert s.counts["programs"] >= 3 * len(VARIANTS)
    met = {what for group, what in s.coverage.hits if group == "operator"}
    assert {v.split()[0] for v in VARIANTS} <= {m.split()[0] for m in met} and {
        "Accum retile_row",
        "Map matmul",
        "FlatMap address_range",
        "Scan max",
    } <= met


def test_a_step_that_is_taken_back_leaves_nothing():
    """Whatever a graph keeps by name is as it was."""
    d = Drawer(np.random.default_rng(0), 2, "fp32", 0)
    d.hungry = True

    def kept():
        return {k: list(v) for k, v in vars(d.built.graph).items() if isinstance(v, (dict, list))}

    before = kept()
    saved = d.built.saved()
    assert any(attempt(d, "LinearOffChipStore") for _ in range(50))
    assert kept() != before
    d.built.restore(saved)
    assert kept() == before


def test_a_product_that_is_taken_back_is_not_remembered():
    """The result has run-time size for the next operator of the name."""
    built = Built(2, "fp32", 0)
    shape = ["static", "static"]
    first = {
        "op": "Source",
        "shape": shape,
        "elements": [[[0, 1]]],
        "tile": [4, 1],
        "dtype": "fp32",
    }
    other = {"op": "Source", "shape": shape, "elements": [[[1, 1]]], "dtype": "fp32"}
    fn = ["matmul", {"transposed": False}]
    product = {"op": "Accum", "ins": [[0, 0], [1, 0]], "fn": fn, "args": {"rank": 1}}
    built.add(first)
    saved = built.saved()
    built.add(other | {"tile": [1, 1]})
    built.add(product)
    built.restore(saved)
    built.add(other | {"tile": [1, "dynamic"]})
    with pytest.raises(PenstockError, match="has no valid row"):
        built.add(product)


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_what_was_found_stays_right(path):
    assert replay(path) is None


def test_a_campaign_draws_around_the_operators_that_are_asked_for():
    c = campaign.Campaign(form="deep")
    names = ["LinearOffChipStore", "RandomOffChipLoad"]
    ((config, structures), *_) = campaign.batches(c, 2, 4, only=names, variants=1, edge=2)
    assert config.machine.deep
    kinds = [{u.kind.name for u in case.graph.units} for (case,) in structures]
    assert any("store" in found for found in kinds) and any("load" in found for found in kinds)


def test_what_has_been_met_least_is_drawn_next():
    """The next programs have the form that none had, and count for it only if elements passed."""
    missing = "Streamify: turns by reference, order affine"
    coverage = Coverage()
    coverage.hits.update({key: 1000 for key in wanted() if key != ("form", missing)})
    focus = Focus(coverage, list(VARIANTS))
    for _ in VARIANTS:  # each of these first
        focus.next()
    aim = focus.next()
    assert missing == aim.goals[0].form
    built = build(draw((1,), 2, "fp32", aim.goals), 2, "fp32", evaluate=True)
    assert any(missing in forms_of(n, 2) for n in built.graph.nodes)


def test_every_form_can_be_drawn():
    """Each form of each operator of the paper comes out of a step that is aimed at it."""
    aims = Focus(Coverage(), list(VARIANTS)).around
    forms = [
        key for key in wanted() if key[0] == "form" and not key[1].startswith("Source:")
    ]  # sources come with every step
    assert len(forms) > 100
    for key in forms:
        goal = Goal(tuple(aims[key]), form := key[1])
        for seed in range(2000):
            d = Drawer(np.random.default_rng(seed), 2, "fp32", seed)
            d.hungry = True
            d.sized = any(what in form for what in SIZED)
            if attempt(d, d.one_of(*goal.names), goal):
                break
        else:
            pytest.fail(f"{form} is never drawn")


def test_the_forms_of_drawn_operators_are_the_ones_that_their_classes_have():
    known = {what for group, what in wanted() if group == "form"}
    for seed in range(12):
        for node in build(draw((seed, 9), 4, "bf16"), 4, "bf16").graph.nodes:
            assert set(forms_of(node, 4)) <= known | set(forms_of_class(Sink))
            assert len(forms_of(node, 4)) >= bool(type(node).forms)


def test_more_pages_than_the_rule_counts_are_a_mismatch(monkeypatch):
    config = programs.machine((5, 1, 0))
    m = config.machine
    case = programs.prepare(draw((5, 2), m.t, m.dtype, [Goal(("Bufferize",))]), config)
    run = programs.run_model(case, config)
    programs.check_values(case, config, run)
    pad = next(iter(run.peak_pages))
    monkeypatch.setitem(run.peak_pages, pad, m.pages + 1)
    with pytest.raises(
        programs.MismatchError,
        match=f"{m.pages + 1} pages were in use, at most .* by the on-chip rule `machine`",
    ):
        programs.check_values(case, config, run)


def test_a_failure_is_shrunk_kept_and_replayed(tmp_path, monkeypatch, capsys):
    """A wrong meaning of exp: programs with it fail, and what is kept is one source and one Map."""
    from penstock.model import functions

    right = functions.lookup("exp").reference
    s = campaign.Campaign()
    with monkeypatch.context() as m:
        import penstock.runs.expected as reference

        lookup = reference.lookup

        class Wrong:
            reference = staticmethod(lambda x: right(x) * 2)

        m.setattr(reference, "lookup", lambda name: Wrong if name == "exp" else lookup(name))
        campaign.run_programs(s, 8, 7, keep=tmp_path, only=["Map exp"], variants=2)
        failure = next(
            f for f in s.failures if [x["op"] for x in f.recipe.steps] == ["Source", "Map"]
        )  # the other operator with an exp in it is a feedback loop
        assert cli.main(["fuzz", "--replay", str(failure.path)]) == 1
        assert "the payload of beat 0" in capsys.readouterr().err
    again = Recipe.from_dict(json.loads(failure.path.read_text())["recipe"])
    assert str(build(again, 2, "fp32").graph) == str(build(failure.recipe, 2, "fp32").graph)
    assert cli.main(["fuzz", "--replay", str(failure.path)]) == 0


def test_a_named_depth_that_does_not_free_a_program_is_a_failure(monkeypatch):
    """Runs that never finish, whatever their depths: a planted fault."""

    def stuck(case, config):
        told = SimpleNamespace(uniform=4, cycle=9)
        raise DeadlockError(told, "units wait for each other", None, None)

    monkeypatch.setattr(programs, "run_model", stuck)
    s = campaign.Campaign()
    campaign.run_programs(s, 1, 7, only=["Map exp"])
    assert "channels of 4, which its diagnosis names" in s.failures[0].message


def test_a_file_that_is_no_failure_is_refused(tmp_path, capsys):
    (tmp_path / "x.json").write_text("[]")
    assert cli.main(["fuzz", "--replay", str(tmp_path / "x.json")]) == 1
    assert "is not a kept failure" in capsys.readouterr().err
    assert cli.main(["fuzz", "--replay", str(tmp_path / "y.json")]) == 1
    assert capsys.readouterr().err == f"penstock: no such file: {tmp_path / 'y.json'}\n"


def sides(run, count):
    """Findings of a campaign in this process, and on an executor."""
    found = Campaign(), Campaign()
    run(found[0], count, 1)
    with ThreadPoolExecutor(1) as executor:
        run(found[1], count, 1, executor=executor)
    return found


def test_slices_side_by_side_find_what_they_find_one_by_one(monkeypatch):
    monkeypatch.setattr(slices, "SLICE", 4)
    here, there = sides(slices.run_slices, 8)
    assert here.counts == there.counts and here.counts["programs"] == 8
    assert here.coverage.hits == there.coverage.hits


def test_slices_of_streams_are_the_streams_of_one_piece(monkeypatch):
    monkeypatch.setattr(slices, "STREAM_SLICE", 2)
    here, there = sides(slices.run_stream_slices, 2 * streams.streams_of_a_point() + 1)
    whole = Campaign()
    streams.run_streams(whole, here.counts["streams"], 1, on="model")
    assert here.counts == there.counts == whole.counts
    assert here.coverage.hits == there.coverage.hits == whole.coverage.hits
