"""The search for tilings as compiled code: loaded where a cache has it, else made by a process of
its own.

Compiling takes ten seconds of CPU time and more, once after installation.  Nobody waits for it: the
functions of `kernel` run as plain Python in the meantime (`Compilation` tells when to change over).
numba keeps the code beside the module or, where that cannot be written, in the user's cache folder
(NUMBA_CACHE_DIR overrides both).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import types
from pathlib import Path

from ....system import children
from . import kernel

__all__ = ["NEEDED", "Compilation", "cached", "load", "loaded", "stamp_file"]

NEEDED = "search"
"""The function the solver calls; compiling it compiles all others it needs."""


@functools.lru_cache(maxsize=1)
def load() -> types.SimpleNamespace:
    """The functions of `kernel`, compiled; compiles on the first call what no cache has."""
    from numba import njit

    names = dict(vars(kernel))
    compiled = {}
    for name, plain in vars(kernel).items():
        if isinstance(plain, types.FunctionType) and plain.__module__ == kernel.__name__:
            function = types.FunctionType(plain.__code__, names, name)
            function.__doc__ = plain.__doc__
            compiled[name] = njit(cache=True, nogil=True, error_model="numpy")(function)
    names.update(compiled)
    return types.SimpleNamespace(**{n: names[n] for n in (*compiled, "NOT_FOUND")})


def cached() -> bool:
    """Whether `load` finds everything the solver needs compiled."""
    if loaded():
        return True
    try:
        files = stamp_file().read_text().splitlines()
    except OSError:
        return False
    return bool(files) and all(os.path.exists(file) for file in files)


def loaded() -> bool:
    """Whether this process has the compiled code already."""
    return load.cache_info().currsize > 0 and bool(load().search.signatures)


def stamp_file() -> Path:
    """The file that says that this kernel is compiled for this processor, and into which files."""
    try:
        processor = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
        lines = [
            line for line in processor.splitlines() if line.startswith(("model name", "flags"))
        ]
    except OSError:
        lines = [platform.processor()]
    what = [
        Path(kernel.__file__).read_text(),
        importlib.metadata.version("numba"),
        sys.version,
        platform.machine(),
        os.environ.get("NUMBA_CACHE_DIR", ""),
        *lines,
    ]
    key = hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]
    beside = Path(kernel.__file__).with_name("__pycache__")
    if not os.access(beside if beside.exists() else beside.parent, os.W_OK):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        beside = Path(home) / "penstock"
    return beside / f"kernel-{key}.compiled"


class Compilation:
    """A process that compiles; leaving the ``with`` block ends it (what is compiled stays)."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Compilation:
        if not cached():
            search_path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
            self.process = self._started.enter_context(
                children.started(
                    [sys.executable, "-m", f"{__package__}.precompile"],
                    env=os.environ | {"PYTHONPATH": search_path},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        return self

    @property
    def ready(self) -> bool:
        """Whether `load` will not have to compile."""
        return self.process is None or self.process.poll() == 0

    @property
    def running(self) -> bool:
        """Whether `ready` may still come true."""
        return self.process is not None and self.process.poll() is None

    def __exit__(self, *exc: object) -> None:
        self._started.close()
