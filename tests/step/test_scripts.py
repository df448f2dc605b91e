"""Scripts in the STeP authors' Python, run as they are: cycles of the published simulator, values
beside NumPy, the modules' coming and going, and what is refused with the script's line.
"""

import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from penstock import step
from penstock.cli import main
from penstock.machine.errors import PenstockError
from penstock.runs import api
from penstock.step.modules import MODULES

SCRIPTS = Path(__file__).with_name("scripts")
HEAD = (
    "import numpy as np\nfrom common import *\nfrom step_py.datatype import *\n"
    "from step_py.functions import accum_fn, init_fn, map_accum_fn, map_fn\n"
    "from step_py.ops import *\nfrom step_py.utility_ops import ConsumerContext\n"
)
"""First lines of short scripts here; ``common`` lies beside them."""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A function that runs a script, and gives what it simulated."""
    monkeypatch.chdir(tmp_path)

    shutil.copy(SCRIPTS / "common.py", tmp_path)

    def run(text, **options):
        (tmp_path / "script.py").write_text(HEAD + text)
        return step.run("script.py", **options)

    return run


COPY = "store(load(values({}), (16, 16))); run()"
ADD = """
a, b = (load(values({0}, seed=i), (16, 16)) for i in range(2))
store(BinaryMap(graph, a, b, map_fn.Add(), True, 1024)); run()
"""
TURNED = """
x = values({})
store(LinearOffChipLoad(x, (3, 1), (2, 3), 16, 16, 4, transposed=True)); run()
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
        (TURNED, "32, 48", 163),
    ],
)
def test_cycles_are_the_published_simulators(script, text, size, cycles):
    (found,) = script(text.format(size))
    assert found.cycles == cycles


def test_another_memory_gives_other_cycles(script):
    text = COPY.format("32, 48").replace("run()", "run(per_channel_start_up_time=30)")
    assert script(text)[0].cycles == 163 + 7 * 16
    with pytest.raises(PenstockError, match=r"HBMConfig at .*channels must be a power of two"):
        script(COPY.format("32, 48").replace("run()", "run(channel_num=0)"))


EVERY = ("buffers", "by_reference", "counts", "files", "functions", "linear", "selectors", "shapes")
EVERY = (*EVERY, "masked", "softmax", "transposed")
EVERY = (*EVERY, "attention 1", "attention 2", "experts dynamic", "experts regions")


