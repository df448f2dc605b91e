"""Many points: what a store has is read, the rest is run, here or on an executor.

1. Points that share a simulator are a batch, or several; the first batch of each structure goes
   first, so that builds run side by side. On the model a point is a batch.
2. A result is in the store before the next one is looked at.
3. Where a process is lost, what it and its neighbours had in work is run again, one batch at a
   time; a batch that ends its process twice so fails.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED as ANY
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import asdict, replace
from pickle import PicklingError

from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError
from . import outcomes as here
from . import worker
from .executors import Pool, pool_of
from .options import Options, Seeds, seeds_of
from .outcomes import Outcome
from .point import label
from .progress import Progress
from .progress import of as progress_of
from .store import Store
from .task import Batch, sources_digest

__all__ = ["each", "outcomes"]

AHEAD = 2
"""Batches that each worker has, the one that it runs included."""
MANY = 200
"""Batches for which the start of other processes begins at once."""
WORTH = 3.0
"""Seconds of work that is left at which other processes are started."""
TRIES = 2
"""Processes that a batch may end, alone, before it fails."""


class LostError(PenstockError):
    """A point whose process was ended from outside; no store keeps it."""


def outcomes(
    program: str,
    config: str | Config,
    points: list[dict],
    *,
    seed: Seeds = 0,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
    store: Store | None = None,
    **options,
) -> list[Outcome]:
    """What became of each of ``points``, in their order; arguments as of :func:`each`."""
    if executor is None and store is None:
        return here.outcomes(program, config, points, seed=seed, progress=progress, **options)
    found = each(
        program,
        config,
        points,
        seed=seed,
        progress=progress,
        executor=executor,
        store=store,
        **options,
    )
    return [o for _, o in sorted(found, key=lambda pair: pair[0])]


def each(
    program: str,
    config: str | Config,
    points: list[dict],
    *,
    seed: Seeds = 0,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
    store: Store | None = None,
    **options,
) -> Iterator[tuple[int, Outcome]]:
    """The place and the outcome of each point, as it is found or finished.

    Parameters
    ----------
    program, config, points, seed, progress
        As of :func:`~penstock.runs.outcomes.outcomes`.
    executor
        Any of `concurrent.futures`, or a pool of :mod:`.executors`; None: this process.
    store
        What it has is not run; what is run is added to it.
    options
        Of :class:`~penstock.runs.options.Options`.

    Raises
    ------
    PenstockError
        What is wrong with the call itself; with ``keep_going`` false the first error of a point.
        What was done before stays in the store.

    """
    seeds = seeds_of(seed, len(points))
    how = Options(**options)
    config = config if isinstance(config, Config) else load_config(config)
    whole = Batch(program, config, tuple(points), tuple(seeds), tuple(range(len(points))), how)
    sweep = _Sweep(whole, pool_of(executor), store, progress_of(progress))
    for place, outcome in sweep.run():
        if outcome.error is not None and not how.keep_going:
            raise outcome.error
        yield place, outcome


class _Sweep:
    """The points of one call on their way."""

    def __init__(self, whole: Batch, pool: Pool | None, store: Store | None, show: Progress):
        self.pool = None if whole.how.waves else pool
        self.store = store
        self.show = show
        self.keys: list[str] = []
        if store is not None or (self.pool is not None and not self.pool.lead):
            # Workers of a cluster have files of their own.
            whole = replace(whole, sources=sources_digest(whole.program, whole.how.on_rtl))
        self.whole = whole
        if store is not None:
            self.keys = whole.keys()

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Places and outcomes."""
        left: list[int] = []
        for place in self.whole.places:
            if (kept := self._kept(place)) is not None:
                yield place, kept
            else:
                left.append(place)
        if self.keys:
            left, again = self._unlike(left)
            if len(left) < len(self.whole.places):
                told = f"{len(self.whole.places) - len(left)} of {len(self.whole.places)} points"
                self.show.stage(f"{told} are in the store")
        else:
            again = {}
        self.show.plan(len(left))
        for place, outcome in self._fresh(self.whole.only(left)):
            yield place, outcome
            for other in again.get(place, ()):
                yield other, outcome

    def _unlike(self, left: list[int]) -> tuple[list[int], dict[int, list[int]]]:
        """Points of which none is another, and the places of those that are."""
        first: dict[str, int] = {}
        again: dict[int, list[int]] = {}
        for place in left:
            if first.setdefault(self.keys[place], place) != place:
                again.setdefault(first[self.keys[place]], []).append(place)
        return list(first.values()), again

    def _kept(self, place: int) -> Outcome | None:
        """What the store has of a point."""
        if self.store is None:
            return None
        return self.store.outcome(self.keys[place])

    def _fresh(self, todo: Batch) -> Iterator[tuple[int, Outcome]]:
        """Run points that are in no store, each of which is added to it."""
        for batch, found in self._batches_run(todo):
            for place, outcome in zip(batch.places, found, strict=True):
                self._keep(place, outcome)
                self.show.done(label(batch.program, outcome.params))
                yield place, outcome

    def _keep(self, place: int, outcome: Outcome) -> None:
        """Add an outcome to the store, unless it may come out otherwise when it is run again."""
        if self.store is None or isinstance(outcome.error, LostError):
            return
        if outcome.error is not None and self.whole.how.on_rtl:
            return
        self.store.add(self.keys[place], self.whole, place, outcome)

    def _batches_run(self, todo: Batch) -> Iterator[tuple[Batch, list[Outcome]]]:
        """Batches with the outcomes of their points, as they finish."""
        pool = self.pool
        batches = deque(_batches(todo, pool))
        if pool is not None and pool.prepare is not None and len(batches) >= MANY:
            pool.prepare()
        start = time.monotonic()
        done = 0
        while batches and (pool is None or not self._worth(pool, start, done, len(batches))):
            batch = batches.popleft()
            if (found := self._since(batch)) is None:
                found = self._here(batch)
                done += 1
            yield batch, found
        if pool is not None:
            yield from _Dispatch(pool, batches, self._since, self.show).run()

    def _worth(self, pool: Pool, start: float, done: int, left: int) -> bool:
        """Whether it is time to start the executor."""
        spent = time.monotonic() - start
        if not pool.lead:
            return True
        if self.whole.how.on_rtl:
            return left > 1
        return spent >= pool.lead and spent / max(done, 1) * left >= WORTH

    def _since(self, batch: Batch) -> list[Outcome] | None:
        """What another writer of the store has made of a whole batch by now."""
        if self.store is None:
            return None
        self.store.refresh()
        found = [self._kept(place) for place in batch.places]
        whole = [o for o in found if o is not None]
        return whole if len(whole) == len(found) else None

    def _here(self, batch: Batch) -> list[Outcome]:
        return here.outcomes(
            batch.program,
            batch.config,
            list(batch.points),
            seed=list(batch.seeds),
            progress=_Stages(self.show),
            **(asdict(batch.how) | {"keep_going": True}),
        )


