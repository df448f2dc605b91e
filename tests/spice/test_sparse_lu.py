"""Sparse LU as dataflow graphs: published counts, values against SciPy, generated circuits, bad
matrices.
"""

import gzip
from functools import cache

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from inputs import matrix
from penstock.machine.errors import PenstockError, ProgramError
from penstock.overlay.graphs import (
    circuit_matrix,
    entry_values,
    factorise,
    front_solve,
    graph_from,
    read_factors,
    read_matrix,
    whole_lu,
)
from penstock.overlay.graphs.lu import SHAPES
from penstock.overlay.graphs.ordering import order
from scipy.sparse.linalg import splu

CIRCUITS = [("ladder", 40), ("ring", 31), ("gates", 40)]


@cache
def factors(name):
    return factorise(read_matrix(matrix(name)))


def counts(graph):
    s = graph.statistics
    return s.nodes, s.edges, s.depth, s.max_fan_out


# Counts of a KLU factorisation (BTF, AMD, scaling by row maxima, tolerance 1e-3, explicit zeros
# kept), found independently.
@pytest.mark.parametrize(
    "name, want",
    [
        ("mna_s27.mtx", (915, 1430, 45, 4)),
        ("mna_s344.mtx", (12714, 21258, 198, 8)),
        ("fpga_dcop_01.mtx", (8932, 10984, 57, 2)),
        pytest.param("mna_c880.mtx", (20009, 32484, 168, 10), marks=pytest.mark.data),
        pytest.param("add20.mtx", (148091, 261544, 252, 35), marks=pytest.mark.data),
        pytest.param("circuit_1.mtx", (683235, 1315750, 393, 85), marks=pytest.mark.data),
    ],
)
def test_whole_factorisations_have_klus_counts(name, want):
    graph = whole_lu(factors(name))
    assert counts(graph) == want
    assert graph.statistics.edges == 2 * sum(graph.statistics.ops.values())


@pytest.mark.data
@pytest.mark.parametrize(
    "name, column, depth, shape, want",
    [
        ("memplus.mtx.gz", 17671, 3, "balanced", (20620, 30804, 130, 133)),
        ("memplus.mtx.gz", 17670, 3, "balanced", (20082, 29858, 130, 134)),
        ("memplus.mtx.gz", 17655, 1, "chains", (8042, 10544, 72, 88)),
        ("memplus.mtx.gz", 993, 2, "chains", (91, 112, 16, 5)),
        ("circuit_1.mtx", 2564, 2, "arrival", (20729, 30710, 116, 117)),
        ("circuit_1.mtx", 2522, 3, "balanced", (8139, 11918, 66, 170)),
        ("add20.mtx", 2007, 2, "arrival", (94, 106, 8, 4)),
    ],
)
def test_front_solves_have_klus_counts(name, column, depth, shape, want):
    assert counts(front_solve(factors(name), column, depth, shape)) == want


def check_factors(f, graph):
    """L U = P A Q in fp64, and the same solution as SciPy's own factorisation."""
    n = len(f.pivot)
    lower, upper = read_factors(graph.results(graph.evaluate(fmt="fp64")), f)
    permuted = f.a[f.rows][:, f.cols].tocsc()
    block = np.repeat(np.arange(len(f.starts) - 1), np.diff(f.starts))
    entries = permuted.tocoo()
    above, inside = (
        sp.csc_array((entries.data[k], (entries.row[k], entries.col[k])), shape=(n, n))
        for k in (
            block[entries.row] != block[entries.col],
            block[entries.row] == block[entries.col],
        )
    )
    product = lower @ upper
    assert abs(product - inside).max() <= 1e-13 * abs(lower).max() * abs(upper).max()
    # entries above the diagonal blocks join in the solution
    b = np.random.default_rng(1).standard_normal(n)
    mine = np.empty(n)
    mine[f.cols] = splu(sp.csc_array(product + above), permc_spec="NATURAL").solve(b[f.rows])
    want = splu(f.a).solve(b)
    assert np.abs(mine - want).max() <= 1e-6 * np.abs(want).max()


@pytest.mark.parametrize("kind, n", CIRCUITS)
@pytest.mark.parametrize("method", ["amd", "mmd", "natural"])
def test_generated_circuits_factorise_as_scipy_does(kind, n, method):
    f = factorise(circuit_matrix(kind, n, 5), method)
    check_factors(f, whole_lu(f))


@pytest.mark.parametrize(
    "name", ["mna_s27.mtx", "mna_s344.mtx", pytest.param("mna_c880.mtx", marks=pytest.mark.data)]
)
def test_circuits_factorise_as_scipy_does(name):
    check_factors(factors(name), whole_lu(factors(name)))