@pytest.mark.parametrize("name", EVERY)
def test_a_script_stores_what_numpy_computes_and_runs_on_this_machine(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    file, *args = name.split()
    (found,) = step.run(SCRIPTS / f"{file}.py", args)  # it checks its own values
    (record,) = api.run(found.program, found.config)
    assert record.values_ok and 0 < record.cycles < found.cycles


@pytest.mark.parametrize(
    "name", ["files", *(pytest.param(n, marks=pytest.mark.deep) for n in EVERY if n != "files")]
)
def test_model_and_rtl_agree_in_every_beat(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    file, *args = name.split()
    small = {"machine": "small_fpga", "settings": {"dtype": "fp32"}}
    (found,) = step.run(SCRIPTS / f"{file}.py", args, **small)
    *_, rtl = api.run(found.program, found.config, on="both")
    assert rtl.mismatches == 0 and rtl.channels_observed == rtl.channels_total and rtl.values_ok


def test_a_deadlock_names_the_scripts_lines_and_the_depth_that_frees_it(script):
    text = """
two = Broadcast(graph, load(values(32, 48), (16, 16)), 2)
held = Streamify(graph, Bufferize(graph, (two, 0), 2), [], 2)
store(BinaryMap(graph, held, (two, 1), map_fn.Add(), False, 64))
run(depth={})
"""
    with pytest.raises(PenstockError, match="channels of depth 6 free it") as e:
        script(text.format(2))
    assert "two (Broadcast) at script.py:8" in str(e.value)
    (found,) = script(text.format(6), settings={"channel_depth": 6})
    assert api.run(found.program, found.config)[0].values_ok


def test_experts_take_the_cycles_of_the_published_workload(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (found,) = step.run(SCRIPTS / "experts.py", ["static"])
    rng = np.random.default_rng(3)
    np.savez("trace.npz", data=np.stack([rng.choice(4, 2, replace=False) for _ in range(8)]))
    sizes = {"tokens": 8, "dim": 32, "inter": 32, "experts": 4, "top_k": 2, "compute_bw": 4096}
    sizes |= {"tile_rows": 4, "tile_inter": 16, "trace": "trace.npz", "dtype": "fp32"}
    options = {"timing": "stepsim", "values": False}
    (record,) = api.run("published_moe", found.config, sizes, **options)
    assert found.cycles == record.cycles


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


def test_a_kernel_is_called_with_sizes_and_nothing_else(script):
    kernel = """
def build_graph({}):
    made = Graph()
    ones = np.ones((dims["M"], 48), np.float32)
    tiles = LinearOffChipLoad(ones, (3, 1), (dims["M"] // 16, 3), 16, 16, 4)
    return infer_broadcast(made), OffChipStore(made, tiles, 4)
"""
    names = "from rewrite.broadcast import infer_broadcast"
    (found,) = script(f"{names}{kernel.format('dims')}", dims={"M": 32})
    assert (found.line, found.cycles) == ("script.py", 163)
    with pytest.raises(PenstockError, match="build_graph takes dims, tensors"):
        script(kernel.format("dims, tensors"), dims={"M": 32})


def test_a_kernel_takes_tensors_that_another_file_makes(script, tmp_path):
    (tmp_path / "made.py").write_text(
        "import numpy as np\ndef precompute_tensors(name, dims):\n"
        "    return {'copy': {'x': np.ones((dims['M'], 48), np.float32)}}[name]\n"
    )
    kernel = """
def build_graph(dims, tensors):
    tiles = LinearOffChipLoad(tensors["x"], (3, 1), (dims["M"] // 16, 3), 16, 16, 4)
    return graph, OffChipStore(graph, tiles, 4)
"""
    (found,) = script(kernel, dims={"M": 32}, tensors="made.py:copy")
    assert found.cycles == 163
    with pytest.raises(step.ScriptError, match=r"(?s)made\.py.*KeyError: 'script'"):
        script(kernel, dims={"M": 32}, tensors="made.py")
    with pytest.raises(PenstockError, match="no such file: none"):
        script(kernel, dims={"M": 32}, tensors="none.py")
    with pytest.raises(PenstockError, match="defines no precompute_tensors"):
        script(kernel, dims={"M": 32}, tensors="script.py")
    with pytest.raises(PenstockError, match="takes no tensors"):
        script(COPY.format("32, 48"), tensors="made.py")


def test_sizes_for_a_script_that_runs_by_itself_are_refused(script):
    with pytest.raises(PenstockError, match=r"script\.py: runs by itself, and takes no M"):
        script(COPY.format("32, 48"), dims={"M": 32})


def test_a_result_of_another_shape_differs(script, capsys):
    simulate = (
        "simulate(infer_broadcast(graph), True, HBMConfig(64, 32, 2, 2, 1, 14), SimConfig(2), 'g')"
    )
    stored = f"store(load(values(32, 48), (16, 16))); {simulate}"
    script(
        f"{stored}\nfrom utils.gold_checking import check_gold_tensor\n"
        "for shape in ((32, 48), (48, 32), (32, 7)):\n"
        "    check_gold_tensor('out', np.zeros(shape))\n"
    )
    shown = capsys.readouterr().out
    assert "out: differs (shapes [32, 48] and [32, 48], largest" in shown
    assert "[48, 32])" in shown and "[32, 7])" in shown


def test_torch_is_imported_where_a_script_uses_it(script, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # not installed
    assert script(COPY.format("32, 48"))
    with pytest.raises(step.ScriptError, match="import of torch halted"):
        script("torch.ones(32, 48)")
    monkeypatch.delitem(sys.modules, "torch")
    fake = "import numpy as np\ndef ones(*shape):\n    return np.ones(shape, np.float32)\n"
    (tmp_path / "torch.py").write_text(fake)
    (found,) = script("store(load(torch.ones(32, 48), (16, 16))); run()")
    assert found.cycles == 163 and "torch" not in sys.modules


def test_a_scripts_own_exception_shows_its_traceback(script, capsys):
    with pytest.raises(step.ScriptError):
        script("def f():\n    return 1 / 0\nf()\n")
    assert main(["step", "script.py"]) == 1
    printed = capsys.readouterr().err
    assert "in f" in printed and "ZeroDivisionError: division by zero" in printed
    assert "penstock/" not in printed.replace("penstock/ ", "")


@pytest.mark.parametrize(
    "text, printed",
    [("x = 1", "script.py: simulates no graph"), ("raise SystemExit(3)", "raises\nexits with 3\n")],
)
def test_a_script_that_gives_no_run_is_named(tmp_path, monkeypatch, capsys, text, printed):
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(text)
    assert main(["step", "script.py"]) == 1
    assert printed in capsys.readouterr().err


def test_a_command_prints_both_machines_cycles(script, capsys):
    script(COPY.format("32, 48"))
    assert main(["step", "script.py", "--quiet"]) == 0
    table = capsys.readouterr().out.splitlines()[-2]
    assert "common.py:" in table and " 163 " in table and " yes" in table


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
    "a branch that is not there": (
        """
two = Broadcast(graph, load(values(32, 32), (16, 16)), 2)
OffChipStore(graph, (two, 2), 4)  # here""",
        "give it more consumers",
    ),
    "parts of two numbers gathered": (
        """
a, b = (Flatten(graph, load(values(n, 16), (16, 16)), 0, 2) for n in (32, 48))
StaticReassemble(graph, [a, b], 0)  # here""",
        "reshape one of them",
    ),
    "tiles of another size than stated": (
        """
x = load(values(32, 32), (16, 16))
y = Accum(graph, x, Tile(Float32(), (16, 16)), accum_fn.RetileRow(),  # here
          init_fn.Empty((0, 16), Float32()), 1, False, 64)
store(y)
run()""",
        "state the tiles that it makes",
    ),
    "a tile that does not divide its tensor": (
        "LinearOffChipLoad(values(32, 32), (1, 1), (2, 1), 16, 24, 4)  # here",
        "pad the tensor",
    ),
    "a function that reduces in a map": (
        "UnaryMap(graph, load(values(32, 32), (16, 16)), accum_fn.Add(), False, 64)  # here",
        "map_fn.Exp",
    ),
    "a function of two in a map of one": (
        "UnaryMap(graph, load(values(32, 32), (16, 16)), map_fn.Add(), False, 64)  # here",
        "in a BinaryMap if two",
    ),
    "a mask that is another's padding": (
        """
a, b = (ReshapePadStream(graph, Flatten(graph, load(values(4, 16), (1, 16)), 0, 1), 3, 0, False,
                         init_fn.Zero((1, 16), Float32())) for _ in range(2))
ConsumerContext(graph, FlatmapFilterRowStreamify(graph, (a, 0), (b, 1)))  # here
ConsumerContext(graph, (b, 0))
ConsumerContext(graph, (a, 1))
run()""",
        "reshape both with one ReshapePadStream",
    ),
    "a padding stream read as data": (
        """
a = ReshapePadStream(graph, Flatten(graph, load(values(4, 16), (1, 16)), 0, 1), 3, 0, False,
                     init_fn.Zero((1, 16), Float32()))
store((a, 0))
ConsumerContext(graph, UnaryMap(graph, (a, 1), map_fn.Exp(), False, 1))  # here
run()""",
        "give the data to it instead",
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
