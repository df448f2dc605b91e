"""Progress of a long command: a bar on a terminal, lines where there is none, nothing with
``--quiet``.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

LINE_SECONDS = 4.0
"""Seconds between lines where there is no terminal: finished points, quick steps and what goes on
are printed at most this often; stages, and the last point, always.
"""
LATER_SECONDS = 30.0
"""The same for what has gone on for a minute."""


class Progress:
    """The silent display, and the protocol of the others: work is planned, stages are named, steps
    get done.

    Members may be called from any thread. A display is a context manager; it shows nothing before
    it is entered.
    """

    def __init__(self):
        self.planned = self.finished = 0

    def plan(self, steps: int) -> None:
        """``steps`` more (runs of one point on one backend) are to come."""
        self.planned += steps

    def stage(self, what: str) -> None:
        """Something that takes seconds or minutes begins: an export, a build, a simulation."""

    def step(self, what: str) -> None:
        """Something that is mostly quick begins; worth no line of its own."""

    def done(self, what: str) -> None:
        """One step is finished."""
        self.finished += 1

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc) -> None:
        pass


class Pace:
    """Rate at which steps get done, and the time that the rest of them takes at that rate.

    Parameters
    ----------
    clock
        Tells seconds.
    """

    LEAST = 10
    """Steps that are done before it says anything."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self.clock = clock
        self.start = clock()

    def text(self, finished: int, planned: int) -> str:
        """A clause for the end of a line; empty as long as there is nothing to say."""
        seconds = self.clock() - self.start
        if not self.LEAST <= finished < planned or seconds <= 0:
            return ""
        rate = finished / seconds
        return f", {rate:.3g}/s, {_duration((planned - finished) / rate)} left"


def _duration(seconds: float) -> str:
    """A time that is to come, in its two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Calls(Progress):
    """Hands each stage and each finished step to a function, as one line."""

    def __init__(self, call: Callable[[str], None]):
        super().__init__()
        self.call = call

    def stage(self, what: str) -> None:
        self.call(what)

    def done(self, what: str) -> None:
        super().done(what)
        self.call(f"{self.finished}/{self.planned} {what}")


class Lines(Progress):
    """Plain lines with elapsed seconds, for logs; quick commands print none."""

    def __init__(self, file=None, clock: Callable[[], float] = time.perf_counter):
        super().__init__()
        self.file = file
        self.clock = clock
        self.start = clock()
        self.last = 0.0
        self.pace = Pace(clock)
        self.over = threading.Event()
        self.printing = threading.Lock()

    def stage(self, what: str) -> None:
        self._stop()
        self._print(f"{what} ...")
        self._watch(what)

    def step(self, what: str) -> None:
        self._stop()
        self._watch(what)

    def __exit__(self, *exc) -> None:
        self._stop()

    def _watch(self, what: str) -> None:
        """Print the stage again and again until the next one begins."""
        over = self.over = threading.Event()

        def watch() -> None:
            began = self.clock()
            while not over.wait(LATER_SECONDS if self.clock() - began > 60 else LINE_SECONDS):
                with self.printing:
                    if not over.is_set():
                        many = f"{self.finished}/{self.planned} done, " if self.planned > 1 else ""
                        self._print(f"{many}{what} ...")

        threading.Thread(target=watch, daemon=True).start()

    def _stop(self) -> None:
        with self.printing:
            self.over.set()

    def done(self, what: str) -> None:
        self._stop()
        super().done(what)
        if self.clock() - self.start - self.last >= LINE_SECONDS or (
            self.last and self.finished == self.planned
        ):
            rate = self.pace.text(self.finished, self.planned)
            self._print(f"{self.finished}/{self.planned} {what}{rate}")

    def _print(self, line: str) -> None:
        self.last = self.clock() - self.start
        print(f"[{self.last:7.1f} s] {line}", file=self.file or sys.stderr, flush=True)


class Bar(Progress):
    """A bar with the steps done, the time spent and the current stage; it goes away when the work
    is over.
    """

    def __init__(self, console):
        super().__init__()
        from rich import progress

        self.bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[pace]}", markup=False, table_column=None),
            progress.TextColumn("{task.description}", markup=False, table_column=None),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )  # else what is printed meanwhile would go to standard error
        self.pace = Pace()
        self.task = self.bar.add_task("", total=None, pace="")

    def plan(self, steps: int) -> None:
        super().plan(steps)
        self.bar.update(self.task, total=self.planned)

    def stage(self, what: str) -> None:
        self.bar.update(self.task, description=what)

    step = stage

    def done(self, what: str) -> None:
        super().done(what)
        pace = self.pace.text(self.finished, self.planned).removeprefix(", ")
        self.bar.update(self.task, completed=self.finished, description=what, pace=pace)

    def __enter__(self) -> Bar:
        self.bar.start()
        return self

    def __exit__(self, *exc) -> None:
        self.bar.stop()


def of(progress: Progress | Callable[[str], None] | None) -> Progress:
    """A display as it is; a function as :class:`Calls`; None as the silent one."""
    if isinstance(progress, Progress):
        return progress
    return Calls(progress) if progress else Progress()


def display(quiet: bool = False) -> Progress:
    """The display for this process's standard error."""
    if quiet:
        return Progress()
    from rich.console import Console

    console = Console(stderr=True)
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Lines()
