"""Steps of drawn programs: each variant adds one step, and sources made to measure where it needs
them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...machine.functions import FUNCTIONS
from .functions import (
    address,
    address_range,
    all_read,
    binary,
    chosen,
    expert_addresses,
    immediate,
    last_tile_filter,
    masked,
    of_pairs,
    paired,
    parts,
    product,
    reduction,
    retile_col,
    retile_row,
    rotary,
    rotated,
    row_append,
    row_offset,
    scaled,
    several,
    state,
    transposed,
    unary,
    unpack,
    with_constant,
)
from .memory import (
    bufferize,
    copied,
    in_place,
    integers,
    linear_load,
    linear_store,
    random_load,
    random_store,
    read_again,
    streamify,
    streamify_matrix,
)
from .routing import eager_merge, feedback, merged_references, partition, reassemble, top_k
from .shapes import (
    broadcast,
    expand_by_numbers,
    expand_count,
    expand_reference,
    fifo,
    flatten,
    promote,
    reshape,
    zipped,
)

__all__ = ["RARE", "VARIANTS"]

VARIANTS: dict[str, Callable] = {
    **{
        f"Map {n}": unary(n)
        for n in (
            *(n for n, f in FUNCTIONS.items() if f.arity == 1),
            "row_sum",
            "row_max",
            "col_sum",
            "col_max",
        )
    },
    "Map scale": scaled,
    "Map immediate": immediate,
    **{f"Map {n}": binary(n) for n, f in FUNCTIONS.items() if f.arity == 2},
    "Map where": chosen,
    "Map rotary": rotary,
    "Map pairs": paired,
    "Map of pairs": of_pairs,
    "Map several": several,
    "Map number": with_constant,
    "Map matmul": product(0),
    "Map row_append": row_append,
    "Map row_offset": row_offset,
    "Map transpose": transposed,
    "Map rotate": rotated,
    "Map mask": masked,
    "Map address": address,
    "Accum add": reduction("Accum", "add"),
    "Accum max": reduction("Accum", "max"),
    "Accum matmul": product(1),
    "Accum retile_row": retile_row,
    "Accum retile_col": retile_col,
    "Accum all_read": all_read,
    "Accum mul": reduction("Accum", "mul"),
    "Accum state": state("Accum"),
    "Scan state": state("Scan"),
    "Scan matmul": product(1, "Scan"),
    "Scan add": reduction("Scan", "add"),
    "Scan max": reduction("Scan", "max"),
    **{
        f"FlatMap {'masked ' * mask}{what}": unpack(along, mask)
        for along, what in (("rows", "rows"), ("cols", "single columns"))
        for mask in (False, True)
    },
    **{
        f"FlatMap {'masked ' * mask}{what}": parts(along, mask)
        for along, what in (("rows", "bands"), ("cols", "columns"))
        for mask in (False, True)
    },
    "FlatMap address_range": address_range,
    "FlatMap expert_addresses": expert_addresses,
    "FlatMap last_tile_filter": last_tile_filter,
    "FlatMap integers": integers,
    "LinearOffChipLoad": linear_load(False),
    "LinearOffChipLoad ref": linear_load(True),
    "LinearOffChipStore": linear_store,
    "LinearOffChipStore copied": copied,
    "RandomOffChipLoad": random_load,
    "RandomOffChipStore": random_store,
    "RandomOffChipStore read again": read_again,
    "RandomOffChipStore in place": in_place,
    "Bufferize": bufferize,
    **{f"Streamify {h}": streamify(h) for h in ("once", "repeat", "list", "affine", "ref")},
    "Streamify matrix": streamify_matrix,
    "Partition": partition,
    "Reassemble": reassemble,
    "EagerMerge": eager_merge,
    "TopK": top_k,
    "EagerMerge references": merged_references,
    "Loop": feedback,
    "Flatten": flatten,
    "Promote": promote(False),
    "Promote outermost": promote(True),
    "Reshape": reshape(False),
    "Reshape pad": reshape(True),
    "Expand count": expand_count,
    "Expand ref": expand_reference,
    "Expand numbers": expand_by_numbers,
    "Zip": zipped,
    "Fifo": fifo,
    "Broadcast": broadcast,
}
"""Steps of programs; every program has one of them in the middle, in turn."""
RARE = [
    "RandomOffChipLoad",
    "RandomOffChipStore",
    "LinearOffChipLoad ref",
    "FlatMap expert_addresses",
    "Map address",
    "Accum retile_col",
    "Flatten",
    "Broadcast",
    "Fifo",
    "Map cast_fp32",
    "Partition",
    "Reassemble",
    "FlatMap address_range",
    "Accum retile_row",
    "Accum matmul",
    "Scan add",
    "Zip",
    "Streamify once",
]
"""Steps that fit few streams: tried more often."""
