"""Digest of sources: it follows their meaning, and nothing else."""

import pytest
from penstock.system.sources import digest_of, sources_of

UNIT = '''"""A unit."""

from ..numbers import LATENCY, tables
from . import parts
from numpy import array

if TYPE_CHECKING:
    from .types import Shape

WIDTH = 4
"""Of a port."""


class Unit:
    def elaborate(self):
        """Make it."""
        from .late import late  # on first use

        return parts.make(LATENCY + WIDTH, late)
'''


@pytest.fixture
def tree(tmp_path):
    """A package of two rooms, one of which imports the other."""
    texts = {
        "numbers.py": "LATENCY = 2\ntables = ()\n",
        "hw/__init__.py": "",
        "hw/unit.py": UNIT,
        "hw/parts.py": "def make(n, late):\n    return n\n",
        "hw/late.py": "late = True\nif late:\n    x = [1]\n    y = []\n",
        "hw/types.py": "Shape = int\n",
        "hw/aside.py": "x = 1\n",
        "bench.sv": "module bench; // clock\n  logic a;\nendmodule\n",
        "machine.toml": "t = 4 # tile\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(tree, root="hw/unit.py"):
    return digest_of(sources_of([tree / n for n in (root, "bench.sv", "machine.toml")]))


def test_all_that_is_imported_counts_and_nothing_else(tree):
    found = sources_of([tree / "hw/unit.py"])
    assert [p.name for p in found] == ["late.py", "parts.py", "unit.py", "numbers.py"]
    assert [p.name for p in sources_of([tree / "hw/unit.py"], without=[tree / "hw/late.py"])] == [
        "parts.py",
        "unit.py",
        "numbers.py",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("numbers.py", "LATENCY = 2", "LATENCY = 3"),
        ("hw/parts.py", "return n", "return n + 1"),
        ("hw/late.py", "True", "1"),
        ("hw/late.py", "    y = []", "y = []"),
        ("hw/late.py", "    y = []", "else:\n    y = []"),
        ("hw/unit.py", "WIDTH = 4", "WIDTH = 4.0"),
        ("hw/unit.py", "import parts", "import aside as parts"),
        ("bench.sv", "logic a", "logic b"),
        ("machine.toml", "4", "5"),
    ],
)
def test_a_change_of_code_changes_the_digest(tree, file, old, new):
    before = digest(tree)
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))
    assert digest(tree) != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("numbers.py", "LATENCY = 2", "# cycles\nLATENCY = (\n    2\n)"),
        ("hw/unit.py", '"""Make it."""', '"""Build it."""'),
        ("hw/unit.py", '"""Of a port."""', ""),
        ("hw/unit.py", "  # on first use", ""),
        ("hw/types.py", "int", "float"),
        ("hw/aside.py", "1", "2"),
    ],
)
def test_a_change_of_layout_leaves_the_digest(tree, file, old, new):
    before = digest(tree)
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))
    assert digest(tree) == before
