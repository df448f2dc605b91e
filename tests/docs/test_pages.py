"""The docs say what is so: generated pages are up to date, code blocks and examples run, links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import api

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]




def test_generated_pages_are_up_to_date():
    # In a process of its own: tests may have registered kinds and functions.
    text = "import sys; sys.path.insert(0, 'docs'); import generate\nfor n, f in generate.PAGES.items(): assert (generate.HERE / n).read_text() == f().rstrip() + '\\n', n"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `python docs/generate.py`: {done.stderr[-300:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    broken = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


def test_readme_program_runs(tmp_path):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    path = tmp_path / "scores.py"
    path.write_text(code)
    record = api.run(str(path), "small_fpga")[0]
    assert record.values_ok and record.max_rel_err < 2e-2


@pytest.mark.xdist_group("rtl-small")
def test_example_with_its_own_function_unit_and_operator():
    text = "from penstock import api\nm, r = api.run('docs/examples/rotary.py', 'small_fpga', on='both')\nassert m.cycles == r.cycles and r.values_ok and r.mismatches == 0"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
