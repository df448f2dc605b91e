"""Scripts in the STeP authors' Python, run as they are: cycles of the published simulator, values
beside NumPy, the modules' coming and going, and what is refused with the script's line.
"""

import sys
from types import ModuleType

import pytest
from penstock import step
from penstock.cli import main
from penstock.machine.errors import PenstockError
from penstock.step.modules import MODULES

HEAD = """
import numpy as np
from graph.graph import MultiDiGraph
from rewrite.broadcast import infer_broadcast
from sim import HBMConfig, SimConfig, simulate
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_accum_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

graph = MultiDiGraph()


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def load(tensor, tile, shape=None, stride=None):
    rows, cols = (n // m for n, m in zip(tensor.shape, tile))
    return LinearOffChipLoad(tensor, stride or (cols, 1), shape or (rows, cols), *tile, 4)


def store(stream, name="out"):
    return OffChipStore(graph, stream, 4, name)


def run(depth=2, **memory):
    hbm = {"addr_offset": 64, "channel_num": 32, "per_channel_latency": 2,
           "per_channel_init_interval": 2, "per_channel_outstanding": 1,
           "per_channel_start_up_time": 14} | memory
    return simulate(infer_broadcast(graph), False, HBMConfig(**hbm), SimConfig(depth), "graph.pb")
"""
"""What scripts here begin with."""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A function that runs a script, and gives what it simulated."""
    monkeypatch.chdir(tmp_path)

    def run(text, **options):
        (tmp_path / "script.py").write_text(HEAD + text)
        return step.run("script.py", **options)

    return run


COPY = "store(load(values({}), (16, 16))); run()"
ADD = """
a, b = (load(values({0}, seed=i), (16, 16)) for i in range(2))
store(BinaryMap(graph, a, b, map_fn.Add(), True, 1024)); run()
"""
ROUND = "store(Streamify(graph, Bufferize(graph, load(values({}), (16, 16)), 1), [], 1)); run()"


@pytest.mark.parametrize(
    "text, size, cycles",
    [
        (COPY, "32, 48", 163),
        (COPY, "64, 48", 301),
        (ADD, "32, 48", 241),
        (ADD, "64, 64", 561),
        (ROUND, "32, 48", 204),
    ],
)
def test_cycles_are_the_published_simulators(script, text, size, cycles):
    (found,) = script(text.format(size))
    assert found.cycles == cycles


def test_another_memory_gives_other_cycles(script):
    text = COPY.format("32, 48").replace("run()", "run(per_channel_start_up_time=30)")
    assert script(text)[0].cycles == 163 + 7 * 16


def test_the_modules_are_there_only_while_a_script_runs(script, monkeypatch):
    theirs = ModuleType("step_py")
    monkeypatch.setitem(sys.modules, "step_py", theirs)
    before = dict(sys.modules)
    path = list(sys.path), list(sys.meta_path), sys.argv, sys.modules["__main__"]
    for text in (COPY.format("32, 48"), "raise ValueError('no')"):
        try:
            script(text)
        except step.ScriptError as e:
            assert "script.py" in e.text
        assert {n: m for n, m in sys.modules.items() if n.split(".")[0] in MODULES} == {
            "step_py": theirs
        }
        assert all(sys.modules[n] is m for n, m in before.items())
        assert path == (sys.path, sys.meta_path, sys.argv, sys.modules["__main__"])


def test_a_scripts_own_exception_shows_its_traceback(script, capsys):
    with pytest.raises(step.ScriptError):
        script("def f():\n    return 1 / 0\nf()\n")
    assert main(["step", "script.py"]) == 1
    printed = capsys.readouterr().err
    assert "in f" in printed and "ZeroDivisionError: division by zero" in printed
    assert "penstock/" not in printed.replace("penstock/ ", "")


def test_a_command_prints_both_machines_cycles(script, capsys):
    script(COPY.format("32, 48"))
    assert main(["step", "script.py", "--quiet"]) == 0
    table = capsys.readouterr().out.splitlines()[-2]
    assert "script.py" in table and " 163 " in table and " yes" in table


REFUSED = {
    "a branch read twice": (
        """
two = Broadcast(graph, load(values(32, 32), (16, 16)), 2)
OffChipStore(graph, (two, 0), 4, "a")
OffChipStore(graph, (two, 0), 4, "b")  # here
run()""",
        "give the Broadcast another branch",
    ),
    "a branch that nobody reads": (
        """
two = Broadcast(graph, load(values(32, 32), (16, 16)), 2)  # here
store((two, 0))
run()""",
        "ConsumerContext",
    ),
    "a lost leading dimension": (
        """
rows = Flatten(graph, load(values(32, 32), (16, 16)), 0, 2)
OffChipStore(graph, rows, 4)  # here""",
        "PromoteOuter",
    ),
    "a static product over dynamic rows": (
        """
rows = DynTile(Float32(), (DynDim("n"), 16))
x = Accum(graph, load(values(32, 32), (16, 16)), rows, accum_fn.RetileRow(),
          init_fn.Empty((0, 16), Float32()), 1, False, 64)
w = load(values(16, 16), (16, 16), (2,), (0,))
y = BinaryMap(graph, x, w, map_fn.Matmul(), False, 64)  # here""",
        "DynMatmul",
    ),
    "shapes that differ": (
        """
a, b = load(values(32, 32), (16, 16)), load(values(32, 48), (16, 16))
c = BinaryMap(graph, a, b, map_fn.Add(), False, 64)  # here""",
        "reshape one of them",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_graph_is_refused_with_the_scripts_line(script, name):
    text, remedy = REFUSED[name]
    with pytest.raises(PenstockError, match=remedy) as e:
        script(text)
    line = next(i for i, x in enumerate((HEAD + text).split("\n"), 1) if x.endswith("# here"))
    assert f"at script.py:{line}" in str(e.value)
