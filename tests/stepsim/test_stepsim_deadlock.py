"""The deadlock of the published mixture of experts: found, explained, and freed at the depths
named.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from penstock import cli
from penstock.frontend import build, lower
from penstock.machine.config import load
from penstock.machine.deadlock import DeadlockError
from penstock.model import stepsim
from penstock.runs import boundary, deadlock

MOE = load("paper_moe")
SMALL = dict(tokens=128, dim=32, inter=128, experts=8, top_k=2, skew=2.0)
TRACE = Path(__file__).parents[2] / "samples/files/traces/routing/qwen_b1024.npz"


def lowered(params):
    program = build("published_moe", params, MOE)
    graph = lower(program.graph, MOE, timing="stepsim")
    return graph, boundary.source_tokens(program.graph, graph, program.streams(0))


def finishes(graph, sources, depth, only=""):
    """True if a run finishes with this depth of all channels, or of those alone that join the units
    of ``only``.
    """
    config = replace(MOE, stepsim=replace(MOE.stepsim, fifo_depth=2 if only else depth))
    if only:
        graph = replace(
            graph,
            channels=tuple(
                replace(c, depth=depth)
                if only == "".join(x for x in c.name if not x.isdigit())
                else c
                for c in graph.channels
            ),
        )
    try:
        stepsim.run(graph, config, sources=sources, search=False)
    except DeadlockError:
        return False
    return True


@pytest.fixture(scope="module")
def small():
    (found,) = deadlock.find("published_moe", MOE, [SMALL | dict(tile_rows=4)], timing="stepsim")
    return found


def test_the_circle_runs_from_the_partition_to_a_token_that_it_holds_back(small):
    circle = small.deadlock.circle
    assert [a.on for a in circle] == [*(b.unit for b in circle[1:]), circle[0].unit]
    kinds = [s.kind for s in circle]
    assert kinds[0] == "partition" and "reassemble" in kinds
    join = kinds.index("reassemble")
    assert all(s.why == "room" and s.held == s.depth == 2 for s in circle[:join])
    assert all(s.why == "beat" and s.held == 0 for s in circle[join:])


def test_the_depths_named_free_it_and_one_less_does_not(small):
    graph, sources = lowered(SMALL | dict(tile_rows=4))
    depth = small.deadlock.uniform
    assert finishes(graph, sources, depth) and not finishes(graph, sources, depth - 1)
    assert small.deadlock.reliefs and all(
        r.count == SMALL["experts"] for r in small.deadlock.reliefs
    )
    for r in small.deadlock.reliefs:
        name = "".join(x for x in r.channel if not x.isdigit())
        assert finishes(graph, sources, r.depth, name) and not finishes(
            graph, sources, r.depth - 1, name
        )


def test_tiles_that_hold_an_expert_s_rows_do_not_block(capsys, tmp_path):
    args = [x for k, v in SMALL.items() for x in ("--set", f"{k}={v}")]
    out = tmp_path / "found.json"
    assert (
        cli.main(
            [
                *"deadlock published_moe --config paper_moe --timing stepsim".split(),
                *args,
                "--set",
                "tile_rows=4,128",
                "--json",
                str(out),
                "--quiet",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "deadlock after cycle" in shown and "finishes" in shown and "gather" in shown
    blocked, free = deadlock.load(out)
    assert blocked.deadlock and blocked.cycles is None and free.deadlock is None and free.cycles > 0


@pytest.mark.deep
def test_the_qwen_layer_at_batch_1024_and_depth_2():
    """The published finding: tiles of 16, 32 and 64 rows deadlock, those of 128 to 1024 and dynamic
    ones do not.
    """
    size = dict(tokens=1024, trace=str(TRACE))
    found = deadlock.find(
        "published_moe",
        MOE,
        [size | dict(tile_rows=n) for n in (128, 256, 512, 1024, 0)],
        timing="stepsim",
    )
    assert [f.deadlock for f in found] == [None] * 5
    for f in deadlock.find(
        "published_moe", MOE, [size | dict(tile_rows=n) for n in (16, 32, 64)], timing="stepsim"
    ):
        assert {"partition", "reassemble"} <= {s.kind for s in f.deadlock.circle}
        graph, sources = lowered(f.params)
        assert finishes(graph, sources, f.deadlock.uniform) and not finishes(
            graph, sources, f.deadlock.uniform - 1
        )