class _Stages(Progress):
    """Hands on what goes on, not what is done: the points are counted elsewhere."""

    def __init__(self, show: Progress):
        super().__init__()
        self.show = show

    def stage(self, what: str) -> None:
        self.show.stage(what)

    def step(self, what: str) -> None:
        self.show.step(what)


class _Dispatch:
    """Batches on an executor.

    Attributes
    ----------
    waiting, suspects
        Batches to run; those that a lost process had in work, which run one at a time.
    running
        Futures and their batches.

    """

    def __init__(
        self,
        pool: Pool,
        batches: Iterable[Batch],
        known: Callable[[Batch], list[Outcome] | None],
        show: Progress,
    ):
        self.pool = pool
        self.waiting = deque(batches)
        self.suspects: deque[Batch] = deque()
        self.running: dict[Future, Batch] = {}
        self.ended: dict[tuple[int, ...], int] = {}
        self.known = known
        self.show = show

    def run(self) -> Iterator[tuple[Batch, list[Outcome]]]:
        """Batches with the outcomes of their points, as they finish."""
        try:
            while self.waiting or self.suspects or self.running:
                yield from self._submit()
                self.show.step(f"{len(self.running)} batches on {self.pool.workers} workers")
                finished, _ = wait(self.running, return_when=ANY)
                broken = False
                for future in finished:
                    if isinstance(future.exception(), BrokenExecutor):
                        broken = True
                    else:
                        batch = self.running.pop(future)
                        yield batch, _result(future, batch)
                if broken:
                    yield from self._broken()
        finally:
            for future in self.running:
                future.cancel()

    def _submit(self) -> Iterator[tuple[Batch, list[Outcome]]]:
        """Give the executor work, but for what is known by now."""
        most = 1 if self.suspects else AHEAD * self.pool.workers
        while len(self.running) < most and (self.suspects or self.waiting):
            if self.running and self.suspects:
                return
            batch = (self.suspects or self.waiting).popleft()
            if (found := self.known(batch)) is not None:
                yield batch, found
                continue
            try:
                future = self.pool.started().submit(worker.run, batch)
            except BrokenExecutor:
                self.waiting.appendleft(batch)
                yield from self._broken()
                return
            self.running[future] = batch

    def _broken(self) -> Iterator[tuple[Batch, list[Outcome]]]:
        """Put back what was in work; a batch that was alone, and again, has failed."""
        lost = dict(self.running)
        self.running.clear()
        self.pool.broken()
        self.show.stage("a worker process was lost: what it had in work is run again")
        for future, batch in lost.items():
            if future.done() and future.exception() is None:
                yield batch, future.result()
                continue
            alone = len(lost) == 1
            times = self.ended[batch.places] = self.ended.get(batch.places, 0) + alone
            if times < TRIES:
                self.suspects.append(batch)
            else:
                yield batch, [Outcome(p, error=_lost(batch, p)) for p in batch.points]


