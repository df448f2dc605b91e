"""The search for tilings as machine code: loaded where it is kept, else made by another process.

Compiling takes ten seconds of CPU time and more, once after installation.  Nobody waits for it: the
functions of `kernel` run as plain Python in the meantime (`Compilation` tells when to change over).
The code (`native`) is kept beside the module or, where that cannot be written, in the user's cache
folder (NUMBA_CACHE_DIR overrides both).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import subprocess
from pathlib import Path

from ....system import children, machine_code
from . import kernel, native

_DIGEST = 32


@functools.lru_cache(maxsize=1)
def load() -> native.Search:
    """`kernel.search` compiled; compiles on the first call what is not kept."""
    return native.link(_kept() or _made())


def cached() -> bool:
    """True if `load` finds the search compiled."""
    return loaded() or _kept() is not None


def loaded() -> bool:
    """True if this process has the compiled code already."""
    return load.cache_info().currsize > 0


def _kept() -> bytes | None:
    """The code that is kept; None if there is none, or it is not what was written."""
    try:
        whole = kept_at().read_bytes()
    except OSError:
        return None
    code = whole[_DIGEST:]
    return code if whole[:_DIGEST] == _digest(code) else None


def _made() -> bytes:
    """Compile, and keep the code where that is possible."""
    code = native.emit()
    file = kept_at()
    fresh = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(_digest(code) + code)
        os.replace(fresh, file)
    return code


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_DIGEST).digest()


def kept_at() -> Path:
    """The file of this kernel's code for this processor."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    what = [*map(inspect.getsource, (kernel, native, machine_code)), *machine_code.made_with()]
    key = hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]
    beside = Path(folder) if folder else Path(kernel.__file__).with_name("__pycache__")
    if not folder and not os.access(beside if beside.exists() else beside.parent, os.W_OK):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        beside = Path(home) / "penstock"
    return beside / f"tilings-{key}.object"


class Compilation:
    """A process that compiles; leaving the ``with`` block ends it (what is compiled stays)."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Compilation:
        if not cached():
            self.process = self._started.enter_context(
                children.started(
                    children.module(f"{__package__}.precompile"),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        return self

    @property
    def ready(self) -> bool:
        """True if `load` will not have to compile."""
        return self.process is None or self.process.poll() == 0

    @property
    def running(self) -> bool:
        """True if `ready` may still come true."""
        return self.process is not None and self.process.poll() is None

    def __exit__(self, *exc: object) -> None:
        self._started.close()
