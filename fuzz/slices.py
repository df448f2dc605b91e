"""A campaign in slices, which run one after the other or side by side, and find the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from ..runs import executors
from ..runs.executors import Pool
from ..runs.progress import Progress
from ..runs.progress import of as progress_of
from .campaign import Campaign, run_programs
from .streams import TOGETHER, run_streams, streams_of_a_point

SLICE = 400
"""Programs of a slice: what it draws depends on its number and the seed, not on other slices."""
STREAM_SLICE = 4 * TOGETHER
"""Points of single-unit streams of a slice."""
APART = 1_000_000
"""Between the numbers of the first programs of two slices."""


@dataclass(frozen=True)
class Slice:
    """Some programs of a campaign; arguments of :func:`run_slices`."""

    count: int
    seed: int
    on: str
    keep: Path | None
    first: int
    form: str = "any"
    only: list[str] | None = None

    def run(self, campaign: Campaign, show: Progress) -> None:
        """Add it to a campaign that begins where it does."""
        given = {"on": self.on, "keep": self.keep, "progress": show}
        run_programs(campaign, self.count, self.seed, only=self.only, **given)


class StreamSlice(Slice):
    """Some single-unit streams of a campaign."""

    def run(self, campaign: Campaign, show: Progress) -> None:
        given = {"on": self.on, "keep": self.keep, "progress": show}
        run_streams(campaign, self.count, self.seed, **given)


def run_slices(
    campaign: Campaign,
    count: int,
    seed: int,
    *,
    on: str = "model",
    keep: Path | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
    only: list[str] | None = None,
) -> None:
    """Draw and run ``count`` programs, as
    :func:`~penstock.fuzz.campaign.run_programs` does.

    ``executor``: any of `concurrent.futures`, or a pool; None: this process. A campaign with a
    deadline runs here.
    """
    sizes = [min(SLICE, count - start) for start in range(0, count, SLICE)]
    slices = [
        Slice(size, seed, on, keep, k * APART, campaign.form, only) for k, size in enumerate(sizes)
    ]
    run_all(campaign, slices, progress_of(progress), executor)


def run_stream_slices(
    campaign: Campaign,
    count: int,
    seed: int,
    *,
    on: str = "model",
    keep: Path | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    executor: Executor | Pool | None = None,
) -> None:
    """Run at least ``count`` single-unit streams; arguments as of :func:`run_slices`."""
    per = streams_of_a_point() if count else 1
    points = -(-count // per)
    slices = [
        StreamSlice(per * min(STREAM_SLICE, points - first), seed, on, keep, first)
        for first in range(0, points, STREAM_SLICE)
    ]
    run_all(campaign, slices, progress_of(progress), executor)


def run_all(
    campaign: Campaign, slices: Sequence[Slice], show: Progress, executor: Executor | Pool | None
) -> None:
    """Run slices, on an executor where that is asked for and there is time."""
    if executor is None or len(slices) < 2 or campaign.deadline is not None:
        for one in slices:
            own = Campaign(deadline=campaign.deadline, first=one.first, form=one.form)
            try:
                one.run(own, show)
            finally:  # also where the time is up
                campaign.merge(own)
        return
    show.plan(len(slices))
    work = executors.Work(_alone, label=lambda one: f"slice from {one.first}", heavy=True)
    for one, found in executors.each(work, slices, executor, show):
        campaign.merge(found)
        show.done(f"a slice of {one.count}")


def _alone(one: Slice) -> Campaign:
    campaign = Campaign(first=one.first, form=one.form)
    one.run(campaign, Progress())
    return campaign
