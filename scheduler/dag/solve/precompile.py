"""Compile the search for tilings, and note that it is there: a process of its own
(`compiled.Compilation`).
"""

import os
from pathlib import Path

from ..generate import generate
from .compiled import NEEDED, load, stamp_file
from .tiles import compile_search


def main() -> None:
    """Compile or load what the solver needs; then write the stamp that `compiled.cached` reads."""
    compile_search(generate("random", 1))
    where = Path(load().search.stats.cache_path)
    files = sorted(str(f) for f in where.glob(f"kernel.{NEEDED}-*.nb?"))
    stamp = stamp_file()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    fresh = stamp.with_suffix(f".{os.getpid()}")
    fresh.write_text("\n".join(files))
    os.replace(fresh, stamp)


if __name__ == "__main__":
    main()
