"""``penstock fuzz --time``: the campaign ends in time, with what it has."""

import json
import time

from penstock import cli
from penstock.fuzz import campaign as campaigns
from penstock.fuzz import programs, slices
from penstock.fuzz.draw import draw
from penstock.system import children


def campaign(argv, capsys) -> str:
    """Run a campaign whose time is up while it does something long; what it prints."""
    start = time.monotonic()
    assert cli.main(["fuzz", "--quiet", "--time", "0.5", *argv]) == bool("--keep" in argv)
    assert time.monotonic() - start < 5.5
    out = capsys.readouterr().out
    assert out.endswith("; the time was up\n")
    return out


def test_a_build_that_lasts_is_given_up(monkeypatch, tmp_path, capsys):
    def run_programs(campaign, *_, **__):
        campaign.counts["programs"] = 7
        campaign.structures.update({"a": 0, "b": 2})
        children.run(["sleep", "60"])

    monkeypatch.setattr(slices, "run_programs", run_programs)
    told = campaign(["--json", str(tmp_path / "a.json")], capsys)
    assert "7 programs (2 with empty parts) of 2 structures (1 with empty parts), 0 stre" in told
    counts = json.loads((tmp_path / "a.json").read_text())["counts"]
    assert (counts["programs"], counts["structures"]) == (7, 2)


def test_a_failure_that_is_being_shrunk_is_kept(monkeypatch, tmp_path, capsys):
    config = programs.machine((1,))
    recipe = draw((1,), config.machine.t, config.machine.dtype, ())

    def shrink(recipe, again, *_):
        assert again(recipe)
        time.sleep(60)

    monkeypatch.setattr(campaigns, "shrink", shrink)
    monkeypatch.setattr(campaigns, "fails_on_model", lambda *_: "wrong")
    monkeypatch.setattr(
        slices,
        "run_programs",
        lambda c, *_, keep, **__: campaigns._fail(
            c, "model", "wrong", recipe, config, "here", keep
        ),
    )
    assert "1 failures" in campaign(["--keep", str(tmp_path)], capsys)
    [kept] = tmp_path.iterdir()
    assert json.loads(kept.read_text())["message"] == "wrong"
