"""Executors of points: processes of this machine, a Dask cluster, Slurm, or any executor of
`concurrent.futures`; and work on one of them, item by item.

1. Each worker has an item or two. A result is handed on before the next one is looked at.
2. Where a process is lost, what was in work is run again, one item at a time; an item that ends its
   process again is lost.
3. Processes are started when the work that is left takes longer than their start.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED as ANY
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from multiprocessing import connection, forkserver, util
from pathlib import Path
from pickle import PicklingError
from typing import Any, Generic, TypeVar

from ..machine.errors import PenstockError, nearest
from ..machine.limits import within
from ..system.children import environment, keep_until_end
from .progress import Progress

EXECUTORS = ("processes", "dask", "slurm")
JOBS = range(1, 1025)
SECONDS = 10
"""Seconds in which a cluster answers, and processes end."""
AHEAD = 2
"""Items that each worker has, the one that it runs included."""
WORTH = 3.0
"""Seconds of work that is left at which processes are started."""
SOCKET_FOLDER = 70
"""Bytes of the name of a folder in which the address of a server's socket has room."""
JOB_FOLDER = "penstock_jobs"
"""Folder of submitit's scripts and results; nodes and this machine must share it."""
JOB_MINUTES = 24 * 60
JOB_POINTS = 32
"""Points of a job of Slurm: a job waits its turn for longer than a point takes."""

turn = threading.Lock()
"""Points of one process run one after the other: workers of a cluster may have several threads."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class LostError(PenstockError):
    """An item whose process was ended from outside; no store keeps it."""


def lost(where: str) -> LostError:
    """Message about an item that is lost."""
    return LostError(
        "the process that ran it was ended, twice",
        where,
        remedy="see whether the memory suffices, or use fewer jobs",
    )


@dataclass
class Pool:
    """An executor with its number of workers."""

    executor: Executor | None
    workers: int
    batch: int = 1  # points of a task, at most
    # seconds in which points run in this process first: a small sweep starts no other
    lead: float = 0.0
    # makes the executor, again where a lost worker breaks it; None: that ends the sweep
    renew: Callable[[], Executor] | None = None

    def started(self) -> Executor:
        """The executor, made if need be."""
        if self.executor is None and self.renew is not None:
            self.executor = self.renew()
        assert self.executor is not None
        return self.executor

    def broken(self) -> None:
        """End an executor that has lost a worker; PenstockError where it is the caller's."""
        if self.renew is None:
            raise PenstockError(
                "the executor lost a worker and takes no more work",
                remedy="run it again; a store keeps what was done",
            )
        self.end()

    def end(self) -> None:
        """End the processes that this pool has started, and the thread that watches them."""
        if self.renew is None or self.executor is None:
            return
        running = list((getattr(self.executor, "_processes", None) or {}).values())
        manager = getattr(self.executor, "_executor_manager_thread", None)
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.kill()
        if manager is not None:
            manager.join(SECONDS)
        self.executor = None


@dataclass(frozen=True)
class Work(Generic[Item, Result]):
    """Work on every item."""

    # makes the result of an item: a function of a module, which other processes find
    call: Callable[[Item], Result]
    label: Callable[[Item], str] = str  # of an item, for messages
    here: Callable[[Item], Result] | None = None  # what this process does in place of ``call``
    # a result that is there by now, or None: then it is made
    known: Callable[[Item], Result | None] = lambda item: None
    # the result of an item that is lost; None: its error is raised
    fail: Callable[[Item, LostError], Result] | None = None
    # whether an item takes seconds, so that two of them are worth a start of processes
    heavy: bool = False


