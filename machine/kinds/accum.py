"""The kind that reduces over dimensions of a stream."""

from __future__ import annotations

from collections.abc import Mapping

from ..beat import MAX_STOP, STOP_BITS, Payload, Tile
from ..functions import reducing_stages
from ..limits import COUNTS, SIZES
from ..widths import Widths
from .kind import In, Kind, Out, Payloads, param, register, tile
from .setting import Among, OneOf, Optional, UpTo
from .uses import ACCUMULATORS


def accum_levels(reduce: int) -> tuple[int, int]:
    """Lowest dimension that an `accum` reduces, and the lowest one with only reduced dimensions
    from it to the highest.
    """
    kept = ~reduce & (1 << reduce.bit_length()) - 1
    return (reduce & -reduce).bit_length() - 1, kept.bit_length()


@register
class Accum(Kind):
    """Reduction over some dimensions into a memory of accumulators.

    Takes a tile every II cycles. It stalls at the end of a group until the one before has drained,
    and where the next group needs an accumulator that has not left yet (docs/timing.md section
    3.1). With deep pipelines it stalls, too, where a beat meets its own accumulator under way.
    """

    name = "accum"
    computes = True
    fn: str = param(
        "function of two operands; without `init` one that has an identity", setting=OneOf()
    )
    reduce: int = param("bit mask of reduced dimensions", range(1, 1 << MAX_STOP), setting=Among())
    depth: int = param("accumulator tiles", COUNTS, setting=UpTo(least=1))
    lanes: int = param("elements a cycle")
    init_rows: int = param(
        "rows of an empty group's result in elements, 0: of run-time size",
        SIZES,
        runtime=True,
        default=0,
    )
    init_cols: int = param("its columns", SIZES, runtime=True, default=0)
    init: int | None = param(
        "fp32 bits of the state before the first tile (None: the first tile is the first state)",
        setting=Optional(adds_port=False),
        default=None,
    )
    scan: bool = param(
        "the state leaves after every beat, instead of the groups' results",
        setting=UpTo(True),
        default=False,
    )
    deep: bool = param("whether its function has the deep pipeline", default=False)
    data = In("tiles")
    result = Out("the groups' accumulators")

    @property
    def loop(self) -> int:
        """S, cycles from a beat's take to the next into its accumulator."""
        return 1 + reducing_stages(True) if self.deep else 1

    def latency(self, t: int) -> int:
        return self.interval(t) + self.loop - 1

    def interval(self, t: int) -> int:
        return t * t // self.lanes

    def flops_per_cycle(self, t: int) -> int:
        return self.lanes

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        return {ACCUMULATORS: self.depth * (Tile(t, "fp32").bits + STOP_BITS)}

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        return (Tile(tile(inputs[0], "its input is a tile").t, "fp32"),)

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        if self.scan:
            return inputs
        return (sum(not self.reduce >> d & 1 for d in range(inputs[0])),)
