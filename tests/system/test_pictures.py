"""Captions of pictures say in words what the pictures show."""

import matplotlib

matplotlib.use("Agg")
from penstock.figures.fig8 import agreement_text


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