def test_fp32_is_as_good_as_fp32_gets():
    f = factorise(circuit_matrix("gates", 60, 2))
    graph = whole_lu(f)
    lower, upper = read_factors(graph.results(graph.evaluate()), f)
    want_lower, want_upper = f.matrices()
    assert (
        0 < abs(lower - want_lower).max() < 1e-5
        and abs(upper - want_upper).max() < 1e-5 * abs(want_upper).max()
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_a_front_solve_gives_a_column_of_the_factors(shape, depth):
    f = factorise(circuit_matrix("gates", 40, 9))
    lower, upper = f.matrices()
    k = int(np.argmax([len(u) for u in f.upper]))
    graph = front_solve(f, k, depth, shape)
    full = (lower - sp.eye_array(len(f.pivot))) * f.pivot  # L before division
    got = entry_values(graph.results(graph.evaluate(fmt="fp64")))
    assert got
    for name, v in got.items():
        i = int(name[2:-1])
        assert v == pytest.approx(
            upper[i, k] if i <= k else full[i, k], rel=1e-9, abs=1e-12 * abs(upper).max()
        )


def test_substitution_trades_operations_for_depth():
    f = factorise(circuit_matrix("gates", 60, 2))
    k = int(np.argmax([len(u) for u in f.upper]))
    chain, tree, deep = (
        front_solve(f, k, d, s).statistics
        for d, s in ((1, "chains"), (1, "arrival"), (3, "arrival"))
    )
    assert chain.nodes == tree.nodes < deep.nodes and chain.depth >= tree.depth > deep.depth


@pytest.mark.parametrize("kind, n", CIRCUITS)
def test_generated_circuits_repeat_and_are_dominant(kind, n):
    a = circuit_matrix(kind, n, 1)
    again = circuit_matrix(kind, n, 1)
    other = circuit_matrix(kind, n, 2)
    assert np.array_equal(a.toarray(), again.toarray()) and not np.array_equal(
        a.toarray(), other.toarray()
    )
    off = abs(a).sum(axis=1) - abs(a.diagonal())
    assert (a.diagonal() > off).all()


def test_the_order_is_block_triangular_with_a_full_diagonal():
    rng = np.random.default_rng(3)
    for n in (1, 2, 17, 60):
        a = sp.csc_array(
            sp.random_array((n, n), density=min(1, 2 / n), rng=rng)
            + sp.eye_array(n, format="csr")[rng.permutation(n)]
        )
        o = order(a)
        permuted = a[o.rows][:, o.cols].tocoo()
        block = np.repeat(np.arange(len(o.starts) - 1), np.diff(o.starts))
        assert (block[permuted.row] <= block[permuted.col]).all()
        assert np.count_nonzero(permuted.row == permuted.col) == n
        assert sorted(o.rows) == sorted(o.cols) == list(range(n))


def test_the_diagonal_is_left_when_it_is_too_small():
    a = sp.csc_array(np.array([[1e-9, 1.0, 0], [1.0, 1.0, 1.0], [0, 1.0, 2.0]]))
    f = factorise(a, "natural")
    assert f.rows.tolist() != f.cols.tolist()
    check_factors(f, whole_lu(f))


def write(path, a):
    scipy.io.mmwrite(path, sp.coo_array(a))
    return path


@pytest.mark.parametrize(
    "a, message",
    [
        (np.ones((3, 4)), r"is 3 x 4 \(rule: a matrix to be factorised is square"),
        (np.array([[1, np.nan], [1, 1]]), r"entry \(0, 1\) is nan"),
        (np.array([[1, np.inf], [1, 1]]), r"entry \(0, 1\) is inf"),
        (np.array([[1, 1], [1, 1.0]]), r"is singular: no pivot in column 1"),
        (np.array([[1, 1, 0], [1, 1, 0], [1, 1, 0]]), "is structurally singular: column"),
        (np.array([[1j, 1], [1, 2]]), "is complex"),
        (
            np.array([[1, 1], [0, 2.0]]),
            "is triangular after permutation: there is nothing to factorise",
        ),
    ],
)
def test_a_bad_matrix_is_one_message(tmp_path, a, message):
    file = write(tmp_path / "a.mtx", a)
    with pytest.raises(ProgramError, match=message) as e:
        graph_from(f"lu:{file}")
    assert str(file) in str(e.value) and "\n" not in str(e.value)


def test_files_that_are_no_matrices(tmp_path):
    for name, content in (
        ("a.mtx", b"hello"),
        ("b.mtx.gz", b"hello"),
        ("c.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 5\n1 1 1.0\n"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ProgramError, match="cannot be read as Matrix Market"):
            graph_from(f"lu:{tmp_path / name}")
    with pytest.raises(ProgramError, match="no such file"):
        graph_from("lu:nowhere.mtx")


@pytest.mark.parametrize(
    "kind, entries, message",
    [
        ("integer general", "1 1 4.5|2 2 5", "line 3 is '1 1 4.5'"),
        ("real general", "1 1 4|2 2 4,5", "line 4 is '2 2 4,5'"),
        ("real general", "1 1 4 extra|2 2 5", "line 3 is '1 1 4 extra'"),
        ("real general", "1 1 1d5|2 2 5", "line 3 is '1 1 1d5'"),
        ("real general", "1 1 1e-400|2 2 5", "line 3 .* is not 0 in float64"),
        ("pattern general", "1 1|2 2 5", "line 4 is '2 2 5'"),
        ("real symmetric", "|2 1 3|1 2 3", "line 5 is '1 2 3' .* is one triangle"),
        ("real skew-symmetric", "2 1 3|1 2 -3", "line 4 is '1 2 -3' .* is one triangle"),
        ("real skew-symmetric", "2 1 3|1 1 7", "line 4 is '1 1 7' .* has no diagonal"),
    ],
)
def test_an_entry_that_would_be_another_number_is_refused(tmp_path, kind, entries, message):
    file = tmp_path / "a.mtx"
    file.write_text(f"%%MatrixMarket matrix coordinate {kind}\n2 2 2\n{entries}".replace("|", "\n"))
    with pytest.raises(ProgramError, match=message):
        read_matrix(file)


@pytest.mark.parametrize("kind", ["integer symmetric", "real skew-symmetric", "pattern symmetric"])
@pytest.mark.parametrize("upper", [False, True])
def test_a_triangle_stands_for_both(tmp_path, kind, upper):
    lines = ["1 3", "2 3"] if upper else ["3 1", "3 2"]
    values = ["", ""] if "pattern" in kind else [" 7", " -8"]
    text = "\n\n".join(map("".join, zip(lines, values, strict=True)))
    file = tmp_path / "a.mtx"
    file.write_text(f"%%MatrixMarket matrix coordinate {kind}\n% comment\n3 3 2\n{text}\n")
    assert np.array_equal(read_matrix(file).toarray(), scipy.io.mmread(file).toarray())


def test_the_contents_of_a_compressed_matrix_are_bounded(tmp_path, monkeypatch):
    file = tmp_path / "a.mtx.gz"
    text = b"%%MatrixMarket matrix coordinate real general\n" + b"%\n" * 100_000 + b"1 1 1\n1 1 5\n"
    file.write_bytes(gzip.compress(text))
    with pytest.raises(PenstockError, match=r"more than [\d,]+ bytes .* --max-memory"):
        read_matrix(file)
    monkeypatch.setenv("PENSTOCK_MAX_MEMORY", "1000000")
    assert read_matrix(file).toarray() == 5


def test_a_gzipped_file_is_the_same_matrix(tmp_path):
    file = write(tmp_path / "a.mtx", circuit_matrix("ring", 9).toarray())
    (tmp_path / "b.mtx.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert (
        graph_from(f"lu:{file}").text().splitlines()[1:]
        == graph_from(f"lu:{tmp_path / 'b.mtx.gz'}").text().splitlines()[1:]
    )


@pytest.mark.parametrize(
    "spec, message",
    {
        "column:{}:99": "there is no column 99 .rule: columns are 0 to 17",
        "column:{}": "names no column",
        "column:{}:x": "the column must be a whole number, not 'x'",
        "column:{}:17:d=0": "substitution depth must be at least 1",
        "column:{}:17:chain": "unknown option 'chain'; did you mean 'chains'. options are "
        "d=DEPTH, balanced, arrival, chains",
        "column:{}:17:chains,balanced": "has two shapes",
        "column:{}:0": "column 0 needs no operation",
        "lu:{}:order=rcm": "unknown ordering 'rcm'",
        "gen:wheel:9": "unknown kind of circuit 'wheel'; use ladder, ring, gates",
        "gen:ring": "write gen:KIND:N or gen:KIND:N:SEED",
        "gen:ring:2": "needs from 3 to 10000 elements, not 2",
        "gen:ring:9:x": "the seed must be a whole number",
        "nothing": "cannot read graph 'nothing'; use device:NAME",
        "nothing.dfg": "no such file",
    }.items(),
)
def test_a_bad_specification_is_one_message(tmp_path, spec, message):
    file = write(tmp_path / "a.mtx", circuit_matrix("ring", 9).toarray())
    with pytest.raises(ProgramError, match=message):
        graph_from(spec.format(file))
