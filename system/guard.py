"""Pipes from this process to its :mod:`~penstock.system.guardian`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

from . import guardian


class Guard:
    """A guardian that runs.

    Attributes
    ----------
    pid
        The process that it guards.
    signals
        File descriptor to which the interpreter's signal handler writes.
    """

    def __init__(self):
        self.pid = os.getpid()
        control, self._control = os.pipe()
        numbers, self.signals = os.pipe()
        os.set_blocking(self.signals, False)
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    guardian.__file__,
                    str(self.pid),
                    str(control),
                    str(numbers),
                ],
                pass_fds=(control, numbers),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(control)
            os.close(numbers)
        process.returncode = 0  # it outlives this process, so nobody waits for it

    def tell(self, line: str) -> None:
        """Send one line of its protocol."""
        with contextlib.suppress(
            OSError
        ):  # it was killed: then nobody cleans up after a kill of this process, and that is all
            os.write(self._control, f"{line}\n".encode())


_guard: Guard | None = None
_lock = threading.RLock()


def guard() -> Guard:
    """The guardian of this process, started if there is none."""
    global _guard
    if _guard is None or _guard.pid != os.getpid():
        with _lock:
            if _guard is None or _guard.pid != os.getpid():
                _guard = Guard()
    return _guard
