"""Child processes and temporary folders that end with the command that made them.

Everything that Penstock starts goes through :func:`run` or
:func:`started`: a process group of its own, which is ended when the
call is left by an exception, when the command is interrupted, and when
this process is gone, killed or not. :func:`temporary` does the same for
folders. The :mod:`~penstock.system.guardian` sees to the last case.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from . import guardian, interrupts
from .guard import guard

_ROOT = str(Path(__file__).parents[2])
"""The folder from which this package is imported."""
_groups: dict[int, None] = {}
_kept: set[Path] = set()
_thread = threading.local()


def module(name: str, *words: str) -> list[str]:
    """A command that runs a module as ``python -m`` does, found as this process finds its own, and
    searching for garbage as rarely.

    The current folder is not on its path: a file there, such as a ``json.py``, is not executed.
    """
    path = list(dict.fromkeys([*filter(None, sys.path), _ROOT]))
    call = f"runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    rarely = f"gc.set_threshold{gc.get_threshold()!r}"
    code = f"import gc, runpy, sys; sys.path[:] = {path!r}; {rarely}; {call}"
    return [sys.executable, "-P", "-c", code, *words]


def run(
    command: Sequence[str | os.PathLike],
    *,
    cwd: str | os.PathLike | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    capture: bool = True,
    stdout: int | IO | None = None,
    stderr: int | IO | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess:
    """Run a command to its end, in a process group that ends with the call.

    Parameters
    ----------
    command, cwd, env
        As of :func:`subprocess.run`.
    input
        Text for its standard input; None: an empty one.
    capture, stdout, stderr
        Whether ``stdout`` and ``stderr`` of the result are the command's output as text; where
        files are given for them, those take it.
    timeout
        Seconds after which the group is ended and :class:`subprocess.TimeoutExpired` raised.

    Returns
    -------
    subprocess.CompletedProcess
        Its ``returncode`` is the caller's to judge.

    Raises
    ------
    OSError
        There is no such program.
    KeyboardInterrupt, TimeUp
        The command was interrupted, or its time is up (:mod:`~penstock.system.interrupts`); also in
        a thread.
    """
    pipe = subprocess.PIPE if capture else subprocess.DEVNULL
    with started(
        command,
        cwd=cwd,
        env=env,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=stdout or pipe,
        stderr=stderr or pipe,
    ) as process:
        out, err = process.communicate(input, timeout)
    if process.returncode:
        interrupts.heed()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextlib.contextmanager
def started(command: Sequence[str | os.PathLike], **options) -> Iterator[subprocess.Popen]:
    """Start a command, in a process group that ends with the block; ``options`` as of
    :class:`subprocess.Popen`.
    """
    interrupts.heed()
    keeper = guard()
    process = None
    try:
        with interrupts.shielded():
            process = subprocess.Popen(
                [os.fspath(part) for part in command],
                process_group=0,
                pass_fds=getattr(_thread, "inherited", ()),
                **options,
            )
            _groups[process.pid] = None
            keeper.tell(f"+g {process.pid}")
        yield process
    finally:
        if process is not None:
            with interrupts.shielded():
                if process.poll() is None or process.returncode < 0:
                    _end(process)  # one that was killed may leave others of its group
                _close(process)
                _groups.pop(process.pid, None)
                keeper.tell(f"-g {process.pid}")


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """A block in which this process, and those that it starts, have a variable."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


@contextlib.contextmanager
def inheriting(descriptor: int) -> Iterator[None]:
    """A block whose children in this thread have an open file, too: a lock on it is held until the
    last of them has ended.
    """
    before = getattr(_thread, "inherited", ())
    _thread.inherited = (*before, descriptor)
    try:
        yield
    finally:
        _thread.inherited = before


def end_all() -> None:
    """Ask every group that runs to end: threads that wait for it then find the reason."""
    for group in list(_groups):
        _signal(group, signal.SIGTERM)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def _end(process: subprocess.Popen) -> None:
    """End a group: SIGTERM, at which compilers remove their files, then SIGKILL; its first process
    may be gone before the others have done so.
    """
    _signal(process.pid, signal.SIGTERM)
    over = time.monotonic() + guardian.GRACE
    while (process.poll() is None or guardian.alive(process.pid)) and time.monotonic() < over:
        time.sleep(0.01)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _close(process: subprocess.Popen) -> None:
    """Close what is left open of the pipes to a child."""
    for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
        with contextlib.suppress(OSError):
            pipe.close()


@contextlib.contextmanager
def temporary(prefix: str = "penstock-", parent: str | os.PathLike | None = None) -> Iterator[Path]:
    """A new folder that is removed when the block is left, or this process ends in any other way.

    Parameters
    ----------
    prefix
        Of its name.
    parent
        Folder in which it is made (default: the system's for temporary files).
    """
    keeper = guard()
    folder = None
    try:
        with interrupts.shielded():
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            keeper.tell(f"+d {json.dumps(str(folder))}")
        yield folder
    finally:
        if folder is not None and folder not in _kept:
            with interrupts.shielded():
                shutil.rmtree(folder, ignore_errors=True)
                keeper.tell(f"-d {json.dumps(str(folder))}")


def keep_until_end(folder: Path) -> None:
    """Have a folder removed when this process has ended in any way, if it is still there."""
    guard().tell(f"+d {json.dumps(str(folder))}")


def keep(folder: Path) -> None:
    """Leave a temporary folder for the user, and name it."""
    _kept.add(folder)
    guard().tell(f"-d {json.dumps(str(folder))}")


interrupts.at_stop(end_all)
