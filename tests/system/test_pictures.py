"""What pictures say is said in their own words."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from penstock import figures
from penstock.figures.fig8 import agreement_text
from penstock.figures.tiling import PRESENT

STORED = Path(__file__).parents[2] / "docs" / "results" / "figures.json"


def test_figure_9_says_its_scale_and_labels_every_point():
    (case,) = (c for c in json.loads(STORED.read_text())["cases"] if c["case"] == "fig9")
    rows = case["rows"]
    fig = plt.figure()
    figures.FIGURES["fig9"].plot(fig, rows)
    for ax, model in zip(fig.axes[:2], ("mixtral", "qwen"), strict=True):
        assert ax.get_xscale() == "log" and "logarithmic" in ax.get_xlabel()
        shown = {PRESENT.removeprefix("dynamic, "): PRESENT}
        told = [shown.get(text.get_text(), text.get_text()) for text in ax.texts]
        tiles = [str(r["tile"]) for r in rows if r["model"] == model]
        assert "dynamic" in tiles and sorted(told) == sorted(tiles)
    plt.close(fig)


def test_figure_8_compares_in_the_words_of_its_legend():
    compared = {
        "of": "model_cycles",
        "against": "hdl_cycles",
        "points": 5,
        "pearson": 0.96,
        "max_error": 0.1,
    }
    assert (
        agreement_text(compared)
        == "Penstock model against HDL (published): r = 0.9600, largest error 10.0% (5 points)"
    )
