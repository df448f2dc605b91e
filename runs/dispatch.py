"""Work on an executor, item by item: what a process that was lost had in work is run again.

1. Each worker has an item or two.
2. A result is handed on before the next one is looked at.
3. Where a process is lost, what it and its neighbours had in work is run again, one item at a
   time; an item that ends its process twice so is lost.
4. A pool with a lead begins in this process: a little work starts no other. It goes on here until
   the others have started.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED as ANY
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from pickle import PicklingError
from typing import Generic, TypeVar

from ..machine.errors import PenstockError
from .executors import Pool, pool_of
from .progress import Progress

AHEAD = 2
"""Items that each worker has, the one that it runs included."""
MANY = 200
"""Items for which the start of other processes begins at once."""
WORTH = 3.0
"""Seconds of work that is left at which other processes are started."""
TRIES = 2
"""Processes that an item may end, alone, before it is lost."""

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


@dataclass(frozen=True)
class Work(Generic[Item, Result]):
    """Work on every item.

    Attributes
    ----------
    call
        Makes the result of an item: a function of a module, which other processes find.
    label
        Of an item, for messages.
    here
        What this process does in place of ``call``.
    known
        A result that is there by now, or None: then it is made.
    fail
        The result of an item that is lost; None: its error is raised.
    heavy
        Whether an item takes seconds, so that two of them are worth a start of processes.
    """

    call: Callable[[Item], Result]
    label: Callable[[Item], str] = str
    here: Callable[[Item], Result] | None = None
    known: Callable[[Item], Result | None] = lambda item: None
    fail: Callable[[Item, LostError], Result] | None = None
    heavy: bool = False

    def without(self, item: Item) -> Result:
        """Stand-in for a lost item's result."""
        error = lost(self.label(item))
        if self.fail is None:
            raise error
        return self.fail(item, error)


def each(
    work: Work[Item, Result],
    items: Iterable[Item],
    executor: Executor | Pool | None,
    show: Progress | None = None,
) -> Iterator[tuple[Item, Result]]:
    """Items with their results, as they finish; begun in their order.

    Parameters
    ----------
    work
        What is done with them.
    items
        What ``work.call`` takes; they pickle.
    executor
        Any of `concurrent.futures`, or a pool of :mod:`.executors`; None: this process.
    show
        Is told what goes on, not what is done.

    Raises
    ------
    PenstockError
        What ``work.call`` raises, an item that does not pickle, and a lost one where ``work`` has
        no result for it.
    """
    show = show or Progress()
    pool = pool_of(executor)
    waiting = deque(items)
    here = work.here or work.call
    lead = _Lead(pool, work.heavy)
    while waiting and lead.goes_on(len(waiting)):
        item = waiting.popleft()
        if (found := work.known(item)) is None:
            found = here(item)
            lead.done += 1
        yield item, found
    if pool is not None:
        yield from _Dispatch(pool, work, waiting, show).run()


@dataclass
class _Lead:
    """Work in this process before other processes begin.

    Attributes
    ----------
    begun, done
        When it began, and the items that it ran.
    """

    pool: Pool | None
    heavy: bool
    begun: float = field(default_factory=time.monotonic)
    done: int = 0

    @property
    def each(self) -> float:
        """Seconds of an item; 0 while that is not known."""
        return (time.monotonic() - self.begun) / self.done if self.done else 0.0

    def goes_on(self, left: int) -> bool:
        """True if the next item runs here; where others are worth their start, that begins."""
        pool = self.pool
        if pool is None:
            return True
        if not pool.lead:
            return False
        if self.heavy:
            return left == 1
        spent = time.monotonic() - self.begun
        worth = left >= MANY or (spent >= pool.lead and self.each * left >= WORTH)
        if worth:
            pool.start()
        return not (worth and pool.ready)


@dataclass
class _Dispatch(Generic[Item, Result]):
    """Items on an executor, each with the number of processes that it ended while it was alone.

    Attributes
    ----------
    waiting, suspects
        Items to run; those that a lost process had in work, which run one at a time.
    running
        Futures and their items.
    """

    pool: Pool
    work: Work[Item, Result]
    waiting: deque[Item]
    show: Progress
    suspects: deque[tuple[Item, int]] = field(default_factory=deque)
    running: dict[Future[Result], tuple[Item, int]] = field(default_factory=dict)

    def run(self) -> Iterator[tuple[Item, Result]]:
        """Items with their results, as they finish."""
        try:
            while self.waiting or self.suspects or self.running:
                yield from self._submit()
                self.show.step(f"{len(self.running)} at a time on {self.pool.workers} workers")
                finished, _ = wait(self.running, return_when=ANY)
                broken = False
                for future in [f for f in self.running if f in finished]:
                    if isinstance(future.exception(), BrokenExecutor):
                        broken = True
                    else:
                        item, _ = self.running.pop(future)
                        yield item, self._result(future, item)
                if broken:
                    yield from self._broken()
        finally:
            for future in self.running:
                future.cancel()

    def _submit(self) -> Iterator[tuple[Item, Result]]:
        """Give the executor work; items with results that are known by now."""
        most = 1 if self.suspects else AHEAD * self.pool.workers
        while len(self.running) < most and (self.suspects or self.waiting):
            if self.running and self.suspects:
                return
            item, ended = self.suspects.popleft() if self.suspects else (self.waiting.popleft(), 0)
            if (found := self.work.known(item)) is not None:
                yield item, found
                continue
            try:
                future = self.pool.started().submit(self.work.call, item)
            except BrokenExecutor:
                self.suspects.appendleft((item, ended))
                yield from self._broken()
                return
            self.running[future] = item, ended

    def _broken(self) -> Iterator[tuple[Item, Result]]:
        """Put back the items in work; one that was alone, and again, is lost."""
        gone = dict(self.running)
        self.running.clear()
        self.pool.broken()
        self.show.stage("a worker process was lost: what it had in work is run again")
        for future, (item, ended) in gone.items():
            ended += len(gone) == 1
            if future.done() and not future.cancelled() and future.exception() is None:
                yield item, future.result()
            elif ended < TRIES:
                self.suspects.append((item, ended))
            else:
                yield item, self.work.without(item)

    def _result(self, future: Future[Result], item: Item) -> Result:
        """Result of an item; raises PenstockError where the call is at fault."""
        try:
            return future.result()
        except PenstockError:
            raise
        except (PicklingError, AttributeError, TypeError) as e:
            raise PenstockError(
                f"{self.work.label(item)} cannot be sent to another process: {e}",
                remedy="write the program to a file and give its path, or use one job",
            ) from None
        except Exception as e:
            if type(e).__name__ != "KilledWorker":  # Dask's, after tries of its own
                raise
            return self.work.without(item)
