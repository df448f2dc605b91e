"""Invalid schedules and problems: each is refused for its own reason, named in the message."""

import dataclasses
import json
import math

import pytest
from penstock.machine.errors import PenstockError
from penstock.scheduler.dag import Problem, Readings, Schedule, ScheduleError, evaluate
from penstock.testing.dag_cases import EXAMPLES, MM, NATIVE, PW, SQUARE, WORKED, problem, schedule

# op 0 (pointwise) -> op 1 (MatMul, K = 256): not fusible; op 2 (pointwise) stands apart
MIXED = problem(
    [([0], 1), ([1, 2], 3), ([4], 5)],
    [100, 100, 100],
    [PW, MM, PW],
    [(256, 128), (256, 128), (128, 256), SQUARE, SQUARE, SQUARE],
    capacity=60_000,
)
# op 0 (pointwise, 96 wide) -> op 1 (MatMul, K = 96)
COVERED = problem(
    [([0], 1), ([1, 2], 3)],
    [100, 100],
    [PW, MM],
    [(96, 128), (96, 128), (128, 96), SQUARE],
    capacity=60_000,
)
# op 0 (pointwise) feeds the right operand of op 1, whose product is the left operand of op 2
BURIED = problem(
    [([0], 1), ([2, 1], 3), ([3, 4], 5)], [100] * 3, [PW, MM, MM], [SQUARE] * 6, capacity=200_000
)

TILE_64 = (64, 64, 128)
THREE = problem([([0], 1), ([1], 2), ([2], 3)], [1] * 3, [PW] * 3, [SQUARE] * 4, capacity=32_000)
KEPT_ON = schedule(([0], (128, 64, 1), [1]), ([1], (128, 64, 1), [2]), ([2], NATIVE))
REFUSED = [
    (1, schedule(([0], NATIVE), ([], NATIVE)), "a subgraph has at least one operation"),
    (1, schedule(([0, 7], NATIVE)), "op 7 does not exist"),
    (1, schedule(([0, 0], NATIVE)), "op 0 is listed twice"),
    (1, schedule(([1, 0], NATIVE)), "op 1 comes before op 0, whose product it consumes"),
    (MIXED, schedule(([0, 2], NATIVE)), "op 2 is not connected to op 0"),
    (1, schedule(([0], NATIVE)), "op 1 is in no subgraph"),
    (
        1,
        schedule(([1], NATIVE), ([0], NATIVE)),
        "subgraph 0: tensor 1 is needed but is in neither memory",
    ),
    (
        3,  # it is ephemeral
        schedule(([0, 1], NATIVE), ([2], NATIVE)),
        "subgraph 1: tensor 1 is needed but is in neither memory",
    ),
    (
        3,  # it was retained for one step
        schedule(([0], NATIVE, [1]), ([1], NATIVE), ([2], NATIVE)),
        "subgraph 2: tensor 1 is needed but is in neither memory",
    ),
    (1, schedule(([0, 1], NATIVE, [2])), "graph output tensor 2 never reaches slow memory"),
    (1, schedule(([0], NATIVE, [0]), ([1], NATIVE)), "tensor 0 is retained but not produced here"),
    (1, schedule(([0], NATIVE, [2]), ([1], NATIVE)), "tensor 2 is retained but not produced here"),
    (1, schedule(([0], NATIVE, [9]), ([1], NATIVE)), "retained tensor 9 does not exist"),
    (1, schedule(([0], NATIVE, [1, 1]), ([1], NATIVE)), "tensor 1 is retained twice"),
    (1, schedule(([0, 1], (129, 128, 1))), "w = 129 is above the native 128"),
    (1, schedule(([0, 1], (128, 256, 1))), "h = 256 is above the native 128"),
    (MIXED, schedule(([0], NATIVE), ([1], (128, 64, 200))), "k = 200 is above the native 128"),
    (COVERED, schedule(([0], NATIVE), ([1], (128, 128, 97))), "k = 97 is above the reduction dep"),
    (COVERED, schedule(([0, 1], (64, 64, 96))), "feeds a MatMul over K = 96, but w = 64"),
    (MIXED, schedule(([0, 1], (128, 64, 64))), "feeds a MatMul over K = 256, but w = 128"),
    (BURIED, schedule(([0, 1, 2], NATIVE)), "which makes only part of a tile per step"),
    (4, schedule(([0], (128, 128, 128))), "out of memory: the working set is 49,152 elements"),
    (
        2,
        schedule(([0], (32, 32, 1), [1]), ([1], (32, 32, 1))),
        "out of memory: the working set is 66,560 elements",
    ),
    (THREE, KEPT_ON, "subgraph 1: out of memory"),
    (4, schedule(([0], TILE_64, [], [0, 1, 2])), "not a permutation of 0..3"),
    (4, schedule(([0], TILE_64, [], [0, 1, 1, 3])), "not a permutation of 0..3"),
    (4, schedule(([0], TILE_64, [], range(5))), "not a permutation of 0..3"),
]


