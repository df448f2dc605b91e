"""Operating points of SPICE netlists: found on every kind of PE, near those of another Newton
method in float64; what cannot be read or solved has one message.
"""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from penstock import cli, samples
from penstock.machine.errors import ProgramError, RunError
from penstock.overlay import variants
from penstock.overlay.graphs.circuit import newton_graph, read_netlist
from penstock.overlay.runs import operating_point as host
from penstock.testing.circuit_reference import error, refined

SHIPPED = Path(samples.__file__).parent / "files" / "circuits"
OTHERS = Path(__file__).parents[1] / "data" / "circuits"
CIRCUITS = {file.stem: file for folder in (SHIPPED, OTHERS) for file in folder.glob("*.cir")}
SMALL = ("clipper", "amplifier", "inverter")

CONTROL = """
.options gmin=1e-12 temp=27 tnom=27 reltol=1e-7 vntol=1e-9 abstol=1e-14
.control
set numdgt=10
op
print all
.endc
.end
"""


def circuit(text, tmp_path):
    """The circuit of some elements."""
    file = tmp_path / "mine.cir"
    file.write_text(f"mine\n{text}\n.op\n")
    return read_netlist(file)


def solved(graph):
    """Voltages and currents by the iterations in NumPy, and how many they are."""
    states = host.iterations(graph)
    return {u: float(states[-1][u]) for u in graph.meta["unknowns"]}, len(states) - 1


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_converge_to_their_operating_points(name):
    netlist = read_netlist(CIRCUITS[name])
    found, count = solved(newton_graph(netlist))
    assert error(found, refined(netlist, found)) < 1 and count < 30
    assert name != "adder" or len(netlist.nodes) == 50


@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_pe_iterates_to_the_same_point(name):
    graph = newton_graph(read_netlist(CIRCUITS[name]))
    wanted, count = solved(graph)
    for overlay in variants(alu="pipelined"):
        found = host.operating_point(graph, overlay)
        assert (found.values, len(found.cycles)) == (wanted, count)


def test_numbers_comments_and_continued_lines_are_read(tmp_path):
    text = """
* a comment
R1 a 0 1.5MEGohm ; another
r2 a gnd 2.2k $ and another
+
V1 A 0
+ DC 10mV
D1 a 0 dx
.MODEL dx D(IS = 2f, N=1.5
+ CJO=1p)
.end
this is not read
"""
    elements = circuit(text, tmp_path).elements
    assert [e.values.get("value") for e in elements] == [1.5e6, 2.2e3, 10e-3, None]
    assert elements[3].values == {"is": 2e-15, "n": 1.5} and elements[1].nodes == ("a", "0")


