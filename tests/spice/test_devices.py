"""Device models: values against SymPy in float64, derivatives against finite differences, counts
beside the published ones.
"""

import numpy as np
import pytest
import sympy as sy
from penstock.machine.errors import ProgramError
from penstock.overlay.graphs import graph_from
from penstock.overlay.graphs.devices import DEVICES, PUBLISHED, device_graph, equations, table
from penstock.overlay.graphs.equations import EXP_LIMIT, Equations, limexp, softplus

POINTS = 1000
LIMITS = {("mos", "qs"): 4e-4}
"""Bound of errors: the rest of three charges that cancel."""


def error(got, want):
    """Largest error relative to the value; what is small against the typical value counts as that
    (fp32 sums of terms that cancel).
    """
    scale = np.abs(want) + 1e-3 * np.median(np.abs(want)) + 1e-6 * np.abs(want).max()
    return float((np.abs(got - want) / np.where(scale == 0, 1, scale)).max())


@pytest.mark.parametrize("name", DEVICES)
def test_values_are_those_of_the_equations(name):
    eq = equations(name)
    graph = device_graph(name)
    x = eq.random_biases(np.random.default_rng(7), POINTS)
    got = graph.results(graph.evaluate(x))
    for output, want in eq.reference(x).items():
        assert np.isfinite(want).all() and np.ptp(want) > 0
        assert error(got[output], want) < LIMITS.get((name, output), 2e-4), output


@pytest.mark.parametrize("name", DEVICES)
def test_derivatives_are_those_of_finite_differences(name):
    eq = equations(name)
    graph = device_graph(name)
    x = eq.random_biases(np.random.default_rng(8), POINTS)
    got = graph.results(graph.evaluate(x))
    wide = {k: v.astype(np.longdouble) for k, v in x.items()}
    h = np.longdouble(1e-4)
    for v in x:
        at = {k: eq.reference(wide | {v: wide[v] + k * h}, np.longdouble) for k in (-2, -1, 1, 2)}
        for output in eq.outputs:
            want = (
                (8 * (at[1][output] - at[-1][output]) - (at[2][output] - at[-2][output])) / (12 * h)
            ).astype(np.float64)
            # A difference across the boundary of two cases is not the slope of either.
            wrong = np.abs(got.get(f"d{output}_d{v}", np.zeros(POINTS)) - want) > 2e-3 * (
                np.abs(want) + 1e-3 * np.median(np.abs(want)) + 1e-6 * np.abs(want).max()
            )
            assert wrong.mean() <= 0.003, (output, v)


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_of_the_published_order(name):
    s = device_graph(name).statistics
    _, nodes, edges, depth = PUBLISHED[name]
    assert (
        nodes / 2 < s.nodes < nodes * 3
        and s.edges < edges * 3.5
        and depth / 2 < s.depth < depth * 2
    )
    assert f"| {name} | {s.nodes} | {s.edges} | {s.depth} |" in table()


def test_physics_that_users_know():
    def at(device, **biases):
        g = device_graph(device)
        return {k: float(v) for k, v in g.results(g.evaluate(biases)).items()}

    assert at("diode", v=0.6)["i"] == pytest.approx(1e-14 * np.expm1(0.6 / 0.02585), rel=1e-4)
    assert at("diode", v=-5.7)["i"] < -1e-3 and abs(at("diode", v=-3)["i"]) < 1e-10
    on = at("jfet", vgs=0.0, vgd=-4.0)
    off = at("jfet", vgs=-2.5, vgd=-6.5)
    assert on["id"] == pytest.approx(1.3e-3 * 4 * 1.08, rel=1e-4) and abs(off["id"]) < 1e-10
    assert at("jfet", vgs=-4.0, vgd=0.0)["id"] == pytest.approx(-on["id"], rel=1e-4)
    assert 50 < at("bjt", vbe=0.65, vbc=-2)["ic"] / at("bjt", vbe=0.65, vbc=-2)["ib"] < 130
    assert (
        at("hbt", vbe=0.75, vbc=-2, rise=60)["ic"] > 5 * at("hbt", vbe=0.75, vbc=-2, rise=0)["ic"]
    )
    assert (
        at("hbt", vbe=0.7, vbc=-6, rise=0)["ib"] < at("hbt", vbe=0.7, vbc=-1, rise=0)["ib"]
    )  # avalanche
    strong, weak, weaker = (at("mos", vgs=v, vds=2.5, vbs=0)["id"] for v in (2.0, 0.2, 0.1))
    assert strong > 1e-4 and 60 < 100 / np.log10(weak / weaker) < 120  # mV a decade
    assert at("mos", vgs=1.5, vds=2.5, vbs=-2)["id"] < at("mos", vgs=1.5, vds=2.5, vbs=0)["id"]


