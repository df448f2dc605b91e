"""Many points: what a store has is read, the rest is run, here or on an executor.

1. Points that share a simulator are a batch, or several; the first batch of each structure goes
   first, the largest before the others, so that builds run side by side. On the model a point is
   a batch.
2. A result is in the store before the next one is looked at.
3. Several calls are one piece of work: nothing waits for the end of the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace

from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError
from . import dispatch, worker
from . import outcomes as here
from .dispatch import LostError
from .executors import Pool, pool_of
from .options import Options, Seeds, seeds_of
from .outcomes import Outcome
from .point import label
from .progress import Progress
from .progress import of as progress_of
from .store import Store
from .task import Batch, sources_digest


def call(
    program: str, config: str | Config, points: list[dict], *, seed: Seeds = 0, **options
) -> Batch:
    """Points that are run the same way; arguments as of :func:`each`."""
    seeds = seeds_of(seed, len(points))
    how = Options(**options)
    config = config if isinstance(config, Config) else load_config(config)
    return Batch(program, config, tuple(points), tuple(seeds), tuple(range(len(points))), how)


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
    """Outcomes of ``points``, in their order; arguments as of :func:`each`."""
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
    whole = call(program, config, points, seed=seed, **options)
    found = several([whole], progress=progress, executor=executor, store=store)
    for _, place, outcome in found:
        yield place, outcome


def several(
    calls: Sequence[Batch],
    *,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
    store: Store | None = None,
) -> Iterator[tuple[int, int, Outcome]]:
    """The number of the call, the place in it and the outcome of each point of several calls, as it
    is found or finished; further arguments and errors as of :func:`each`.

    A call with ``waves`` is one of its own.
    """
    first = [0]
    for one in calls:
        first.append(first[-1] + len(one.points))
    wholes = [
        replace(one, places=tuple(range(start, start + len(one.points))))
        for one, start in zip(calls, first, strict=False)
    ]
    sweep = _Sweep(wholes, pool_of(executor), store, progress_of(progress))
    number = [i for i, one in enumerate(calls) for _ in one.points]
    for place, outcome in sweep.run():
        i = number[place]
        if outcome.error is not None and not calls[i].how.keep_going:
            raise outcome.error
        yield i, place - first[i], outcome


class _Sweep:
    """The points of some calls on their way."""

    def __init__(
        self, wholes: Sequence[Batch], pool: Pool | None, store: Store | None, show: Progress
    ):
        self.pool = None if any(one.how.waves for one in wholes) else pool
        self.store = store
        self.show = show
        if store is not None or (self.pool is not None and not self.pool.lead):
            # Workers of a cluster have files of their own.
            wholes = [
                replace(one, sources=sources_digest(one.program, one.how.on_rtl)) for one in wholes
            ]
        self.wholes = wholes
        self.keys = [key for one in wholes for key in one.keys()] if store is not None else []

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Places and outcomes."""
        left: list[int] = []
        places = range(sum(len(one.places) for one in self.wholes))
        for place in places:
            if (kept := self._kept(place)) is not None:
                yield place, kept
            else:
                left.append(place)
        again: dict[int, list[int]] = {}
        if self.keys:
            left, again = self._unlike(left)
            if len(left) < len(places):
                told = f"{len(places) - len(left)} of {len(places)} points"
                self.show.stage(f"{told} are in the store")
        self.show.plan(len(left))
        wanted = set(left)
        todo = [
            one.only([i for i, place in enumerate(one.places) if place in wanted])
            for one in self.wholes
        ]
        for place, outcome in self._fresh(todo):
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
        """The store's outcome of a point."""
        if self.store is None:
            return None
        return self.store.outcome(self.keys[place])

    def _fresh(self, todo: Sequence[Batch]) -> Iterator[tuple[int, Outcome]]:
        """Run points that are in no store, each of which is added to it."""
        work = dispatch.Work(
            worker.run,
            label=lambda batch: label(batch.program, {}),
            here=self._here,
            known=self._since,
            fail=_lost,
            heavy=any(one.how.on_rtl for one in todo),
        )
        batches = _batches(todo, self.pool)
        for batch, found in dispatch.each(work, batches, self.pool, self.show):
            for place, outcome in zip(batch.places, found, strict=True):
                self._keep(batch, place, outcome)
                self.show.done(label(batch.program, outcome.params))
                yield place, outcome

    def _keep(self, batch: Batch, place: int, outcome: Outcome) -> None:
        """Add an outcome to the store, unless it may come out otherwise when it is run again."""
        if self.store is None or isinstance(outcome.error, LostError):
            return
        if outcome.error is not None and batch.how.on_rtl:
            return
        self.store.add(self.keys[place], batch, place, outcome)

    def _since(self, batch: Batch) -> list[Outcome] | None:
        """Outcomes of a whole batch by another writer of the store."""
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


def _lost(batch: Batch, _: LostError) -> list[Outcome]:
    """Each point of a lost batch is lost."""
    return [Outcome(p, error=dispatch.lost(label(batch.program, p))) for p in batch.points]


def _batches(todo: Sequence[Batch], pool: Pool | None) -> list[Batch]:
    """Batches that run together, in the order in which they begin."""
    on_model = [b for one in todo if not one.how.on_rtl for b in _pieces(one, pool)]
    rounds: list[list[tuple[int, Batch]]] = []
    for one in todo:
        for structure, members in _structures(one).items():
            size = len(members) if pool is None else -(-len(members) // pool.workers)
            for k, start in enumerate(range(0, len(members), size)):
                if k == len(rounds):
                    rounds.append([])
                rounds[k].append((len(structure), one.only(members[start : start + size])))
    for one in rounds:
        one.sort(key=lambda pair: -pair[0])  # what is built longest
    return [batch for one in rounds for _, batch in one] + on_model


def _pieces(one: Batch, pool: Pool | None) -> list[Batch]:
    """Points that run on the model."""
    size = 1 if pool is None else pool.batch
    starts = range(0, len(one.places), size)
    return [one.only(range(i, min(i + size, len(one.places)))) for i in starts]


def _structures(one: Batch) -> dict[str, list[int]]:
    """Points that run on RTL, by what they share a simulator with."""
    groups: dict[str, list[int]] = {}
    for i, params in enumerate(one.points if one.how.on_rtl else ()):
        groups.setdefault(_structure(one, params, i), []).append(i)
    return groups


def _structure(todo: Batch, params: dict, i: int) -> str:
    """Structure that the points of one simulator share; a point that cannot be built is alone."""
    if todo.how.on_array:
        return todo.config.name
    try:
        graph = lower(build(todo.program, params, todo.config).graph, todo.config)
    except PenstockError:
        return f"{i}"
    return json.dumps(graph.structure(todo.config.machine.registers).to_dict(), sort_keys=True)
