"""Linear and integer programs over variables from 0 up, solved by HiGHS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import highspy

GRACE = 0.1
"""Seconds beyond the deadline that an answer is waited for."""


@dataclass
class Rows:
    """Sparse rows low <= a.x <= high."""

    starts: list[int] = field(default_factory=lambda: [0])
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    columns: int = 0

    def add(self, entries: Sequence[tuple[int, float]], low: float, high: float = np.inf) -> None:
        """A row; entries of one column are added up."""
        total: dict[int, float] = {}
        for column, value in entries:
            total[column] = total.get(column, 0.0) + value
        self.column.extend(total)
        self.value.extend(total.values())
        self.starts.append(len(self.column))
        self.low.append(low)
        self.high.append(high)


@dataclass(frozen=True)
class Solved:
    """Solution found: the variables (None: nothing), the objective, the reduced costs (of a linear
    program), and whether it is proven to be the best, or that there is nothing.
    """

    values: np.ndarray | None
    objective: float
    reduced: np.ndarray
    optimal: bool
    infeasible: bool


def minimise(
    cost: np.ndarray,
    rows: Rows,
    deadline: float,
    *,
    whole: int = 0,
    most: float = np.inf,
    tolerance: float = 0.0,
) -> Solved | None:
    """The least of cost.x by `deadline` (monotonic); None if HiGHS is not back a little after it.

    Parameters
    ----------
    cost
        One entry a variable.
    rows
        The constraints.
    deadline
        On the clock `time.monotonic()`.
    whole
        How many of the variables, from the first on, are integers.
    most
        What no variable exceeds.
    tolerance
        Relative difference from the best possible that ends the search.
    """
    model = highspy.HighsLp()
    model.num_col_ = rows.columns
    model.num_row_ = len(rows.low)
    model.col_cost_ = cost
    model.col_lower_ = np.zeros(rows.columns)
    model.col_upper_ = np.full(rows.columns, most)
    model.row_lower_ = np.array(rows.low, float)
    model.row_upper_ = np.array(rows.high, float)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.starts, np.int32)
    model.a_matrix_.index_ = np.array(rows.column, np.int32)
    model.a_matrix_.value_ = np.array(rows.value, float)
    if whole:
        kinds = [highspy.HighsVarType.kInteger] * whole
        kinds += [highspy.HighsVarType.kContinuous] * (rows.columns - whole)
        model.integrality_ = kinds
    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("time_limit", max(0.01, deadline - time.monotonic())),
        ("mip_rel_gap", tolerance),
    ):
        solver.setOptionValue(option, value)
    if solver.passModel(model) is highspy.HighsStatus.kError:
        raise ValueError("HiGHS refuses the program")
    return _interruptibly(lambda: _run(solver), deadline)


def _run(solver: highspy.Highs) -> Solved:
    solver.run()
    status = solver.getModelStatus()
    info = solver.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    solution = solver.getSolution()
    return Solved(
        np.array(solution.col_value) if found else None,
        info.objective_function_value,
        np.array(solution.col_dual),
        status == highspy.HighsModelStatus.kOptimal,
        status == highspy.HighsModelStatus.kInfeasible,
    )


_T = TypeVar("_T")


def _interruptibly(call: Callable[[], _T], deadline: float) -> _T | None:
    """Run a long call into HiGHS on a helper thread, so that Ctrl-C reaches the caller at once.

    None if it is not back a little after the deadline, which its presolve does not look at.
    """
    box: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            box.append(call())
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < deadline + GRACE:
        thread.join(0.05)
    if failure:
        raise failure[0]
    return box[0] if box else None
