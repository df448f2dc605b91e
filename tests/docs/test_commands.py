"""The runner of the pages' command blocks: it runs what a reader would, and a block can fail."""

import ast
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from commands import blocks, environment, run, runs

ROOT = Path(__file__).parents[2]


PAGE = """# A page

```python
x = 1
```

```text
not a command
```

```sh
echo 3 > three
```

```sh long
cat three
```

```sh clone
nox -s tests
```

```python
print(x + 1)
```
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_blocks_run_in_order_and_python_as_one_program(page):
    assert [(b.line, b.language) for b in blocks(page)] == [
        (4, "python"),
        (12, "sh"),
        (16, "sh"),
        (20, "sh"),
        (24, "python"),
    ]
    assert [b.line for b in runs(page, quick=False)] == [4, 12, 16]
    assert [b.line for b in runs(page, quick=True)] == [4, 12]


def test_a_block_sees_what_those_before_it_left(page, tmp_path):
    env = environment(str(tmp_path / "cache"))
    assert [run(b, tmp_path, env) for b in runs(page, quick=False)] == [
        (0, "2\n"),
        (0, ""),
        (0, "3\n"),
    ]


@pytest.mark.parametrize("text", ["false\ntrue\n", "false | true\n", "echo $NOT_SET\n"])
def test_a_block_fails_with_any_of_its_lines(page, tmp_path, text):
    page.write_text(f"```sh\n{text}```\n")
    (block,) = runs(page, quick=False)
    assert run(block, tmp_path, environment(""))[0] != 0


def test_a_clone_is_refused():
    """The pages are for those who have the wheel alone."""
    code = (
        "import commands; from pathlib import Path; import penstock; commands.ROOT = "
        "Path(penstock.__file__).parents[1]; commands.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True
    )
    assert done.returncode == 1 and "install the wheel" in done.stderr


@pytest.mark.parametrize("script", sorted((ROOT / "bench").glob("*.py")), ids=lambda p: p.name)
def test_a_script_finds_what_it_imports_beside_itself(script):
    """`python bench/SCRIPT` sees its own folder, and no other of the clone."""
    tree = ast.parse(script.read_text())
    named = [x.names[0].name for x in tree.body if isinstance(x, ast.Import)]
    named += [x.module for x in tree.body if isinstance(x, ast.ImportFrom) and x.module]
    rooms = {name.split(".")[0] for name in named} - sys.stdlib_module_names - {"penstock"}
    elsewhere = [path for path in sys.path if not Path(path).resolve().is_relative_to(ROOT)]
    installed = [path for path in sys.path if "site-packages" in path]
    seen = [str(script.parent), *elsewhere, *installed]
    assert sorted(name for name in rooms if PathFinder.find_spec(name, seen) is None) == []
