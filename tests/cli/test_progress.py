"""Progress: a bar on a terminal, lines elsewhere, and nothing when nothing is asked for."""

import io
import time

import pytest
from penstock import cli
from penstock.runs import api, progress
from rich.console import Console

GRID = {"tile_b": [4, 8], "tile_inter": [8, 16]}


def test_steps_planned_are_steps_done():
    seen = []
    api.sweep("swiglu", "small_fpga", GRID, progress=seen.append)
    assert [line.split()[0] for line in seen] == ["1/4", "2/4", "3/4", "4/4"]
    assert "tile_b=8 tile_inter=16" in seen[-1]


def test_points_that_fail_are_done_too():
    show = progress.Progress()
    api.outcomes("swiglu", "small_fpga", [{"tile_b": 0}, {"tile_b": 4}], progress=show)
    assert (show.finished, show.planned) == (2, 2)


def test_lines_tell_stages_and_not_every_quick_step():
    now = [0.0]
    out = io.StringIO()
    show = progress.Lines(out, clock=lambda: now[0])
    show.plan(5)
    for at, what in ((0.1, "a"), (3.9, "b"), (7.0, "c"), (7.1, "d")):
        now[0] = at
        show.done(what)
    show.stage("build")
    show.done("e")
    assert out.getvalue().splitlines() == [
        "[    7.0 s] 3/5 c",
        "[    7.1 s] build ...",
        "[    7.1 s] 5/5 e",
    ]


def test_a_step_that_takes_long_gets_a_line(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.2)
    out = io.StringIO()
    with progress.Lines(out) as show:
        show.step("quick")
        show.done("quick")
        show.step("slow")
        time.sleep(0.9)
        show.step("cut off")
    time.sleep(0.4)
    lines = [line.split("] ")[1] for line in out.getvalue().splitlines()]
    assert len(lines) > 1 and set(lines) == {"slow ..."}


def test_the_bar_counts_and_goes_away():
    out = io.StringIO()
    with progress.Bar(Console(file=out, force_terminal=True, width=120)) as show:
        api.sweep("swiglu", "small_fpga", GRID, progress=show)
        show.bar.refresh()
    assert "4/4" in out.getvalue() and "tile_inter=16" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "swiglu", "--config", "small_fpga"],
        ["sweep", "swiglu", "--config", "small_fpga", "--set", "tile_b=4,8"],
    ],
)
def test_quiet_is_quiet(capsys, argv):
    assert cli.main([*argv, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
