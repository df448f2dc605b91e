"""The page on benches shows a bench that passes."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_bench_of_a_unit_of_ones_own_passes(tmp_path, monkeypatch):
    shutil.copy(ROOT / "samples" / "files" / "rotary.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {}
    page = (ROOT / "docs" / "testing.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, "docs/testing.md", "exec"), names)
    assert names["error"] == 0 and len(names["result"].beats) == 22
