"""The page on benches shows a bench that passes."""

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.samples import copy

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_bench_of_a_unit_of_ones_own_passes(tmp_path):
    folder = copy("cocotb", tmp_path / "rotary_bench")
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert shown == (folder / "test_rotary.py").read_text()
    assert len(shown.splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder.name],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COCOTB"))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
