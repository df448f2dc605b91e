"""Points of the figures, and their runs on an executor, the longest first."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import pairwise

from ..machine.config import Config, to_dict
from ..machine.record import Record
from ..model.compiling import is_cached
from ..model.simulate import compiled
from ..model.stepsim.engine import simulate
from ..runs import executors, simulation
from ..runs.executors import Pool
from ..runs.point import Point as Run
from ..runs.point import label
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from ..runs.recording import record

DRAWS = 50
LONGER = 40
"""Runs in the timing `stepsim` that take as long as one in `machine`, roughly."""
MANY = 16
"""Points that are worth a start of processes at once."""


@dataclass(frozen=True)
class Point:
    """One run of a figure.

    Attributes
    ----------
    program, config, params, seed
        What is run, without values: in the timing `stepsim`, and in the timing `machine` where that
        is asked for.
    at
        Its place in the figure: the row's first columns.
    published
        What was published of it: columns of the row, each beside ours of the same name
        (``step_cycles`` and ``cycles``).
    draws
        How often its scatter is drawn: the least and the most cycles are columns of the row.
    machine
        Whether it is another point for this machine than those before it.
    work
        How long it runs beside the others, roughly: the longest is begun first.
    """

    program: str
    config: Config
    params: dict
    at: dict
    seed: int = 0
    published: dict = field(default_factory=dict)
    draws: int = 0
    machine: bool = True
    work: float = 0.0


@dataclass(frozen=True)
class Job:
    """A point in the timing `stepsim`, with the draws of its scatter, and with ``machine`` in that
    timing, too.
    """

    point: Point
    machine: bool = False

    @property
    def name(self) -> str:
        """Name in messages."""
        here = ", this machine" if self.machine else ""
        return f"{label(self.point.program, self.point.params)}{here}"

    @property
    def key(self) -> str:
        """Equal for jobs that make the same."""
        p = self.point
        parts = [p.program, to_dict(p.config), p.params, p.seed, p.draws, self.machine]
        return json.dumps(parts, sort_keys=True)

    @property
    def work(self) -> float:
        """Estimated work of a point; longer runs have larger values."""
        return self.point.work * (1 + self.point.draws + LONGER * self.machine)


@dataclass(frozen=True)
class JobResult:
    """Result of a job.

    Attributes
    ----------
    record, own
        Of the run, and of that in the timing `machine`.
    drawn
        Cycles of each draw.
    seconds, draw_seconds, own_seconds
        CPU time of the run with its record and all that both timings share, of the draws, and of
        the run in the timing `machine`.
    """

    record: Record
    drawn: list[int]
    seconds: float
    draw_seconds: float
    own: Record | None = None
    own_seconds: float = 0.0


def made(job: Job) -> JobResult:
    """Run a job in this process."""
    p = job.point
    with executors.turn:
        clock = [time.process_time()]
        run = Run(p.program, p.config, p.params, "stepsim", p.seed)
        result = _recorded(run)
        clock.append(time.process_time())
        drawn = simulation.drawn(run, range(p.draws)) if p.draws else []
        clock.append(time.process_time())
        own = _recorded(run.retimed("machine")) if job.machine else None
        clock.append(time.process_time())
    made_in, drawn_in, own_in = (end - start for start, end in pairwise(clock))
    return JobResult(result, drawn, made_in, drawn_in, own, own_in)


def _recorded(run: Run) -> Record:
    return record(run, simulation.on_model(run, values=False, trace=False))


class Runs:
    """The runs of some figures; what several of them have is run once.

    Parameters
    ----------
    progress
        Is told of each job.
    executor
        Any of `concurrent.futures`, or a pool of :mod:`penstock.runs.executors`; None: this
        process.
    """

    def __init__(
        self,
        progress: Progress | Callable[[str], None] | None = None,
        executor: Executor | Pool | None = None,
    ):
        self.show = progress_of(progress)
        self.executor = executor
        self.known: dict[str, JobResult] = {}

    def all(self, jobs: Iterable[Job]) -> list[JobResult]:
        """Results of all jobs."""
        jobs = list(jobs)
        keys = [job.key for job in jobs]
        todo = {k: job for k, job in zip(keys, jobs, strict=True) if k not in self.known}
        self.show.plan(len(todo))
        ordered = sorted(todo.values(), key=lambda job: job.work, reverse=True)
        first = [] if self.executor is None else _to_compile(ordered)
        left = [job for job in ordered if job not in first]
        work = executors.Work(
            made, label=lambda job: job.name, here=self._here, heavy=len(left) >= MANY
        )
        for some, where in ((first, None), (left, self.executor)):
            for job, found in executors.each(work, some, where, self.show):
                self.known[job.key] = found
                self.show.done(job.name)
        return [self.known[key] for key in keys]

    def _here(self, job: Job) -> JobResult:
        self.show.step(job.name)
        return made(job)


def _to_compile(ordered: list[Job]) -> list[Job]:
    """The shortest job whose code is still to be compiled: other processes find it then."""
    unready = [job for job in ordered if job.machine and not compiled()]
    unready = unready or [job for job in ordered if not is_cached(simulate)]
    return unready[-1:]
