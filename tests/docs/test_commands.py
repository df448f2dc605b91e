"""The runner of the pages' command blocks: it runs what a reader would, and a block can fail."""

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
