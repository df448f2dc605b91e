"""The named readings of the contest statement.

The statement leaves questions open.  Each is a field of `Readings` here, the default being the
answer the organisers gave in public (issue numbers in `SOURCES`); the other values are readings met
in the field, kept selectable so that a schedule can be judged, or searched for, under any of them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from ...machine.errors import PenstockError, nearest


@dataclass(frozen=True, slots=True)
class Readings:
    """One answer per open question of the statement; see `SOURCES` for what each value means."""

    matmul_cost: Literal["full-k", "native-k"] = "full-k"
    above_native: Literal["refused", "allowed"] = "refused"
    reuse: Literal["previous-step", "union", "lru"] = "previous-step"
    split_k_lhs: Literal["streamed", "resident"] = "streamed"
    sharing: Literal["same-slice", "union", "once-per-tensor"] = "same-slice"
    consumed_outside: Literal["ephemeral", "written"] = "ephemeral"
    retainable: Literal["produced", "loaded-too"] = "produced"
    inner_retention: Literal["refused", "allowed"] = "refused"
    unused_residents: Literal["counted", "free"] = "counted"
    pointwise_into_matmul: Literal["covering", "free"] = "covering"
    carried_products: Literal["counted", "free"] = "counted"
    inner_matmul: Literal["proportional", "padded", "forbidden"] = "proportional"
    several_split_k: Literal["allowed", "forbidden"] = "allowed"
    depth_limit: Literal["every-matmul", "deepest-matmul"] = "every-matmul"
    output_shapes: Literal["masked", "same"] = "masked"
    tiling: Literal["any", "divisors", "powers-of-two"] = "any"

    @classmethod
    def names(cls) -> dict[str, tuple[str, ...]]:
        """Every reading with its values, the default first."""
        hints = get_type_hints(cls)
        return {field.name: get_args(hints[field.name]) for field in dataclasses.fields(cls)}

    @classmethod
    def parse(cls, settings: list[str] | tuple[str, ...] = ()) -> Readings:
        """Readings from ``NAME=VALUE`` strings; whatever is not named keeps its default."""
        known = cls.names()
        chosen: dict[str, str] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            name = name.strip().replace("-", "_")
            value = value.strip().lower()
            if name not in known:
                raise PenstockError(
                    f"no reading is called {name!r}",
                    where=f"--reading {setting}",
                    remedy=nearest(name, known),
                )
            if name in chosen:
                raise PenstockError(f"{name} is given twice", where=f"--reading {setting}")
            if value not in known[name]:
                raise PenstockError(
                    f"{name} cannot be {value!r}",
                    where=f"--reading {setting}",
                    remedy=nearest(value, known[name]),
                )
            chosen[name] = value
        return dataclasses.replace(cls(), **chosen)

    def strict(self) -> Readings:
        """The readings without those that only allow more, or make the same schedule cost less."""
        return dataclasses.replace(self, **{name: getattr(Readings(), name) for name in _LAX})

    def differing(self) -> dict[str, str]:
        """The readings that are not at their default."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }


DEFAULT = Readings()
"""Every reading at its default."""

_LAX = (
    "above_native",
    "reuse",
    "sharing",
    "retainable",
    "inner_retention",
    "unused_residents",
    "pointwise_into_matmul",
    "carried_products",
    "depth_limit",
)
"""Readings whose other values allow what the default refuses, or cost less; a schedule found under
the default stays legal.
"""

SOURCES: dict[str, str] = {
    "matmul_cost": (
        "What base_cost buys. full-k: a native output tile over the whole K, so a k-step "
        "costs base_cost*k/K (organisers' formulas, #27, #38, #80). native-k: a step costs "
        "base_cost*k/native (one reading of the last edit)."
    ),
    "above_native": (
        "w, h or k above the native size: refused (#74, #78, #86), or allowed and padded to "
        "native multiples."
    ),
    "reuse": (
        "What need not be loaded again. previous-step: exactly the same slice in the step "
        "before (#59, examples 4A, 4B). union: any element held in the step before. lru: "
        "slices stay in free memory until evicted."
    ),
    "split_k_lhs": (
        "Left operand under split-K: h x k and streamed (#66, example 5B), or h x K and resident."
    ),
    "sharing": (
        "Two uses of a tensor in one step. same-slice: one buffer for equal extent and role, "
        "a whole tensor serves all (#59, #65, #70, #73). union: the union of the rectangles. "
        "once-per-tensor: the largest slice only."
    ),
    "consumed_outside": (
        "A tensor consumed inside and outside its subgraph: ephemeral, never written (example "
        "3B, #51), or written."
    ),
    "retainable": (
        "What may stay for the next subgraph: tensors produced (#34, #52, #61), or loaded "
        "inputs too (older text)."
    ),
    "inner_retention": (
        "A product made only in slices of a reduction (an inner MatMul's, or a pointwise "
        "one's between MatMuls): not retained, because no tile of it ever exists (the "
        "statement retains 'output tensors'), or retained all the same."
    ),
    "unused_residents": (
        "Tensors kept from the step before but not used: counted at full size, or free."
    ),
    "pointwise_into_matmul": (
        "Pointwise feeding a MatMul in one subgraph: covering = only if the tile covers K, "
        "fired once per tile (#71, #82); free = for any slice, fired whenever it is asked "
        "for."
    ),
    "carried_products": (
        "What such a pointwise operation made on a tile's first step, while the MatMul "
        "consumes it in later steps: counted in the working set of these, or free (the "
        "statement's ephemeral data takes no room, but passes on directly)."
    ),
    "inner_matmul": (
        "MatMul feeding a MatMul: extents from the reduction cost proportionally (example 5B, "
        "#71, #85), are padded to native, or the chain is forbidden."
    ),
    "several_split_k": (
        "Several split-K MatMuls in one subgraph: allowed with an accumulator each (statement "
        "silent), or forbidden."
    ),
    "depth_limit": (
        "k is at most the reduction depth of every MatMul of the subgraph (#78: k above K is "
        "refused), or of the deepest only."
    ),
    "output_shapes": (
        "Outputs of different size: one grid, the largest, smaller ones masked (#58), or refused."
    ),
    "tiling": (
        "Granularities: any (edge tiles clipped in memory, padded in compute; examples 2, 4, "
        "#28), divisors of the extent, or powers of two."
    ),
}
"""Meaning and source of each reading (numbers are the contest's public issues)."""