@pytest.mark.parametrize("which, plan, reason", REFUSED)
def test_invalid_schedule_is_refused_for_its_reason(which, plan, reason):
    with pytest.raises(ScheduleError) as caught:
        evaluate(EXAMPLES[which] if isinstance(which, int) else which, plan, check_latencies=False)
    assert reason in str(caught.value)


AGAIN = schedule(([0], NATIVE), ([1], NATIVE), ([2], NATIVE), ([0], NATIVE), ([2], NATIVE))
KEPT = schedule(([0], NATIVE, [1]), ([1], NATIVE))


@pytest.mark.parametrize("which, plan", [(3, AGAIN), (1, KEPT)])
def test_near_misses_are_legal(which, plan):
    evaluate(EXAMPLES[which], plan, check_latencies=False)


def test_a_wrong_stated_latency_is_refused():
    number, plan, latencies = WORKED["1A"]
    right = Schedule(
        tuple(
            dataclasses.replace(s, latency=v)
            for s, v in zip(plan.subgraphs, latencies, strict=True)
        )
    )

    def stated(latency):
        last = dataclasses.replace(right.subgraphs[1], latency=latency)
        return evaluate(EXAMPLES[number], Schedule((right.subgraphs[0], last)))

    for near in (1 - 1e-7, 1, 1 + 1e-7):
        stated(3276.8 * near)
    message = "subgraph 1: the stated latency is {}, the evaluated one 3,276.8"
    for far, shown in ((0.99999, "3,276.77"), (1.00001, "3,276.83"), (0.9, "2,949.12")):
        with pytest.raises(ScheduleError, match=message.format(shown)):
            stated(3276.8 * far)


SPLIT = problem(
    [([0, 1], 4), ([2, 3], 5), ([4, 5], 6)], [1] * 3, [MM, MM, PW], [SQUARE] * 7, capacity=200_000
)
UNEQUAL = problem(
    [([0], 1), ([1, 2], 3), ([1, 4], 5)],
    [1] * 3,
    [PW, MM, MM],
    [SQUARE, SQUARE, (64, 128), (64, 128), SQUARE, SQUARE],
    capacity=200_000,
)
STRICTER = {
    "several_split_k=forbidden": (SPLIT, ([0, 1, 2], (128, 128, 64)), "2 MatMuls are split over k"),
    "inner_matmul=forbidden": (EXAMPLES[5], ([0, 1], (128, 128, 32)), "op 0 feeds a MatMul of its"),
    "tiling=divisors": (EXAMPLES[1], ([0, 1], (96, 128, 1)), "w = 96 does not divide 128"),
    "tiling=powers-of-two": (EXAMPLES[1], ([0, 1], (128, 96, 1)), "h = 96 is not a power of two"),
    "output_shapes=same": (UNEQUAL, ([0, 1, 2], (128, 128, 128)), "differ in shape"),
}


