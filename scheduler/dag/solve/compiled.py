"""The search for tilings as machine code: loaded from the cache, else made by another process.

Compiling takes ten seconds of CPU time and more, once after installation.  Nobody waits for it: the
functions of `kernel` run as plain Python in the meantime (`Compilation` says when to change over).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import subprocess

from ....system import children, machine_code
from ....system.cache import digest, entry, find
from . import kernel, native

KIND = "dag"
"""Folder of the cache."""


@functools.lru_cache(maxsize=1)
def load() -> native.Search:
    """`kernel.search` as machine code, from the cache or compiled."""
    with entry(KIND, _key()) as (folder, ready):
        file = folder / "tilings.object"
        if not ready:
            file.write_bytes(native.emit())
    return native.link(file.read_bytes())


def cached() -> bool:
    """True if `load` need not compile."""
    return loaded() or find(KIND, _key()) is not None


def loaded() -> bool:
    """True if this process has the machine code already."""
    return load.cache_info().currsize > 0


@functools.cache
def _key() -> str:
    """Digest of the sources of the machine code, and of the processor that it is for."""
    sources = map(inspect.getsource, (kernel, native, machine_code))
    return digest(*sources, *machine_code.made_with())


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
