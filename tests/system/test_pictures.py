"""Captions of pictures say in words what the pictures show."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from penstock import figures
from penstock.figures.fig8 import agreement_text
from penstock.figures.tiling import PRESENT


def test_figure_9_says_its_scale_and_labels_every_point():
    tiles = {"mixtral": [8, 16, "dynamic", PRESENT], "qwen": [8, 64, "dynamic"]}
    columns = ("cycles", "onchip_bytes", "onchip_active_bytes", "offchip_bytes")
    rows = [
        {"model": model, "tile": tile} | dict.fromkeys(columns, 1e6 * (i + 1))
        for model, own in tiles.items()
        for i, tile in enumerate(own)
    ]
    fig = plt.figure()
    figures.FIGURES["fig9"].plot(fig, rows)
    for ax, own in zip(fig.axes[:2], tiles.values(), strict=True):
        assert ax.get_xscale() == "log" and "logarithmic" in ax.get_xlabel()
        names = [str(tile).removeprefix("dynamic, ") for tile in own]
        assert [text.get_text() for text in ax.texts] == names
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