# op 0 (MatMul) -> op 1 (MatMul, the second consumer is op 2): product 2 exists in slices of op 1's
# reduction only
CHAIN = problem(
    [([0, 1], 2), ([2, 3], 4), ([2, 5], 6)],
    [1] * 3,
    [MM] * 3,
    [SQUARE, (64, 128), (64, 128), (128, 64), SQUARE, (128, 64), SQUARE],
    capacity=60_000,
)
SHALLOW = problem(
    [([0, 1], 2), ([2, 3], 4)],
    [1] * 2,
    [MM] * 2,
    [(32, 128), (128, 32), SQUARE, SQUARE, SQUARE],
    capacity=80_000,
)
CARRIED = problem(
    [([0, 1], 2), ([2], 3), ([3, 4], 5)],
    [1] * 3,
    [MM, PW, MM],
    [(8, 128), (128, 8), SQUARE, SQUARE, SQUARE, SQUARE],
    capacity=30_000,
)
LOOSER = {
    "inner_retention=allowed": (
        CHAIN,
        schedule(([0, 1], (64, 64, 32), [2]), ([2], (64, 64, 64))),
        "tensor 2 is retained but only made in slices of a reduction",
    ),
    "depth_limit=deepest-matmul": (
        SHALLOW,
        schedule(([0, 1], (64, 64, 64))),
        "k = 64 is above the reduction depth 32",
    ),
    "carried_products=free": (CARRIED, schedule(([0, 1, 2], (128, 128, 8))), "out of memory"),
}


@pytest.mark.parametrize("setting", LOOSER)
def test_a_looser_reading_allows_what_the_default_refuses(setting):
    case, plan, reason = LOOSER[setting]
    evaluate(case, plan, Readings.parse([setting]), check_latencies=False)
    with pytest.raises(ScheduleError, match=reason):
        evaluate(case, plan, check_latencies=False)


def test_a_product_made_tile_by_tile_may_be_retained_where_it_is_consumed():
    evaluate(
        EXAMPLES[3],
        schedule(([0, 1], NATIVE, [1, 2]), ([2], NATIVE)),
        Readings(),
        check_latencies=False,
    )


@pytest.mark.parametrize("setting", STRICTER)
def test_a_stricter_reading_refuses_what_the_default_allows(setting):
    case, entry, reason = STRICTER[setting]
    plan = schedule(entry)
    evaluate(case, plan, check_latencies=False)
    with pytest.raises(ScheduleError, match=reason):
        evaluate(case, plan, Readings.parse([setting]), check_latencies=False)


def test_looser_readings_cost_less():
    """Each disputed reading changes exactly what it says."""

    def cost(number_or_problem, plan, *settings):
        p = EXAMPLES[number_or_problem] if isinstance(number_or_problem, int) else number_or_problem
        return evaluate(p, plan, Readings.parse(settings), check_latencies=False)

    evaluate(
        EXAMPLES[1],
        schedule(([0, 1], (256, 128, 1))),
        Readings.parse(["above_native=allowed"]),
        check_latencies=False,
    )
    raster = WORKED["4A"][1]
    snake = WORKED["4B"][1]
    roomy = dataclasses.replace(EXAMPLES[4], capacity=40_000)
    assert cost(roomy, raster, "reuse=lru").subgraphs[0].loaded == 4 * 64 * 128  # every strip once
    assert cost(roomy, raster).subgraphs[0].loaded == 6 * 64 * 128
    assert cost(4, snake, "reuse=union").latency == cost(4, snake).latency
    split = schedule(([0], (64, 64, 32)))
    assert (
        cost(4, split, "split_k_lhs=resident").subgraphs[0].loaded
        < cost(4, split).subgraphs[0].loaded
    )
    assert cost(5, WORKED["5B"][1], "inner_matmul=padded").subgraphs[0].compute == 4 * (2000 + 500)
    ephemeral = schedule(([0, 1], NATIVE), ([2], NATIVE))
    assert cost(3, ephemeral, "consumed_outside=written").subgraphs[0].stored == 2 * 128 * 128
    idle = problem([([0], 1), ([2], 3), ([1], 4)], [1] * 3, [PW] * 3, [SQUARE] * 5, capacity=40_000)
    unused = schedule(([0], (128, 64, 1), [1]), ([1], (128, 64, 1)), ([0], NATIVE), ([2], NATIVE))
    assert cost(idle, unused).subgraphs[1].working_set == 2 * 64 * 128 + 128 * 128
    assert cost(idle, unused, "unused_residents=free").subgraphs[1].working_set == 2 * 64 * 128
    twice = problem([([0, 0], 1)], [1], [MM], [SQUARE, SQUARE], capacity=40_000)
    halves = schedule(([0], (64, 64, 128)))
    assert cost(twice, halves).subgraphs[0].working_set == 2 * 64 * 128 + 64 * 64
    assert (
        cost(twice, halves, "sharing=union").subgraphs[0].working_set
        == 64 * 128 + 64 * 64 + 64 * 64
    )
    assert (
        cost(twice, halves, "sharing=once-per-tensor").subgraphs[0].working_set
        == 64 * 128 + 64 * 64
    )


