"""The program of docs/programs.md at drawn sizes: all that fit run with the depths that lowering
gives.
"""

import random
from dataclasses import replace
from pathlib import Path

import penstock
import pytest
from penstock.frontend import build, lower
from penstock.machine.config import load
from penstock.machine.errors import LoweringError

TOP2 = Path(__file__).parents[2] / "samples/files/top2.py"
SMALL = load("small_fpga")
DRAWS = 500


def machine(t, depth):
    return replace(
        SMALL, machine=replace(SMALL.machine, t=t, rows_per_cycle=t, channel_depth=depth, lanes={})
    )


def drawn():
    """(seed, machine, parameters) of each draw."""
    rng = random.Random(13)
    for seed in range(DRAWS):
        t = rng.choice((2, 4, 8))
        depth = rng.randint(1, 4)
        size = {"dim": rng.randint(4, 64), "out": rng.randint(4, 64)}
        yield seed, machine(t, depth), size


def weights(size, t):
    """Physical tiles of an expert's weights."""
    return -(-size["dim"] // t) * -(-size["out"] // t)


def fits(config, size):
    m = config.machine
    return weights(size, m.t) <= m.pages * m.frames


@pytest.mark.deep
def test_every_size_whose_weights_fit_has_the_values_of_numpy():
    """The others are refused, as no depth would free them."""
    refused = 0
    for seed, config, size in drawn():
        if fits(config, size):
            (record,) = penstock.run(str(TOP2), config, size, seed=seed)
            assert record.values_ok, (seed, config.machine.t, size)
            continue
        what = f"takes {weights(size, config.machine.t)} tiles .*a scratchpad holds"
        with pytest.raises(LoweringError, match=what):
            lower(build(str(TOP2), size, config).graph, config)
        refused += 1
    assert 0 < refused < DRAWS // 4