def test_drain_and_source_of_a_mos_are_the_same_thing():
    eq = equations("mos")
    graph = device_graph("mos")
    rng = np.random.default_rng(2)
    vgs = rng.uniform(0, 2, 200)
    vds = rng.uniform(0.01, 0.5, 200)
    vbs = rng.uniform(-3, 0, 200)
    there = graph.results(graph.evaluate({"vgs": vgs, "vds": vds, "vbs": vbs}))
    back = graph.results(graph.evaluate({"vgs": vgs - vds, "vds": -vds, "vbs": vbs - vds}))
    assert np.allclose(back["id"], there["is"], rtol=1e-3, atol=1e-9) and np.allclose(
        back["is"], there["id"], rtol=1e-3, atol=1e-9
    )
    assert {str(v) for v in eq.biases} == {"vgs", "vds", "vbs"}


def test_currents_and_charges_of_a_mos_sum_to_zero():
    eq = equations("mos")
    graph = device_graph("mos")
    got = graph.results(graph.evaluate(eq.random_biases(np.random.default_rng(9), POINTS)))
    for terminals in (("id", "ib", "is"), ("qg", "qb", "qd", "qs")):
        for form in ("{}", *(f"d{{}}_d{v}" for v in eq.biases)):
            parts = np.array([got[form.format(t)] for t in terminals], np.float64)
            assert (np.abs(parts.sum(axis=0)) <= 1e-6 * np.abs(parts).max(axis=0)).all(), form


def test_instances_side_by_side():
    one = graph_from("device:diode")
    four = graph_from("device:diode*4")
    assert four.statistics.edges == 4 * one.statistics.edges and four.depth == one.depth
    v = np.array([0.1, 0.5, 0.6, -1.0], np.float32)
    got = four.results(four.evaluate({f"{k}.v": x for k, x in enumerate(v)}))
    want = one.results(one.evaluate({"v": v}))["i"]
    assert [float(got[f"{k}.i"]) for k in range(4)] == want.tolist()


def test_a_case_not_taken_does_not_spoil_a_derivative():
    eq = Equations("example", "")
    v = eq.bias("v", -1, 1, 0)
    eq.out("y", 2 * sy.Piecewise((sy.log(v), v > 0), (v, True)))
    g = eq.graph()
    out = g.results(g.evaluate({"v": np.array([-0.5, 0.5])}))
    assert out["dy_dv"].tolist() == [2.0, 4.0] and out["y"][0] == -1.0


def test_functions_for_exponentials_at_their_ends():
    eq = Equations("example", "")
    v = eq.bias("v", -1, 1, 0)
    eq.out("soft", softplus(v))
    eq.out("lim", limexp(v))
    g = eq.graph()
    x = np.array([-100, -40, -16, -8, -1, 0, 1, 8, 40, 79, 90, 1e3], np.float32)
    out = g.results(g.evaluate({"v": x}))
    wide = x.astype(float)
    assert np.allclose(out["soft"], np.logaddexp(0, wide), rtol=5e-7, atol=1e-38)
    assert np.allclose(out["dsoft_dv"], 1 / (1 + np.exp(-wide)), rtol=5e-7, atol=1e-38)
    with np.errstate(over="ignore"):
        assert np.allclose(
            out["lim"],
            np.where(
                wide > EXP_LIMIT,
                np.exp(EXP_LIMIT) * (1 + wide - EXP_LIMIT),
                np.exp(np.minimum(wide, EXP_LIMIT)),
            ),
            rtol=5e-7,
        )


@pytest.mark.parametrize(
    "spec, message",
    [
        (
            "device:triode",
            "there is no device 'triode'; did you mean 'diode'. devices are diode, jfet, bjt, "
            "hbt, mos",
        ),
        ("device:diode*x", "number of instances must be a whole number, not 'x'"),
        ("device:diode*0", "number of instances must be at least 1, not 0"),
    ],
)
def test_bad_devices(spec, message):
    with pytest.raises(ProgramError, match=message):
        graph_from(spec)
