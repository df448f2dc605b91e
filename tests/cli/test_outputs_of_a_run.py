"""What a run computed: output tensors, in the record and in a file, and
the tolerance that a program's own reference is held to.
"""

from pathlib import Path

import numpy as np
import penstock
import pytest
from penstock import cli
from penstock.machine.errors import PenstockError

TOP2 = str(Path(__file__).parents[2] / "samples/files/top2.py")
WRONG = """
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, Map, cast, exp

def program(n=8):
    g = Graph("wrong")
    x, y = g.input("x", (n, n), "bf16"), g.output("y", (n, n), "bf16")
    loaded = cast(LinearOffChipLoad(x, tile=(n, n)), "fp32")
    LinearOffChipStore(cast(Map(loaded, fn=exp()), "bf16"), y)
    return g

def reference(x):
    import numpy as np
    return {"y": np.exp(x) + 1}
"""


def test_records_of_a_run_have_its_outputs():
    (record,) = penstock.run(TOP2, "small_fpga", seed=3)
    y = record.outputs["y"]
    assert y.dtype == np.float32 and y.shape == (12, 8) and y.any()
    assert record.errors == {"y": record.max_rel_err}
    (timing,) = penstock.run(TOP2, "small_fpga", seed=3, values=False)
    assert timing.outputs is None


def test_outputs_go_to_a_file(tmp_path, capsys):
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        assert (
            cli.main(["run", TOP2, "--config", "small_fpga", "--quiet", "--outputs", str(file)])
            == 0
        )
    (record,) = penstock.run(TOP2, "small_fpga")
    with np.load(files[0]) as stored:
        assert stored.files == ["y"] and np.array_equal(stored["y"], record.outputs["y"])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    "options, text",
    [
        (["--outputs", "o.npz", "--no-values"], "--outputs writes values, and none are computed"),
        (["--outputs", "o.npz", "--timing", "stepsim"], "the timing `stepsim` has none"),
        (["--tolerance", "0.1", "--no-values"], "tolerance compares values"),
        (["--tolerance", "nan"], "tolerance must be a number of at least 0, not nan"),
        (["--tolerance", "-1"], "tolerance must be a number of at least 0, not -1"),
    ],
)
def test_what_needs_values_is_refused_before_the_run(options, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", TOP2, "--config", "small_fpga", *options]) == 1
    assert text in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_reference_that_disagrees_fails_the_run_where_a_tolerance_is_given(tmp_path, capsys):
    program = tmp_path / "wrong.py"
    out = tmp_path / "o.npz"
    program.write_text(WRONG)
    command = ["run", str(program), "--config", "small_fpga", "--quiet", "--outputs", str(out)]
    assert cli.main(command) == 0
    assert cli.main([*command, "--tolerance", "0.01"]) == 1
    text = capsys.readouterr().err
    assert "tensor y is " in text and "the tolerance is 0.01" in text and "Traceback" not in text
    assert out.exists()
    with pytest.raises(PenstockError, match=r"tensor y is .* away from the float64 reference"):
        penstock.run(str(program), "small_fpga", tolerance=0.01)
    penstock.run(TOP2, "small_fpga", tolerance=0.02)
