"""Options of runs that a call and the command line have in common."""

from __future__ import annotations

from dataclasses import dataclass

from ..frontend.program import check_tolerance
from ..machine.errors import PenstockError, nearest
from ..machine.limits import SEEDS, within
from ..machine.timings import known_timing
from .outputs import require_values

BACKENDS = ("model", "rtl", "both")


@dataclass(frozen=True)
class Options:
    """Options of runs; a wrong value is a PenstockError at once."""

    # on, timing: ``model`` | ``rtl`` | ``both``; ``machine`` | ``stepsim`` (model only)
    on: str = "model"
    timing: str = "machine"
    # compute tiles bit for bit and check them against NumPy; False: timing only
    values: bool = True
    # rule of the symbolic on-chip requirement: ``published``, ``paper``, ``machine`` (the pages
    # that this machine takes at most), or one registered with ``frontend.register_rule``
    onchip_rule: str = "published"
    waves: str | None = None  # path stem for a waveform of the RTL run
    max_cycles: int | None = None  # of the RTL run, which fails where it takes more
    # a point that fails carries its error and the others go on; else the first error is raised
    keep_going: bool = True
    outputs: bool = False  # records keep the output tensors
    judge: bool = False  # compare values with the judge of nested lists too
    # programs are placed on the array of their configuration, in place of fabrics of their own
    on_array: bool = False
    # largest error of an output against float64 (the program's ``reference()`` where it has one),
    # relative to its largest magnitude; None: the program's, by default 1e-3 (fp32) and 5e-2 (bf16)
    # where it has a reference
    tolerance: float | None = None

    def __post_init__(self):
        object.__setattr__(self, "timing", known_timing(self.timing))
        if self.on not in BACKENDS:
            raise PenstockError(
                f"no backend {self.on!r}", remedy=nearest(self.on, BACKENDS, "one of")
            )
        if self.timing == "stepsim" and self.on != "model":
            raise PenstockError(
                "the `stepsim` timing has no RTL", remedy="use --on model, or --timing machine"
            )
        if self.waves and self.on == "model":
            raise PenstockError("only the RTL has waveforms", remedy="use --on rtl or --on both")
        if self.on_array and (self.timing == "stepsim" or self.waves):
            what = "the `stepsim` timing" if self.timing == "stepsim" else "waveforms"
            raise PenstockError(
                f"{what} are for fabrics of their own" if self.waves else f"{what} has no array",
                remedy="leave it out, or run the program on a fabric of its own",
            )
        if check_tolerance(self.tolerance) is not None:
            require_values("tolerance compares", self.values, self.timing)
        if self.on == "both" and not self.values:
            raise PenstockError(
                "the check of RTL against model compares values", remedy="leave out --no-values"
            )

    @property
    def on_model(self) -> bool:
        return self.on in ("model", "both")

    @property
    def on_rtl(self) -> bool:
        return self.on in ("rtl", "both")


Seeds = int | list[int] | tuple[int, ...] | range
"""One for all points, or as many as points."""


def seeds_of(seed: Seeds, points: int) -> list[int]:
    """The seed of each point: one for all, or a list of as many."""
    seeds = list(seed) if isinstance(seed, (list, tuple, range)) else [seed] * points
    if len(seeds) != points:
        raise PenstockError(
            f"{len(seeds)} seeds for {points} points", remedy="give one seed, or one for each point"
        )
    for one in seeds:
        within("seed", one, SEEDS)
    return seeds
