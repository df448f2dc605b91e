"""Graphs at the edges: no operation, exact factors; and matrices and lengths that are not what they
say.
"""

import gzip
import json

import numpy as np
import pytest
from penstock import cli
from penstock.machine.errors import PenstockError
from penstock.overlay.graphs.source import graph_from
from penstock.overlay.runs.comparison import compare, variants
from penstock.workloads.published_attention import lengths

HEAD = "%%MatrixMarket matrix coordinate real general\n"
ONE_OF_EACH = {"local": ["token"]}


def test_a_graph_without_operations_takes_no_cycle(tmp_path):
    (tmp_path / "g.dfg").write_text("x = input 1.5\noutput y = x\n")
    records = compare(graph_from(str(tmp_path / "g.dfg")), [(2, 2)], variants(ONE_OF_EACH))
    assert [(r.cycles, r.values_ok) for r in records] == [(0, True)] * 3


def test_a_factorisation_without_rounding(tmp_path, capsys):
    (tmp_path / "m.mtx").write_text(HEAD + "2 2 4\n1 1 2\n1 2 1\n2 1 1\n2 2 2\n")
    argv = [
        "overlay",
        "compare",
        f"lu:{tmp_path / 'm.mtx'}",
        "--mesh",
        "1x1",
        "--pe",
        "static",
        "--quiet",
    ]
    assert cli.main([*argv, "--json", str(tmp_path / "r.json")]) == 0
    assert {
        r["overlay"]["scipy"]["residual"] for r in json.loads((tmp_path / "r.json").read_text())
    } == {0.0}
    capsys.readouterr()
    assert cli.main(["explain", str(tmp_path / "r.json")]) == 0
    assert "bounds:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 2 2000000000\n1 1 1\n", "has 2000000000 entries .rule: at most 20000000"),
        ("2000000000 2000000000 1\n1 1 1\n", "has 2000000000 rows"),
        ("2 2 4\n1 1 1\n", "cannot be read as Matrix Market"),
    ],
)
def test_matrices_that_say_too_much(tmp_path, text, message):
    (tmp_path / "m.mtx").write_text(HEAD + text)
    with pytest.raises(PenstockError, match=message):
        graph_from(f"lu:{tmp_path / 'm.mtx'}")


def test_a_compressed_matrix_that_is_cut(tmp_path):
    whole = gzip.compress((HEAD + "2 2 2\n1 1 1\n2 2 1\n").encode())
    (tmp_path / "m.mtx.gz").write_bytes(whole[:-12])
    with pytest.raises(PenstockError, match="cannot be read as Matrix Market"):
        graph_from(f"lu:{tmp_path / 'm.mtx.gz'}")


def test_lengths_of_few_bits_do_not_overflow(tmp_path):
    np.save(tmp_path / "a.npy", np.full(4, 250, np.uint8))
    rows = lengths(0, 4, 32, 202, 1.0, str(tmp_path / "a.npy"))
    assert (rows + 32).tolist() == [282] * 4
    np.save(tmp_path / "b.npy", np.full(4, 2.5))
    with pytest.raises(PenstockError, match="holds no integers"):
        lengths(0, 4, 32, 202, 1.0, str(tmp_path / "b.npy"))