def _lost(batch: Batch, params: dict) -> LostError:
    return LostError(
        "the process that ran it was ended, twice",
        label(batch.program, params),
        remedy="see whether the memory suffices, or use fewer jobs",
    )


def _result(future: Future, batch: Batch) -> list[Outcome]:
    """The outcomes of a batch.

    Raises PenstockError where the call is at fault.
    """
    try:
        return future.result()
    except PenstockError:
        raise
    except (PicklingError, AttributeError, TypeError) as e:
        raise PenstockError(
            f"the points cannot be sent to another process: {e}",
            remedy="write the program to a file and give its path, or use one job",
        ) from None
    except Exception as e:
        if type(e).__name__ != "KilledWorker":
            raise
        return [Outcome(p, error=_lost(batch, p)) for p in batch.points]


def _batches(todo: Batch, pool: Pool | None) -> list[Batch]:
    """What is run together, in the order in which it is begun."""
    if not todo.how.on_rtl:
        size = 1 if pool is None else pool.batch
        starts = range(0, len(todo.places), size)
        return [todo.only(range(i, min(i + size, len(todo.places)))) for i in starts]
    groups: dict[str, list[int]] = {}
    for i, params in enumerate(todo.points):
        groups.setdefault(_structure(todo, params, i), []).append(i)
    rounds: list[list[Batch]] = []
    for members in groups.values():
        size = len(members) if pool is None else -(-len(members) // pool.workers)
        for k, start in enumerate(range(0, len(members), size)):
            if k == len(rounds):
                rounds.append([])
            rounds[k].append(todo.only(members[start : start + size]))
    return [batch for one in rounds for batch in one]


def _structure(todo: Batch, params: dict, i: int) -> str:
    """What the points of one simulator share; a point that cannot be built is alone."""
    try:
        graph = lower(build(todo.program, params, todo.config).graph, todo.config)
    except PenstockError:
        return f"{i}"
    return json.dumps(graph.structure().to_dict(), sort_keys=True)
