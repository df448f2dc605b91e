"""The timing `stepsim` against the same rules in plain Python, which share no code with it."""

import random
from dataclasses import replace

import pytest
from penstock.machine.config import load
from penstock.runs import api
from remodel import Sim
from remodel_graphs import Attention, Experts

CONFIG = load("paper_moe")
SIZES = dict(dim=128, inter=96, experts=16, top_k=3, tile_inter=32)


def routing(tmp_path, seed, tokens):
    """Experts of each token, of which some get none and one gets the last token."""
    import numpy as np

    rng = random.Random(seed)
    chosen = [sorted(rng.sample(range(13), SIZES["top_k"])) for _ in range(tokens)]
    path = tmp_path / "trace.npz"
    np.savez(path, data=np.array(chosen))
    return chosen, str(path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regions", [0, 1, 2, 4])
@pytest.mark.parametrize("tile_rows", [0, 4])
def test_a_mixture_of_experts(tmp_path, seed, regions, tile_rows):
    chosen, trace = routing(tmp_path, seed, 12)
    bw = 512
    (r,) = api.run(
        "published_moe",
        CONFIG,
        SIZES | dict(tokens=12, tile_rows=tile_rows, regions=regions, compute_bw=bw, trace=trace),
        timing="stepsim",
        values=False,
    )
    sim = Sim(CONFIG.stepsim.fifo_depth, bw, CONFIG.stepsim.par_dispatch)
    again = Experts(sim, chosen, 128, 96, 32, 16, tile_rows, regions)
    assert r.cycles == again.run()


@pytest.mark.parametrize("lines", [2, 3])
def test_chunks_of_several_lines(tmp_path, lines):
    """Tiles of many chunks, of which the last is a part, and channels that hold one token."""
    chosen, trace = routing(tmp_path, 3, 12)
    stepsim = replace(CONFIG.stepsim, par_dispatch=lines, fifo_depth=1)
    (r,) = api.run(
        "published_moe",
        replace(CONFIG, stepsim=stepsim),
        SIZES | dict(tokens=12, tile_rows=0, regions=2, compute_bw=512, trace=trace),
        timing="stepsim",
        values=False,
    )
    sim = Sim(1, 512, lines)
    assert r.cycles == Experts(sim, chosen, 128, 96, 32, 16, 0, 2).run()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regions", [2, 4])
def test_interleaved_attention(tmp_path, seed, regions):
    import numpy as np

    rng = random.Random(seed)
    lengths = [rng.randrange(0, 200) for _ in range(12)]
    np.save(tmp_path / "lengths.npy", np.array(lengths))
    config = load("paper_attention")
    (r,) = api.run(
        "published_attention",
        config,
        dict(
            requests=12,
            regions=regions,
            most=8,
            parallel="interleaved",
            trace=str(tmp_path / "lengths.npy"),
        ),
        timing="stepsim",
        values=False,
    )
    sim = Sim(config.stepsim.fifo_depth, config.stepsim.compute_bw, config.stepsim.par_dispatch)
    assert r.cycles == Attention(sim, lengths, regions, 8, 64, 32).run()
