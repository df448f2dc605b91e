"""The statement's worked examples and small helpers for the tests of the DAG scheduler."""

from __future__ import annotations

from ..scheduler.dag import Problem, Schedule, Subgraph

PW = "Pointwise"
MM = "MatMul"


def problem(ops, costs, kinds, shapes, *, capacity, bandwidth=10, native=(128, 128)) -> Problem:
    """ops: (inputs, output) per operation; shapes: (width, height) per tensor."""
    return Problem.from_json(
        {
            "widths": [w for w, _ in shapes],
            "heights": [h for _, h in shapes],
            "inputs": [list(i) for i, _ in ops],
            "outputs": [[o] for _, o in ops],
            "base_costs": list(costs),
            "op_types": list(kinds),
            "fast_memory_capacity": capacity,
            "slow_memory_bandwidth": bandwidth,
            "native_granularity": list(native),
        }
    )


def schedule(*entries, latencies=None) -> Schedule:
    """entries: (ops, granularity[, retained[, order]])."""
    rows = []
    for i, (ops, granularity, *rest) in enumerate(entries):
        retain = rest[0] if rest else ()
        order = rest[1] if len(rest) > 1 else None
        rows.append(
            Subgraph(
                tuple(ops),
                tuple(granularity),
                tuple(retain),
                None if order is None else tuple(order),
                latencies[i] if latencies else 0.0,
            )
        )
    return Schedule(tuple(rows))


SQUARE = (128, 128)
EXAMPLES = {
    1: problem([([0], 1), ([1], 2)], [1000, 100], [PW, PW], [SQUARE] * 3, capacity=35_000),
    2: problem([([0], 1), ([1], 2)], [1000, 100], [PW, PW], [(256, 256)] * 3, capacity=35_000),
    3: problem(
        [([0], 1), ([1], 2), ([1, 2], 3)], [1500] * 3, [PW] * 3, [SQUARE] * 4, capacity=50_000
    ),
    4: problem([([0, 1], 2)], [1500], [MM], [SQUARE] * 3, capacity=25_000),
    5: problem([([0, 1], 3), ([3, 2], 4)], [2000, 2000], [MM, MM], [SQUARE] * 5, capacity=45_000),
}
NATIVE = (128, 128, 1)
WORKED = {
    "1A": (1, schedule(([0], NATIVE), ([1], NATIVE)), [3276.8, 3276.8]),
    "1B": (1, schedule(([0, 1], NATIVE)), [3276.8]),
    "1C": (1, schedule(([0, 1], (64, 64, 1))), [4400.0]),
    "2A": (2, schedule(([0], NATIVE), ([1], NATIVE)), [13107.2, 13107.2]),
    "2B": (2, schedule(([0, 1], NATIVE)), [13107.2]),
    "3A": (3, schedule(([0], NATIVE), ([1], NATIVE), ([2], NATIVE)), [3276.8, 3276.8, 4915.2]),
    "3B": (3, schedule(([0, 1], NATIVE, [2]), ([0, 2], NATIVE)), [3000.0, 3276.8]),
    "3C": (3, schedule(([0], NATIVE, [1]), ([1, 2], NATIVE)), [1638.4, 3000.0]),
    "4A": (4, schedule(([0], (64, 64, 128))), [7096.0]),
    "4B": (4, schedule(([0], (64, 64, 128), [], [0, 1, 3, 2])), [6548.0]),
    "5B": (5, schedule(([0, 1], (128, 128, 32))), [6915.2]),
}
