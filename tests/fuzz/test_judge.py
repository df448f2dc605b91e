"""The judge of nested lists: it reads what wires carry, and finds streams of another form."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from penstock.frontend.meaning.evaluator import Evaluator
from penstock.fuzz import programs
from penstock.fuzz.recipe import Recipe
from penstock.machine.errors import FormError
from penstock.runs.judged import differences, judge_of
from penstock.testing.lists import check_form, decoded

STEPS = [
    {"op": "Source", "shape": ["static", "ragged", "ragged"], "scalar": 8},
    {"op": "Flatten", "ins": [[0, 0]], "args": {"lo": 0, "hi": 1}},
]
CONFIG = programs.machine((0,))


def encoded(x: list, level: int, whole: bool = True) -> list[tuple]:
    """Beats of a list that closes dimension ``level``; that of the whole stream closes none."""
    if not x:
        return [] if whole else [(None, level)]
    beats = [b for y in x for b in (encoded(y, level - 1, False) if level > 1 else [(y, 0)])]
    return beats if whole else [*beats[:-1], (beats[-1][0], level)]


def lists(rng, depth: int) -> list:
    return [lists(rng, depth - 1) if depth > 1 else 1 for _ in range(rng.integers(4))]


def has_a_form(x: list, depth: int, inside: bool = False) -> bool:
    if depth < 2:
        return True
    return not (inside and x == [[]]) and all(has_a_form(y, depth - 1, True) for y in x)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_lists_are_read_back_from_their_beats(depth):
    rng = np.random.default_rng(depth)
    drawn = [x for x in (lists(rng, depth) for _ in range(500)) if has_a_form(x, depth)]
    assert len(drawn) > 100
    for x in drawn:
        assert decoded(encoded(x, depth), depth) == x


def case(elements: list) -> programs.Case:
    return programs.prepare(Recipe([STEPS[0] | {"elements": elements}, STEPS[1]]), CONFIG)


def flatten_without_hold(self, node, items, shape, lo, hi):
    """The rule that looks at no beat but the one at hand."""
    for v, s in items:
        if v is not None or s <= lo or s > hi:
            yield v, s if s <= lo else lo if s <= hi else s - (hi - lo)


@pytest.mark.parametrize("side", ["meaning", "wire"])
@pytest.mark.parametrize("elements", [[[[1], []], [[2]]], [[[1], [2]], [[3, 4], [], []]]])
def test_a_group_that_ends_in_a_beat_of_its_own_is_found(elements, side, monkeypatch):
    one = case(elements)
    run = programs.run_model(one, CONFIG)
    _, meaning = programs.evaluation(one, CONFIG)
    judge = judge_of(one.built.graph, one.graph, run, one.tensors, one.built.given)
    assert differences(judge, one.graph, run, meaning) == []
    if side == "meaning":
        monkeypatch.setattr(Evaluator, "flatten", flatten_without_hold)
        _, meaning = programs.evaluation(one, CONFIG)
    else:
        unit = next(u for u in one.graph.units if u.kind.name == "sink")
        at = one.graph.inputs(unit.id)[0].id
        run = deepcopy(run)
        trace = run.channels[at]
        i = int(np.flatnonzero(trace.stop == 1)[-1])
        stop = np.insert(trace.stop, i, 0)
        data = np.insert(trace.data, i + 1, 0)
        run.channels[at] = replace(trace, stop=stop, data=data)
    (told,) = differences(judge, one.graph, run, meaning)
    assert "a bare stop of level 1 follows a plain value" in told


def test_an_empty_list_that_is_alone_in_its_list_has_no_form():
    s = case([[[1]], [[2]]]).built.graph.nodes[0].stream
    check_form([[[], []], []], 3, s)
    check_form([[], [[1]]], 3, s)
    with pytest.raises(FormError, match="alone in one of dimension 1"):
        check_form([[[1]], [[]]], 3, s)
