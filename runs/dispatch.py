"""Work on an executor, item by item: what a process that was lost had in work is run again.

1. A few workers' items are ahead; a result is handed on before the next one is looked at.
2. Where a process is lost, what it and its neighbours had in work is run again, one item at a
   time; an item that ends its process twice so is lost.
3. A pool with a lead begins in this process: a little work starts no other.
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

__all__ = ["AHEAD", "LostError", "Work", "each", "lost"]

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
    """What is said of an item that is lost."""
    return LostError(
        "the process that ran it was ended, twice",
        where,
        remedy="see whether the memory suffices, or use fewer jobs",
    )


@dataclass(frozen=True)
class Work(Generic[Item, Result]):
    """What is done with every item.

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
        """What stands for a lost item's result."""
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
    if pool is not None and pool.prepare is not None and len(waiting) >= MANY:
        pool.prepare()
    start = time.monotonic()
    done = 0
    while waiting and (pool is None or not _worth(pool, work.heavy, start, done, len(waiting))):
        item = waiting.popleft()
        if (found := work.known(item)) is None:
            found = here(item)
            done += 1
        yield item, found
    if pool is not None:
        yield from _Dispatch(pool, work, deque(map(_Turn, waiting)), show).run()


def _worth(pool: Pool, heavy: bool, start: float, done: int, left: int) -> bool:
    """Whether it is time to start the executor."""
    if not pool.lead:
        return True
    if heavy:
        return left > 1
    spent = time.monotonic() - start
    return spent >= pool.lead and spent / max(done, 1) * left >= WORTH


@dataclass
class _Turn(Generic[Item]):
    """An item, and how many processes it ended while it was alone."""

    item: Item
    ended: int = 0


@dataclass
class _Dispatch(Generic[Item, Result]):
    """Items on an executor.

    Attributes
    ----------
    waiting, suspects
        Items to run; those that a lost process had in work, which run one at a time.
    running
        Futures and their items.

    """

    pool: Pool
    work: Work[Item, Result]
    waiting: deque[_Turn[Item]]
    show: Progress
    suspects: deque[_Turn[Item]] = field(default_factory=deque)
    running: dict[Future[Result], _Turn[Item]] = field(default_factory=dict)

    def run(self) -> Iterator[tuple[Item, Result]]:
        """Items with their results, as they finish."""
        try:
            while self.waiting or self.suspects or self.running:
                yield from self._submit()
                self.show.step(f"{len(self.running)} at a time on {self.pool.workers} workers")
                finished, _ = wait(self.running, return_when=ANY)
                broken = False
                for future in finished:
                    if isinstance(future.exception(), BrokenExecutor):
                        broken = True
                    else:
                        item = self.running.pop(future).item
                        yield item, self._result(future, item)
                if broken:
                    yield from self._broken()
        finally:
            for future in self.running:
                future.cancel()

    def _submit(self) -> Iterator[tuple[Item, Result]]:
        """Give the executor work, but for what is known by now."""
        most = 1 if self.suspects else AHEAD * self.pool.workers
        while len(self.running) < most and (self.suspects or self.waiting):
            if self.running and self.suspects:
                return
            turn = (self.suspects or self.waiting).popleft()
            if (found := self.work.known(turn.item)) is not None:
                yield turn.item, found
                continue
            try:
                future = self.pool.started().submit(self.work.call, turn.item)
            except BrokenExecutor:
                self.waiting.appendleft(turn)
                yield from self._broken()
                return
            self.running[future] = turn

    def _broken(self) -> Iterator[tuple[Item, Result]]:
        """Put back what was in work; an item that was alone, and again,
        is lost.
        """
        gone = dict(self.running)
        self.running.clear()
        self.pool.broken()
        self.show.stage("a worker process was lost: what it had in work is run again")
        for future, turn in gone.items():
            if future.done() and future.exception() is None:
                yield turn.item, future.result()
                continue
            turn.ended += len(gone) == 1
            if turn.ended < TRIES:
                self.suspects.append(turn)
            else:
                yield turn.item, self.work.without(turn.item)

    def _result(self, future: Future, item: Item) -> Result:
        """The result of an item.

        Raises PenstockError where the call is at fault.
        """
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
            if type(e).__name__ != "KilledWorker":
                raise
            return self.work.without(item)
