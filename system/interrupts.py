"""Interrupts and time limits of a command: SIGINT, SIGTERM and SIGHUP, and a time that is up, each
as an exception in the main thread.

1. :func:`command` runs a command so: a signal ends its child processes and raises
   KeyboardInterrupt.
2. An exception that is raised while compiled code calls back is lost there, so it is raised again
   after a while, until the command is left or has called :func:`taken`; where Python does not get a
   turn at all, the :mod:`~penstock.system.guardian` ends the process.
3. :func:`within` does the same for a time limit, with :class:`TimeUp`.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType

from . import guardian
from .guard import guard

AGAIN = 0.3
"""Seconds after which an exception that has been lost is raised again."""


class TimeUp(BaseException):
    """The time given to :func:`within` is over.

    Like KeyboardInterrupt not an Exception, so that nobody takes it for an error.
    """


class _State:
    """Requests that this process has received.

    Attributes
    ----------
    number
        The signal that came first (0: none).
    stop
        The exception that is to be raised, as long as it has not been taken.
    shields
        Depth of :func:`shielded` blocks in the main thread.
    pending
        Whether a signal came meanwhile.
    raised
        When a signal last raised an exception (time.monotonic()).
    """

    number = 0
    raised = 0.0
    stop: type[BaseException] | None = None
    shields = 0
    pending = False


_state = _State()
_at_stop: list[Callable[[], None]] = []


def at_stop(call: Callable[[], None]) -> None:
    """Have a function called as soon as a signal comes or a time is up, before the exception is
    raised.
    """
    _at_stop.append(call)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def heed() -> None:
    """Raise what is asked for, where its exception has been lost, or in another thread."""
    if _state.stop is not None and not (_in_main_thread() and _state.shields):
        raise _state.stop


def taken() -> bool:
    """Take notice of an interrupt that was caught, so that the work can be brought to an end of its
    own; whether there was one.
    """
    _state.stop = None
    _state.pending = False
    # CPython notes an interrupt that leaves an exec of text (libraries define classes that way) and
    # ends the process by it, caught or not, until the next exec.
    exec("")
    if _state.number:
        guard().tell("heard")
    return bool(_state.number)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """A short block that no interrupt leaves half-done: it comes at its end."""
    if not _in_main_thread():
        yield
        return
    _state.shields += 1
    try:
        yield
    finally:
        _state.shields -= 1
        if not _state.shields and _state.pending:
            _state.pending = False
            heed()


def _stop(kind: type[BaseException]) -> None:
    """End the child processes and raise, in a signal handler."""
    _state.stop = kind
    for call in _at_stop:
        call()
    if _state.shields:
        _state.pending = True
    else:
        raise kind


def _asked(number: int, _frame: object) -> None:
    """Raise; a further signal raises again only if the exception has not been taken for a while."""
    now = time.monotonic()
    first = not _state.number
    _state.number = _state.number or number
    if first or (_state.stop is not None and now >= _state.raised + AGAIN / 2):
        _state.raised = now
        _stop(KeyboardInterrupt)


def command(work: Callable[[], int]) -> int:
    """Run a command; its exit code, or 128 + the number of the signal that interrupted it.

    In another thread than the main one, signals stay the caller's.
    """
    if not _in_main_thread():
        return work()
    before = {
        s: handler for s in guardian.ASKING if (handler := signal.getsignal(s)) != signal.SIG_IGN
    }  # what is ignored at the start stays so
    fd = signal.set_wakeup_fd(guard().signals, warn_on_full_buffer=False)
    _state.number = 0
    _state.stop = None
    _state.pending = False
    unraisable = sys.unraisablehook
    sys.unraisablehook = _but_ours(unraisable)
    try:
        for s in before:
            signal.signal(s, _asked)
        return work()
    except KeyboardInterrupt:
        return _interrupted()
    except Exception:
        # An extension module that is interrupted while it imports another raises an ImportError.
        if _state.stop is not KeyboardInterrupt:
            raise
        return _interrupted()
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
        signal.set_wakeup_fd(fd)
        sys.unraisablehook = unraisable
        _state.stop = None
        guard().tell("rest")


def _interrupted() -> int:
    """Say so; the exit code."""
    taken()
    print("penstock: interrupted", file=sys.stderr)
    return 128 + (_state.number or signal.SIGINT)


def _but_ours(
    hook: Callable[[sys.UnraisableHookArgs], None],
) -> Callable[[sys.UnraisableHookArgs], None]:
    """A hook that is silent about what is raised again: an interrupt or a time limit that is lost
    in a finaliser or a callback.
    """

    def heard(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, (KeyboardInterrupt, TimeUp)):
            hook(unraisable)

    return heard


def within(seconds: float | None, work: Callable[[], object]) -> bool:
    """Run ``work`` for at most so many seconds; whether it came to its end.

    None: without a limit. Outside of the main thread, and in systems without timers, the work has
    to look at the clock itself.

    The timer fires again every ``AGAIN`` seconds, also while the exception is on its way out. It
    raises in frames of the work only, so that none of its exceptions leaves this function.
    """
    if seconds is None or not _in_main_thread() or not hasattr(signal, "setitimer"):
        work()
        return True

    def limited() -> None:
        work()

    def over(_number: int, frame: FrameType | None) -> None:
        if _state.stop is not KeyboardInterrupt and _runs_in(frame, limited.__code__):
            _stop(TimeUp)

    before = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), AGAIN)
        limited()
    except TimeUp:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if _state.stop is TimeUp:
            _state.stop = None
            _state.pending = False
    return True


def _runs_in(frame: FrameType | None, code: CodeType) -> bool:
    """True if a frame, or one that called it, runs a function."""
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
