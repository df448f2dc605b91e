"""Input files of benches and tests: what ships in tests/data, and what does not and is looked for
in the folder that the environment variable PENSTOCK_DATA names.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "tests" / "data"
PROBLEMS = SHIPPED / "problems"
TRACES = ROOT / "samples" / "files" / "traces"


def given(kind: str) -> Path | None:
    """Folder ``kind`` of the inputs that do not ship, where the environment names one."""
    return Path(os.environ["PENSTOCK_DATA"], kind) if "PENSTOCK_DATA" in os.environ else None


def matrices() -> Path:
    """The folder of all matrices if it is named, else of those that ship."""
    return given("matrices") or SHIPPED / "matrices"


def matrix(name: str) -> Path:
    """A matrix that ships, else one of the folder that is named, whether it is there or not."""
    shipped = SHIPPED / "matrices" / name
    return shipped if shipped.exists() else matrices() / name


def data(*names: str) -> Path:
    """A path in the folder that is named; where none is, one that is not there."""
    return Path(os.environ.get("PENSTOCK_DATA", "PENSTOCK_DATA"), *names)
