"""Random programs on the model against their NumPy meaning; what has been found once stays right."""

import json
from pathlib import Path

import pytest

from penstock import cli
from penstock.fuzz import campaign
from penstock.fuzz.draw import VARIANTS, draw
from penstock.fuzz.recipe import Recipe, build

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


def test_programs_of_every_operator_have_the_values_of_numpy():
    s = campaign.Campaign()
    campaign.run_programs(s, 5 * len(VARIANTS), 11)
    assert not s.failures, "\n".join(f"{f.origin}: {f.message}\n{json.dumps(f.recipe.to_dict())}" for f in s.failures)
    assert s.counts["programs"] >= 5 * len(VARIANTS)
    met = {what for group, what in s.coverage.hits if group == "operator"}
    assert {v.split()[0] for v in VARIANTS} <= {m.split()[0] for m in met} and {"Accum retile_row", "Map matmul", "FlatMap address_range", "Scan max"} <= met


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_what_was_found_stays_right(path):
    assert campaign.replay(path) is None


def test_a_seed_draws_the_same_program():
    assert draw((3, 4), 2, "fp32", "Partition").key() == draw((3, 4), 2, "fp32", "Partition").key()


def test_a_failure_is_shrunk_kept_and_replayed(tmp_path, monkeypatch, capsys):
    """A wrong meaning of exp: programs with it fail, and what is kept is one source and one Map."""
    from penstock.model import functions

    right = functions.lookup("exp").reference
    s = campaign.Campaign()
    with monkeypatch.context() as m:
        import penstock.reference as reference

        lookup = reference.lookup

        class Wrong:
            reference = staticmethod(lambda x: right(x) * 2)

        m.setattr(reference, "lookup", lambda name: Wrong if name == "exp" else lookup(name))
        campaign.run_programs(s, 8, 7, keep=tmp_path, only=["Map exp"])
        assert all(len(f.recipe.steps) == 2 for f in s.failures)
        failure = next(f for f in s.failures if f.recipe.steps[1]["op"] == "Map")  # the other operator with an exp in it is a feedback loop
        assert cli.main(["fuzz", "--replay", str(failure.path)]) == 1
        assert "took other elements" in capsys.readouterr().err
    assert failure.recipe.steps[0]["op"] == "Source"
    again = Recipe.from_dict(json.loads(failure.path.read_text())["recipe"])
    assert str(build(again, 2, "fp32").graph) == str(build(failure.recipe, 2, "fp32").graph)
    assert cli.main(["fuzz", "--replay", str(failure.path)]) == 0


def test_a_file_that_is_no_failure_is_refused(tmp_path, capsys):
    (tmp_path / "x.json").write_text("[]")
    assert cli.main(["fuzz", "--replay", str(tmp_path / "x.json")]) == 1
    assert "is not a kept failure" in capsys.readouterr().err
