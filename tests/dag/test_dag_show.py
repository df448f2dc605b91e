"""Drawings of large DAGs: every operation has a place of its own, in the order of the graph."""

import pytest
from penstock.scheduler.dag.generate import KINDS, generate
from penstock.scheduler.dag.show import draw, graph_of, layout

PAGE = 1.25
"""Width over height."""


@pytest.mark.parametrize("kind", KINDS)
def test_3000_operations_have_room_for_their_numbers(kind):
    """A cell has at least 16 points on a page 20 inches high: four digits of 6 points."""
    problem = generate(kind, 3000)
    page = layout(graph_of(problem), PAGE)
    cells = {(x, y) for x, y in page.places.values()}
    assert len(cells) == len(page.places) == len(problem.ops)
    rows = {}
    for x, y in sorted(cells):
        assert x - rows.get(y, x - 1) >= 1
        rows[y] = x
    assert 72 * 20 * min(PAGE / page.width, 1 / page.height) >= 16
    assert max(page.height / page.width, page.width / page.height) < 2.5


@pytest.mark.parametrize("kind", KINDS)
def test_data_flow_down_and_to_the_right(kind):
    problem = generate(kind, 300)
    page = layout(graph_of(problem), PAGE)
    for consumer, op in enumerate(problem.ops):
        for tensor in op.inputs:
            producer = problem.producer[tensor]
            if producer is not None:
                above, below = ((page.strip[o], -page.places[o][1]) for o in (producer, consumer))
                assert above < below


def test_a_large_drawing_names_every_operation(tmp_path):
    problem = generate("moe", 200)
    path = tmp_path / "large.svg"
    draw(path, problem)
    text = path.read_text()
    assert all(f"<!-- {op} -->" in text for op in range(len(problem.ops)))
