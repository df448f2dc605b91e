"""Executors of points: processes of this machine, a Dask cluster, Slurm, or any executor of
`concurrent.futures`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver, util
from pathlib import Path

from ..machine.errors import PenstockError, nearest
from ..machine.limits import within
from ..system.children import environment, keep_until_end
from .slurm import Slurm
from .worker import begin

EXECUTORS = ("processes", "dask", "slurm")
JOBS = range(1, 1025)
SECONDS = 10
"""What a cluster is given to answer, and processes to end."""
SOCKET = "pymp-01234567/listener-01234567"
"""As multiprocessing names it, below the folder for temporary files."""
SOCKET_PATH = 104
"""Bytes that a socket's address has room for, with the zero behind it: the least of the systems
that Penstock runs on.
"""
SLURM_BATCH = 32
"""Points of a job of Slurm: a job waits its turn for longer than a point takes."""


@dataclass
class Pool:
    """An executor, and what it takes to keep it busy.

    Attributes
    ----------
    executor
        Takes functions of a module, with arguments that pickle.
    workers
        Tasks that it runs at a time.
    batch
        Points of a task, at most.
    lead
        Seconds in which points run in this process first: a small sweep starts no other.
    renew
        Makes another in its place, where a lost worker breaks it; None: that ends the sweep.
    warm
        Waits until it would start at once, if it does not.
    """

    executor: Executor | None
    workers: int
    batch: int = 1
    lead: float = 0.0
    renew: Callable[[], Executor] | None = None
    warm: Callable[[], None] | None = None

    def __post_init__(self):
        self._warming: threading.Thread | None = None

    def start(self) -> None:
        """Begin, and do not wait for, what a start takes."""
        if self._warming is None and self.warm is not None:
            self._warming = threading.Thread(target=self.warm, daemon=True)
            self._warming.start()

    @property
    def ready(self) -> bool:
        """True if what a start takes is done."""
        return self.warm is None or (self._warming is not None and not self._warming.is_alive())

    def started(self) -> Executor:
        """The executor, made if need be."""
        if self.executor is None and self.renew is not None:
            self.executor = self.renew()
        assert self.executor is not None
        return self.executor

    def broken(self) -> None:
        """Take notice that a worker was lost.

        Raises PenstockError where the executor is the caller's.
        """
        if self.renew is None:
            raise PenstockError(
                "the executor lost a worker and takes no more work",
                remedy="run it again; a store keeps what was done",
            )
        self.end()

    def end(self) -> None:
        """End the processes that this pool has started."""
        if self.renew is None or self.executor is None:
            return
        _end(self.executor)
        self.executor = None
        gc.collect()  # what it leaves: an interrupted command leaves without looking for them


def _end(executor: Executor) -> None:
    """End an executor's processes, and wait for the thread that watches them: it has semaphores."""
    running = list((getattr(executor, "_processes", None) or {}).values())
    manager = getattr(executor, "_executor_manager_thread", None)
    executor.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.kill()
    if manager is not None:
        manager.join(SECONDS)


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
    if kind == "slurm":
        with Slurm(place or None) as executor:
            yield Pool(executor, jobs or default_jobs(), batch=SLURM_BATCH)
        return
    count = default_jobs() if jobs is None else jobs
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
    """Processes of this machine, started when there is more to do than takes a second.

    They are forked from one that has imported what they need, where that can be, and end with this
    process.
    """
    forks = _forks()
    context = multiprocessing.get_context("forkserver" if forks else "spawn")
    context.set_forkserver_preload([f"{__package__}.warm"])

    def made() -> Executor:
        _guarded()
        atexit.unregister(end_server)
        atexit.register(end_server)
        return ProcessPoolExecutor(jobs, context, _begin)

    def warm() -> None:
        _guarded()
        with contextlib.suppress(OSError):  # a worker's start tells it
            server = multiprocessing.get_context("forkserver")
            first = server.Process(target=os.getpid, daemon=True)
            first.start()
            first.join()

    return Pool(None, jobs, lead=1.0, renew=made, warm=warm if forks else None)


def _forks() -> bool:
    """True if workers can be forked from a server: the address of its socket, below the folder for
    temporary files, has a largest length.
    """
    address = Path(tempfile.gettempdir(), SOCKET)
    fits = len(os.fsencode(address)) < SOCKET_PATH
    return fits and "forkserver" in multiprocessing.get_all_start_methods()


def _guarded() -> None:
    """See that the folder of multiprocessing's sockets ends with this process, however that
    ends.
    """
    keep_until_end(Path(util.get_temp_dir()))


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
    begin()


@contextlib.contextmanager
def _dask(address: str, jobs: int | None) -> Iterator[Pool]:
    """A cluster whose scheduler has an address; a worker that is lost gives its points to others.

    A worker may have several threads: points of one process run one after the other.
    """
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