BAD_PROBLEMS = [
    ({"base_costs": None}, "field 'base_costs': the field is missing"),
    ({"inputs": [[4, 1], [3, 2]]}, "form a cycle: op 0 -> op 1 -> op 0"),
    ({"widths": [128, 128, 128, -128, 128]}, "tensor 3, field 'widths': must be in 1.."),
    (
        {"heights": [128, 128.5, 128, 128, 128]},
        "tensor 1, field 'heights': must be an integer, not 128.5",
    ),
    ({"op_types": ["MatMul", "Conv"]}, "op 1, field 'op_types': unknown operation type 'Conv'"),
    ({key: [] for key in ("inputs", "outputs", "base_costs", "op_types")}, "has no operation"),
    ({"widths": [128] * 4}, "4 widths but 5 heights"),
    ({"base_costs": [1]}, "the operation lists differ in length"),
    ({"inputs": [[0, 1], [3, 9]]}, "op 1, field 'inputs': must be in 0..4, not 9"),
    ({"outputs": [[3], [3]]}, "op 1, field 'outputs': tensor 3 is already produced by op 0"),
    ({"inputs": [[0], [3, 2]]}, "op 0, field 'inputs': a MatMul with 1 input"),
    (
        {"widths": [64, 128, 128, 128, 128]},
        "left tensor 0 has 64 columns, right tensor 1 has 128 rows",
    ),
    ({"heights": [128] * 4 + [64]}, "product tensor 4 is 128 wide and 64 high"),
    (
        {**EXAMPLES[1].to_json(), "widths": [128, 64, 128]},
        "input tensor 0 is 128 x 128, output tensor 1 is 64 x 128",
    ),
    ({"fast_memory_capacity": 0}, "'fast_memory_capacity': must be from 1 to 1e+18, not 0"),
    ({"slow_memory_bandwidth": -1}, "bandwidth': must be from 1e-09 to 1e+18, not -1"),
    ({"base_costs": [1, math.nan]}, "op 1, field 'base_costs': must be from 0 to 1e+18, not nan"),
    ({"native_granularity": [128]}, "field 'native_granularity': has 1 entries"),
    ({"inputs": {}}, "field 'inputs': must be a list, not dict"),
]


@pytest.mark.parametrize("changes, reason", BAD_PROBLEMS)
def test_bad_problem_is_refused_with_the_place(changes, reason):
    data = EXAMPLES[5].to_json() | changes
    with pytest.raises(PenstockError) as caught:
        Problem.from_json({key: value for key, value in data.items() if value is not None})
    assert reason in str(caught.value)


BAD_SOLUTIONS = [
    ({"subgraphs": None}, "field 'subgraphs': the field is missing"),
    ({"granularities": []}, "field 'granularities': 0 entries for 1 subgraphs"),
    ({"granularities": [[128, 128]]}, "subgraph 0, field 'granularities': 2 numbers"),
    ({"granularities": [[128, 0, 1]]}, "field 'granularities': must be at least 1, not 0"),
    ({"subgraph_latencies": ["fast"]}, "field 'subgraph_latencies': must be a number"),
]


@pytest.mark.parametrize("changes, reason", BAD_SOLUTIONS)
def test_bad_solution_file_is_refused_with_the_place(changes, reason):
    data = schedule(([0, 1], NATIVE)).to_json() | changes
    with pytest.raises(PenstockError) as caught:
        Schedule.from_json({key: value for key, value in data.items() if value is not None})
    assert reason in str(caught.value)


def test_traversal_orders_may_be_left_out():
    data = json.loads(json.dumps(schedule(([0, 1], NATIVE)).to_json()))
    del data["traversal_orders"]
    assert Schedule.from_json(data) == schedule(([0, 1], NATIVE))
