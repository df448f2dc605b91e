"""A campaign in slices, which run one after the other or side by side, and find the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from ..runs import dispatch
from ..runs.executors import Pool
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
    slices = [_Slice(size, seed, on, keep, k * APART) for k, size in enumerate(sizes)]
    if executor is None or len(slices) < 2 or campaign.deadline is not None:
        for one in slices:
            own = Campaign(deadline=campaign.deadline, first=one.first)
            try:
                run_programs(own, one.count, seed, on=on, keep=keep, progress=show)
            finally:  # also where the time is up
                campaign.merge(own)
        return
    show.plan(len(slices))
    work = dispatch.Work(_slice, label=lambda one: f"programs from {one.first}", heavy=True)
    for _, found in dispatch.each(work, slices, executor, show):
        campaign.merge(found)
        show.done(f"slice of {SLICE} programs")


@dataclass(frozen=True)
class _Slice:
    """Some programs of a campaign; arguments of :func:`run_slices`."""

    count: int
    seed: int
    on: str
    keep: Path | None
    first: int


def _slice(one: _Slice) -> Campaign:
    campaign = Campaign(first=one.first)
    run_programs(campaign, one.count, one.seed, on=one.on, keep=one.keep)
    return campaign
