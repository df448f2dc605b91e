"""Many points: stored ones are read, the rest is run, here or on an executor.

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
from . import executors
from . import outcomes as here
from .executors import LostError, Pool, pool_of
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
    """Points that are run the same way; arguments as of :func:`outcomes`."""
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
    """Outcomes of ``points``, in their order.

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
    if executor is None and store is None:
        return here.outcomes(program, config, points, seed=seed, progress=progress, **options)
    whole = call(program, config, points, seed=seed, **options)
    found = several([whole], progress=progress, executor=executor, store=store)
    return [o for _, _, o in sorted(found, key=lambda one: one[1])]


def run(batch: Batch, progress: Progress | None = None) -> list[Outcome]:
    """Run the points of a batch; those that fail carry their errors.

    Raises
    ------
    PenstockError
        What is wrong with the call itself, and sources other than those that were asked for.
    """
    with executors.turn:
        wanted = batch.sources
        if wanted is not None and sources_digest(batch.program, batch.how.on_rtl) != wanted:
            raise PenstockError(
                "a worker has other sources than this process",
                rule="all of a store's records are of the sources in their keys",
                remedy="install the same Penstock, and the same program, where the workers run",
            )
        return here.outcomes(
            batch.program,
            batch.config,
            list(batch.points),
            seed=list(batch.seeds),
            progress=progress,
            **(asdict(batch.how) | {"keep_going": True}),
        )


def several(
    calls: Sequence[Batch],
    *,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
    store: Store | None = None,
) -> Iterator[tuple[int, int, Outcome]]:
    """The number of the call, the place in it and the outcome of each point of several calls, as it
    is found or finished; further arguments and errors as of :func:`outcomes`.

    A call with ``waves`` is one of its own.
    """
    number = [(i, k) for i, one in enumerate(calls) for k in range(len(one.points))]
    sweep = _Sweep(calls, pool_of(executor), store, progress_of(progress))
    for place, outcome in sweep.run():
        i, k = number[place]
        if outcome.error is not None and not calls[i].how.keep_going:
            raise outcome.error
        yield i, k, outcome


class _Sweep:
    """The points of some calls on their way, by their places among all."""

    def __init__(
        self, calls: Sequence[Batch], pool: Pool | None, store: Store | None, show: Progress
    ):
        self.pool = None if any(one.how.waves for one in calls) else pool
        self.store = store
        self.show = show
        # Workers of a cluster have files of their own.
        keyed = store is not None or (self.pool is not None and not self.pool.lead)
        self.calls: list[Batch] = []
        self.points = 0
        for one in calls:
            sources = sources_digest(one.program, one.how.on_rtl) if keyed else None
            places = range(self.points, self.points + len(one.points))
            self.calls.append(replace(one, places=tuple(places), sources=sources))
            self.points = places.stop
        self.keys = [key for one in self.calls for key in one.keys()] if store is not None else []

    def run(self) -> Iterator[tuple[int, Outcome]]:
        """Places and outcomes."""
        wanted: set[int] = set()
        again: dict[int, list[int]] = {}  # places of points that are another one's
        first: dict[str, int] = {}
        for place in range(self.points):
            if (kept := self._stored(place)) is not None:
                yield place, kept
            elif self.keys and first.setdefault(self.keys[place], place) != place:
                again.setdefault(first[self.keys[place]], []).append(place)
            else:
                wanted.add(place)
        if self.keys and len(wanted) < self.points:
            stored = f"{self.points - len(wanted)} of {self.points} points"
            self.show.stage(f"{stored} are in the store")
        self.show.plan(len(wanted))
        todo = [
            one.only([i for i, place in enumerate(one.places) if place in wanted])
            for one in self.calls
        ]
        for place, outcome in self._fresh(todo):
            for other in (place, *again.get(place, ())):
                yield other, outcome

    def _stored(self, place: int) -> Outcome | None:
        """The store's outcome of a point."""
        return None if self.store is None else self.store.outcome(self.keys[place])

    def _fresh(self, todo: Sequence[Batch]) -> Iterator[tuple[int, Outcome]]:
        """Run points that are in no store, each of which is added to it."""
        work = executors.Work(
            run,
            label=lambda batch: label(batch.program, {}),
            here=lambda batch: run(batch, _Stages(self.show)),
            known=self._since,
            fail=_lost,
            heavy=any(one.how.on_rtl for one in todo),
        )
        batches = _batches(todo, self.pool)
        for batch, found in executors.each(work, batches, self.pool, self.show):
            for place, outcome in zip(batch.places, found, strict=True):
                # What may come out otherwise when it is run again is not kept.
                lost = isinstance(outcome.error, LostError)
                if self.store is not None and not (lost or (outcome.error and batch.how.on_rtl)):
                    self.store.add(self.keys[place], batch, place, outcome)
                self.show.done(label(batch.program, outcome.params))
                yield place, outcome

    def _since(self, batch: Batch) -> list[Outcome] | None:
        """Outcomes of a whole batch by another writer of the store."""
        if self.store is None:
            return None
        self.store.refresh()
        found = [o for place in batch.places if (o := self._stored(place)) is not None]
        return found if len(found) == len(batch.places) else None


class _Stages(Progress):
    """Passes on stages of work, not finished points, which are counted elsewhere."""

    def __init__(self, show: Progress):
        super().__init__()
        self.show = show

    def stage(self, what: str) -> None:
        self.show.stage(what)

    def step(self, what: str) -> None:
        self.show.step(what)


def _lost(batch: Batch, _: LostError) -> list[Outcome]:
    """Each point of a lost batch is lost."""
    return [Outcome(p, error=executors.lost(label(batch.program, p))) for p in batch.points]


def _batches(todo: Sequence[Batch], pool: Pool | None) -> list[Batch]:
    """Batches that run together, in the order in which they begin."""
    on_model: list[Batch] = []
    rounds: list[list[tuple[int, Batch]]] = []
    for one in todo:
        if not one.how.on_rtl:
            on_model += _pieces(one, range(len(one.points)), pool.batch if pool else 1)
            continue
        groups: dict[str, list[int]] = {}
        for i, params in enumerate(one.points):
            groups.setdefault(_structure(one, params, i), []).append(i)
        for structure, members in groups.items():
            size = -(-len(members) // (pool.workers if pool else 1))
            for k, piece in enumerate(_pieces(one, members, size)):
                if k == len(rounds):
                    rounds.append([])
                rounds[k].append((len(structure), piece))
    for pieces in rounds:
        pieces.sort(key=lambda pair: -pair[0])  # what is built longest
    return [batch for pieces in rounds for _, batch in pieces] + on_model


def _pieces(one: Batch, members: Sequence[int], size: int) -> list[Batch]:
    """Some points of a call, so many at a time."""
    return [one.only(members[i : i + size]) for i in range(0, len(members), size)]


def _structure(todo: Batch, params: dict, i: int) -> str:
    """Structure that the points of one simulator share; a point that cannot be built is alone."""
    if todo.how.on_array:
        return todo.config.name
    try:
        graph = lower(build(todo.program, params, todo.config).graph, todo.config)
    except PenstockError:
        return f"{i}"
    return json.dumps(graph.structure(todo.config.machine.registers).to_dict(), sort_keys=True)
