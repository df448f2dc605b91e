"""A share of the trial of 2,000 problems (`nox -s dag_trial`): every reading, and that the trial
can fail.
"""

import dag_checker
import dag_trial
import pytest
from penstock.scheduler.dag import Readings
from penstock.testing.dag_cases import EXAMPLES, WORKED

SHARE = 60
LEAST = {0: 66, 3: 86, 8: 131, 10: 58, 15: 124, 18: 81, 20: 38, 23: 344, 25: 65, 28: 761}
LEAST |= {30: 389.25, 33: 45, 35: 128, 38: 178, 40: 164, 43: 81, 48: 54, 50: 25, 53: 82, 58: 195}
"""Least latency of tiny problems over all their schedules, by an enumeration that was made once."""


def test_share_covers_every_reading():
    assert {s for n in range(SHARE) for s in dag_trial.case(n)[2]} == set(dag_trial.SETTINGS)


@pytest.mark.parametrize("first", range(0, SHARE, 10))
def test_share_of_the_trial(first):
    """Evaluator and checker agree on every schedule, no bound is above one, and tiny problems are
    solved to optimality.
    """
    records = [dag_trial.judge(number, seconds=0.1) for number in range(first, first + 10)]
    assert [(r["number"], fault) for r in records for fault in r["faults"]] == []
    tiny = {r["number"]: r["latency"] for r in records if r["number"] in LEAST}
    assert tiny == pytest.approx({number: LEAST[number] for number in tiny})
    assert sum(r["schedules"] for r in records) > 20
    assert sum(r["spoiled"] for r in records) > 10


@pytest.mark.parametrize("name", WORKED)
def test_checker_reproduces_the_worked_examples(name):
    number, plan, stated = WORKED[name]
    assert dag_checker.latencies(EXAMPLES[number], plan, Readings()) == pytest.approx(stated)


def test_trial_notices_a_bound_above_a_schedule(monkeypatch):
    right = dag_trial.lower_bound
    monkeypatch.setattr(dag_trial, "lower_bound", lambda *a: 1.2 * right(*a))
    faults = [
        fault for number in (0, 3) for fault in dag_trial.judge(number, seconds=0.1)["faults"]
    ]
    assert any("is above a schedule" in fault for fault in faults)


def test_trial_notices_another_cost(monkeypatch):
    """A step of the checker that takes longer: the evaluator is told to be wrong."""
    right = dag_checker.Walk.takes
    monkeypatch.setattr(dag_checker.Walk, "takes", lambda *a: 1.01 * right(*a))
    assert "the checker has another latency" in dag_trial.judge(1, seconds=0.1)["faults"]


def test_trial_notices_a_rule_that_is_not_checked(monkeypatch):
    monkeypatch.setattr(
        dag_trial,
        "evaluate",
        lambda problem, schedule, readings, check_latencies: trial_evaluate(problem, schedule),
    )
    faults = [
        fault for number in range(12) for fault in dag_trial.judge(number, seconds=0.1)["faults"]
    ]
    assert any("the checker refuses a schedule" in fault for fault in faults)


def trial_evaluate(problem, schedule):
    """An evaluator that lets everything pass as something that takes for ever."""
    from types import SimpleNamespace

    return SimpleNamespace(
        latency=1e9, subgraphs=[SimpleNamespace(latency=1e9, steps=1) for _ in schedule.subgraphs]
    )
