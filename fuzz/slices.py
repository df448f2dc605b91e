"""A campaign in slices, which run one after the other or side by side, and find the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, as_completed
from pathlib import Path

from ..machine.errors import PenstockError
from ..runs.executors import Pool, pool_of
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from .campaign import Campaign, run_programs

__all__ = ["SLICE", "run_slices"]

SLICE = 400
"""Programs of a slice: what it draws depends on its number and the seed, not on other slices."""
APART = 1_000_000
"""Between the numbers of the first programs of two slices."""


def run_slices(
    campaign: Campaign,
    count: int,
    seed: int,
    *,
    on: str = "model",
    keep: Path | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
) -> None:
    """Draw and run ``count`` programs, as :func:`~penstock.fuzz.campaign.run_programs` does.

    ``executor``: any of `concurrent.futures`, or a pool; None: this process. A campaign with a
    deadline runs here.
    """
    show = progress_of(progress)
    sizes = [min(SLICE, count - start) for start in range(0, count, SLICE)]
    pool = pool_of(executor)
    if pool is None or len(sizes) < 2 or campaign.deadline is not None:
        for number, size in enumerate(sizes):
            own = Campaign(deadline=campaign.deadline, first=number * APART)
            try:
                run_programs(own, size, seed, on=on, keep=keep, progress=show)
            finally:  # also where the time is up
                campaign.merge(own)
        return
    show.plan(len(sizes))
    show.step(f"{len(sizes)} slices on {pool.workers} workers")
    take = pool.started().submit
    futures = [take(_slice, size, seed, on, keep, k * APART) for k, size in enumerate(sizes)]
    try:
        for future in as_completed(futures):
            campaign.merge(future.result())
            show.done(f"slice of {SLICE} programs")
            show.step(f"slices on {pool.workers} workers")
    except BrokenExecutor:
        raise PenstockError(
            "a worker process was lost", remedy="run it again, with fewer --jobs"
        ) from None
    finally:
        for future in futures:
            future.cancel()


def _slice(count: int, seed: int, on: str, keep: Path | None, first: int) -> Campaign:
    campaign = Campaign(first=first)
    run_programs(campaign, count, seed, on=on, keep=keep)
    return campaign