def each(
    work: Work[Item, Result],
    items: Iterable[Item],
    executor: Executor | Pool | None,
    show: Progress | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Items with their results, as they finish; begun in their order.

    Parameters
    ----------
    work, items
        What is done, and with what; items pickle.
    executor
        Any of `concurrent.futures`, or a pool; None: this process.
    show
        Is told what goes on, not what is done.

    Raises
    ------
    PenstockError
        What ``work.call`` raises, an item that does not pickle, and a lost one where ``work`` has
        no result for it.
    """
    pool = pool_of(executor)
    waiting = deque(items)
    begun = time.monotonic()
    ran = 0
    while waiting and _runs_here(pool, work.heavy, len(waiting), time.monotonic() - begun, ran):
        item = waiting.popleft()
        if (found := work.known(item)) is None:
            found = (work.here or work.call)(item)
            ran += 1
        yield item, found
    if pool is not None and waiting:
        yield from _dispatched(pool, work, waiting, show or Progress())


def _runs_here(pool: Pool | None, heavy: bool, left: int, spent: float, ran: int) -> bool:
    """True if the next item runs in this process."""
    if pool is None or (pool.lead and heavy):
        return pool is None or left == 1
    return spent < pool.lead or bool(pool.lead and ran and spent / ran * left < WORTH)


def _dispatched(
    pool: Pool, work: Work[Item, Result], waiting: deque[Item], show: Progress
) -> Iterator[tuple[Item, Result]]:
    """Items on a pool, with their results."""
    running: dict[Future[Result], Item] = {}
    try:
        while waiting or running:
            while waiting and len(running) < AHEAD * pool.workers:
                item = waiting.popleft()
                if (found := work.known(item)) is not None:
                    yield item, found
                    continue
                try:
                    running[pool.started().submit(work.call, item)] = item
                except BrokenExecutor:
                    waiting.appendleft(item)
                    break
            show.step(f"{len(running)} at a time on {pool.workers} workers")
            finished, _ = wait(running, return_when=ANY)
            if running and not any(_is_broken(future) for future in finished):
                for future in [f for f in running if f in finished]:
                    item = running.pop(future)
                    yield item, _result(work, future, item)
                continue
            pool.broken()
            show.stage("a worker process was lost: what it had in work is run again")
            suspects = dict(running)
            running.clear()
            for future, item in suspects.items():
                if _is_broken(future) or future.cancelled():
                    future = pool.started().submit(work.call, item)  # alone
                    if _is_broken(future):
                        pool.broken()
                yield item, _result(work, future, item)
    finally:
        # An own pool cancels at its end: its thread fails on a future that is cancelled before.
        for future in running if pool.renew is None else ():
            future.cancel()


def _is_broken(future: Future) -> bool:
    """True if a future, when it is done, has lost its process."""
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


def _result(work: Work[Item, Result], future: Future[Result], item: Item) -> Result:
    """Result of an item; raises PenstockError where the call is at fault."""
    try:
        return future.result()
    except PenstockError:
        raise
    except BrokenExecutor:
        return _lost(work, item)
    except (PicklingError, AttributeError, TypeError) as e:
        raise PenstockError(
            f"{work.label(item)} cannot be sent to another process: {e}",
            remedy="write the program to a file and give its path, or use one job",
        ) from None
    except Exception as e:
        if type(e).__name__ != "KilledWorker":  # Dask's, after tries of its own
            raise
        return _lost(work, item)


def _lost(work: Work[Item, Result], item: Item) -> Result:
    """Stand-in for a lost item's result."""
    error = lost(work.label(item))
    if work.fail is None:
        raise error
    return work.fail(item, error)


def default_jobs() -> int:
    """Number of processes: the cores that this one may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool_of(executor: Executor | Pool | None) -> Pool | None:
    """A pool as it is, a caller's executor as one; None: points run in this process."""
    if executor is None or isinstance(executor, Pool):
        return executor
    if not isinstance(executor, Executor):
        raise PenstockError(
            f"{type(executor).__name__} is no executor",
            remedy="give a concurrent.futures.Executor, such as client.get_executor() of Dask",
        )
    return Pool(executor, getattr(executor, "_max_workers", None) or default_jobs())


@contextlib.contextmanager
def named(name: str = "processes", jobs: int | None = None) -> Iterator[Pool | None]:
    """The pool that a command line asks for.

    Parameters
    ----------
    name
        ``processes``, ``dask:ADDRESS`` (of a scheduler), ``slurm`` or ``slurm:PARTITION``.
    jobs
        Processes, or jobs at a time; None: as many as there are cores, or threads in the cluster.

    Raises
    ------
    PenstockError
        No such executor, a package that is not installed, or a cluster that does not answer.
    """
    kind, _, place = name.partition(":")
    if jobs is not None:
        within("--jobs", jobs, JOBS)
    if kind not in EXECUTORS or (kind == "processes" and place):
        raise PenstockError(f"no executor {name!r}", remedy=nearest(kind, EXECUTORS, "one of"))
    if kind == "dask":
        with _dask(place, jobs) as pool:
            yield pool
        return
    count = jobs or default_jobs()
    if kind == "slurm":
        with Slurm(count, place or None) as executor:
            yield Pool(executor, count, batch=JOB_POINTS)
        return
    pool = processes(count) if count > 1 else None
    try:
        with environment("PYTHONSAFEPATH", "1"):  # multiprocessing has no option for that
            yield pool
    except KeyboardInterrupt:
        end_server(kill=True)
        raise
    finally:
        if pool is not None:
            pool.end()


def processes(jobs: int) -> Pool:
    """Processes of this machine, forked from one that has imported what they need, where that can
    be; they end with this process.
    """
    fits = len(os.fsencode(tempfile.gettempdir())) < SOCKET_FOLDER
    forks = fits and "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    context.set_forkserver_preload([f"{__package__}.warm"])

    def made() -> Executor:
        keep_until_end(Path(util.get_temp_dir()))  # of sockets; an interrupted command leaves it
        atexit.unregister(end_server)
        atexit.register(end_server)
        return ProcessPoolExecutor(jobs, context, _begin)

    return Pool(None, jobs, lead=1.0, renew=made)


def end_server(kill: bool = False) -> None:
    """End the process that workers are forked from, and wait for it: CPU time of workers counts as
    that of this process's children. The next pool has another server.

    ``kill``: what an interrupted command still asks of it would start in vain, and say so.
    """
    server = getattr(forkserver, "_forkserver", None)
    pid = getattr(server, "_forkserver_pid", None)
    if server is None or pid is None:
        return
    with contextlib.suppress(OSError):
        if kill:
            os.kill(pid, signal.SIGKILL)
        server._stop()


def _begin() -> None:
    """A worker leaves Ctrl-C to its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _dask(address: str, jobs: int | None) -> Iterator[Pool]:
    """A cluster whose scheduler has an address; points of a lost worker go to others."""
    if not address:
        raise PenstockError(
            "--executor dask has no address", remedy="write dask:tcp://HOST:8786, the scheduler's"
        )
    try:
        from distributed import Client
    except ImportError:
        raise PenstockError(
            "the package distributed is not installed", remedy="pip install 'penstock[dask]'"
        ) from None
    try:
        client = Client(address, timeout=SECONDS)
        client.wait_for_workers(1, timeout=SECONDS)
    except (OSError, ValueError, TypeError) as e:
        raise PenstockError(
            f"no Dask cluster with workers answers at {address}: {e}",
            remedy="start `dask scheduler` and `dask worker ADDRESS`, and give that address",
        ) from None
    with client:
        workers = jobs or len(client.scheduler_info(n_workers=-1)["workers"])
        yield Pool(client.get_executor(pure=False), workers)


class Slurm(ThreadPoolExecutor):
    """Runs each call as a job of its own, which submitit writes, submits and reads back.

    Parameters
    ----------
    jobs
        Jobs at a time, twice of which wait their turn.
    partition
        Of the cluster; None: its default.
    cluster
        ``slurm``, or ``local``: processes of this machine, started the same way.
    """

    def __init__(self, jobs: int, partition: str | None = None, cluster: str = "slurm"):
        try:
            import submitit
        except ImportError:
            raise PenstockError(
                "the package submitit is not installed", remedy="pip install 'penstock[slurm]'"
            ) from None
        try:
            self._jobs = submitit.AutoExecutor(folder=Path(JOB_FOLDER).absolute(), cluster=cluster)
        except RuntimeError as e:
            raise PenstockError(
                f"no Slurm here: {e}", remedy="run this where `sbatch` is"
            ) from None
        self._jobs.update_parameters(
            timeout_min=JOB_MINUTES, cpus_per_task=1, slurm_setup=["export PYTHONSAFEPATH=1"]
        )
        if partition is not None:
            self._jobs.update_parameters(slurm_partition=partition)
        self._running: set[Any] = set()
        self._one = threading.Lock()
        super().__init__(AHEAD * jobs)

    def submit(self, fn: Callable, /, *args, **kwargs) -> Future:
        return super().submit(self._job, fn, *args, **kwargs)

    def _job(self, fn: Callable, *args, **kwargs) -> Any:
        with self._one:
            job = self._jobs.submit(fn, *args, **kwargs)
            self._running.add(job)
        try:
            return job.result()
        finally:
            self._running.discard(job)

    def __exit__(self, kind, value, trace) -> None:
        if kind is not None:
            for job in list(self._running):
                job.cancel()
        self.shutdown(cancel_futures=kind is not None)
