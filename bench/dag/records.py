"""Records of the benches in this folder: a JSON list, a record a line."""

from __future__ import annotations

import json
import os
from pathlib import Path

from penstock.system.output import write_text

__all__ = ["write_records"]


def write_records(path: str | os.PathLike[str], records: list[dict]) -> None:
    """Write the records atomically."""
    write_text(Path(path), "[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")
