"""Slurm as an executor: a task is a job, which submitit writes, submits and reads back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from ..machine.errors import PenstockError

FOLDER = "penstock_jobs"
"""Where submitit keeps scripts and results of jobs; nodes and this machine must share it."""
POLL = 2.0
"""Seconds between looks at what has finished."""
MINUTES = 24 * 60


class Slurm(Executor):
    """Runs each call as a job of its own.

    Parameters
    ----------
    partition
        Of the cluster; None: its default.
    cluster
        ``slurm``, or ``local``: processes of this machine, started the same way.
    """

    def __init__(self, partition: str | None = None, cluster: str = "slurm"):
        try:
            import submitit
        except ImportError:
            raise PenstockError(
                "the package submitit is not installed", remedy="pip install 'penstock[slurm]'"
            ) from None
        try:
            self.jobs = submitit.AutoExecutor(folder=Path(FOLDER).absolute(), cluster=cluster)
        except RuntimeError as e:
            raise PenstockError(
                f"no Slurm here: {e}", remedy="run this where `sbatch` is"
            ) from None
        self.jobs.update_parameters(
            timeout_min=MINUTES, cpus_per_task=1, slurm_setup=["export PYTHONSAFEPATH=1"]
        )
        if partition is not None:
            self.jobs.update_parameters(slurm_partition=partition)
        self.running: list[tuple[Any, Future]] = []
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def submit(self, fn: Callable, /, *args, **kwargs) -> Future:
        """Submit a job; the future has its result."""
        future = Future()
        future.set_running_or_notify_cancel()
        self.running.append((self.jobs.submit(fn, *args, **kwargs), future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the jobs, or cancel those that are left."""
        if cancel_futures or not wait:
            for job, _ in list(self.running):
                job.cancel()
        while wait and self.running:
            self.over.wait(POLL)
        self.over.set()

    def __exit__(self, kind, value, trace) -> bool | None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)
        return None

    def _watch(self) -> None:
        while not self.over.wait(POLL):
            for pair in list(self.running):
                job, future = pair
                if job.done():
                    self.running.remove(pair)
                    _finish(job, future)


def _finish(job: Any, future: Future) -> None:
    """Hand on what a job returned or raised."""
    failed = job.exception()
    if failed is None:
        future.set_result(job.result())
    else:
        future.set_exception(failed)