@pytest.mark.parametrize(
    "text, message",
    [
        ("C1 a 0 1p", "mine.cir:2: cannot read 'c1 a 0 1p'; there are R, I, V"),
        ("R1 a 0 1k\n.tran 1n 1u", "mine.cir:3: cannot read '.tran 1n 1u'"),
        ("R1 a 0 x", "mine.cir:2: 'x' is not a number"),
        ("V1 a 0 1 AC 1", "an element V has 2 nodes and a value"),
        ("R1 a 0 0", "r1 has no resistance; use a V source of 0"),
        ("R1 a 0 1\nR1 b 0 1", "mine.cir:3: element r1 is defined twice"),
        ("D1 a 0 dx", "there is no model dx"),
        ("D1 a 0 q\n.model q npn", "is of type npn (rule: the model of d1 is of type d)"),
        (".model d d(bv=5)", "cannot read 'bv=5'"),
        (".model n nmos(level=8)", "level 8 is not known; use level 1"),
        (".model d d(is=-1)", "is must be positive, not -1"),
        ("M1 a b 0 0 n W=0\n.model n nmos", "m1 must have a positive width"),
        ("R1 a b 1", "has no node beside node 0"),
        ("()", "mine.cir:2: cannot read '()'"),
        ("+ 1k", "mine.cir:2: continues no line"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, message, tmp_path):
    with pytest.raises(ProgramError) as found:
        circuit(text, tmp_path)
    assert message in str(found.value)


def test_an_element_in_the_first_line_is_refused(tmp_path):
    (tmp_path / "mine.cir").write_text("R1 a 0 1k\nV1 a 0 1\n")
    with pytest.raises(ProgramError, match=r"mine.cir:1: 'R1 a 0 1k' is an element .*its title"):
        read_netlist(tmp_path / "mine.cir")


@pytest.mark.parametrize(
    "text, message",
    [
        ("V1 a 0 1\nV2 a 0 2\nR1 a 0 1", "mine.cir:3: v2 closes a loop of voltage sources"),
        ("R1 a 0 1\nR2 a 0 -1\nR3 b 0 1\nI1 b 0 1", "circuit mine: is singular: no pivot in v(a"),
        ("V1 a 0 1\nR1 a 0 1\nR2 b c 1", "mine.cir: node b has no path to ground (rule: a current"),
        ("I1 0 a 1\nR1 b 0 1", "mine.cir: node a has no path to ground"),
        ("V1 a 0 1\nR1 d 0 1\nM1 d g 0 0 n\n.model n nmos", "node g has no path to ground"),
        ("I1 0 a 1m\nD1 0 a d\n.model d d", "does not converge in 100 iterations"),
    ],
)
def test_a_circuit_without_a_solution_has_one_message(text, message, tmp_path, capsys):
    (tmp_path / "mine.cir").write_text(f"mine\n{text}\n")
    words = ["overlay", "spice", str(tmp_path / "mine.cir"), "--mesh", "1x1", "--pe", "static"]
    assert cli.main([*words, "--csv", str(tmp_path / "o.csv"), "--quiet"]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1
    assert not captured.out and not (tmp_path / "o.csv").exists()


def test_a_value_that_is_not_numpys_is_found(monkeypatch):
    graph = newton_graph(read_netlist(CIRCUITS["clipper"]))
    values = host.model.values

    def wrong(image, run):
        words = values(image, run)
        words[graph.outputs[1]] ^= np.uint64(1)
        return words

    monkeypatch.setattr(host.model, "values", wrong)
    (overlay,) = variants({"pe": ["dynamic"], "local": ["token"]})
    with pytest.raises(RunError, match=r"iteration 1: .* by NumPy"):
        host.operating_point(graph, overlay)


@pytest.mark.deep
@pytest.mark.skipif(not shutil.which("ngspice"), reason="there is no ngspice")
@pytest.mark.parametrize("name", CIRCUITS)
def test_operating_points_are_those_of_ngspice(name, tmp_path):
    text = CIRCUITS[name].read_text()
    (tmp_path / "theirs.cir").write_text(re.sub(r"(?m)^\.end$", "", text) + CONTROL)
    done = subprocess.run(
        ["ngspice", "-b", "theirs.cir"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    printed = dict(re.findall(r"(?m)^(\S+) = (\S+)$", done.stdout.lower()))
    found, _ = solved(newton_graph(read_netlist(CIRCUITS[name])))
    theirs = {f"i({k[:-7]})" if k.endswith("#branch") else k: float(x) for k, x in printed.items()}
    wanted = {u: theirs[u] if u in theirs else theirs[u[2:-1]] for u in found}
    print(f"{name}: largest error {error(found, wanted):.2g} of what is allowed")
    assert error(found, wanted) < 1


@pytest.mark.deep
@pytest.mark.parametrize("pe", ["static", "hybrid", "dynamic"])
def test_iterations_on_rtl_are_the_models(pe):
    for name in ("clipper", "inverter"):
        graph = newton_graph(read_netlist(CIRCUITS[name]))
        for overlay in variants({"pe": [pe]}, rows=2, cols=2, alu="pipelined"):
            found = host.operating_point(graph, overlay, on="both")
            operations = sum(graph.statistics.ops.values())
            assert found.compared and found.compared > operations // 2 * len(found.cycles)
