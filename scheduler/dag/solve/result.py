"""Results of a search: its improvements, and the schedule that it ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..evaluate import Evaluation
from ..solution import Schedule


@dataclass(frozen=True, slots=True)
class Progress:
    """One improvement: seconds since the start, latency and proven bound (units of time)."""

    seconds: float
    latency: float
    bound: float
    stage: str

    @property
    def gap(self) -> float:
        """(latency - bound) / latency."""
        return (self.latency - self.bound) / self.latency if self.latency else 0.0


@dataclass
class Result:
    """A schedule and how it was found.

    `bound` holds for every schedule; `exact_cover` says that the schedule is the best over all
    candidates of the pool, `candidates` and `searches` how many there were and how many distinct
    tilings were searched.
    """

    schedule: Schedule
    evaluation: Evaluation
    bound: float
    history: list[Progress] = field(default_factory=list)
    exact_cover: bool = False
    candidates: int = 0
    searches: int = 0
    interrupted: bool = False

    @property
    def latency(self) -> float:
        return self.evaluation.latency

    @property
    def gap(self) -> float:
        """(latency - bound) / latency."""
        return (self.latency - self.bound) / self.latency if self.latency else 0.0
