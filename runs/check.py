"""The stage of a point that compares: values against NumPy, model against RTL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frontend.meaning.evaluator import Evaluator
from ..frontend.meaning.races import Race, races
from ..frontend.operators.tensors import TensorStore
from ..machine.beat import ELEMENT_BITS
from ..machine.errors import RunError
from ..machine.record import Record
from ..machine.trace import Run
from . import boundary
from .expected import expected
from .judged import differences, judge_of
from .point import Point


@dataclass(frozen=True)
class Checked:
    """Values of a run against their meaning."""

    # a message for each tensor and sink that is not bit-equal to the reference of the stated
    # arithmetic, and for each tensor beyond the tolerance
    wrong: list[str]
    errors: dict[str, float]  # each tensor's error against float64 (max norm)
    meaning: Evaluator  # the evaluation, which has the sizes
    sinks: dict[str, list[tuple]]  # elements with their stops of the sinks that are right


def values(point: Point, run: Run, judge: bool = False) -> Checked | None:
    """Check the tensors and sinks of a run; None where it has no values.

    Where units are merged as they arrive, the reference takes them in the order in which the run
    did. ``judge``: the judge of nested lists checks both.
    """
    if run.outputs is None or point.timing != "machine":
        return None
    order = boundary.arrivals(point.graph, run)
    graph = point.program.graph
    t = point.config.machine.t
    stated, meaning = expected(graph, point.tensors, t, point.streams, order)
    exact = point.program.reference64(point.tensors, point.streams, order)
    faults = boundary.sinks_at_fault(graph, point.graph, run, meaning.sinks)
    wrong = list(faults.values())
    right = [n for n in boundary.sinks(graph, point.graph) if n not in faults]
    if meaning.keeps_history:
        wrong += [_raced(point, race) for race in races(graph, meaning)]
    errors = {}
    for name, got in run.outputs.items():
        want = stated[name]
        if got.tobytes() != want.tobytes():
            differ = got.view(f"u{got.itemsize}") != want.view(f"u{got.itemsize}")
            wrong.append(
                f"tensor {name} differs from the NumPy reference of the stated arithmetic in "
                f"{differ.sum()} of {differ.size} elements: {_element(differ, got, want)}"
            )
        rounded = got.astype(np.float64)
        error = errors[name] = max_error(rounded, exact[name])
        allowed = point.allowed_error(name)
        if not error <= allowed:
            finite = np.isfinite(rounded) & np.isfinite(exact[name])
            far = np.abs(rounded - exact[name], where=finite, out=np.full(got.shape, np.inf))
            far[
                ~finite & ((rounded == exact[name]) | np.isnan(rounded) & np.isnan(exact[name]))
            ] = 0
            wrong.append(
                f"tensor {name} is {error:.3g} of its largest number away from the float64 "
                f"reference; the tolerance is {allowed:g}: "
                f"{_element(far == far.max(), got, exact[name])}"
            )
    if judge and (lists := judge_of(graph, point.graph, run, point.tensors, point.streams)):
        wrong += differences(lists, point.graph, run, meaning)
    return Checked(wrong, errors, meaning, {name: meaning.sinks[name] for name in right})


def _raced(point: Point, race: Race) -> str:
    """A message about an access that races a store."""
    ref = race.store.args.tensor
    does, wait = ("writes", "one") if isinstance(race.other, TensorStore) else ("reads", "the load")
    tensor = next(x for x in point.graph.tensors if x.name == ref.name)
    line = point.config.machine.dram.line_bytes
    at = tensor.base + race.row * tensor.pitch + race.col * ELEMENT_BITS[tensor.dtype] // 8
    return (
        f"{race.other.label} races {race.store.label} on tensor {tensor.name}: its element "
        f"{race.read} {does} row {race.row}, column {race.col}, of the line at "
        f"{at // line * line:#x}, which element {race.written} of the store writes, and neither "
        f"waits for the other; let {wait} wait for the acknowledgement"
    )


def _element(chosen: np.ndarray, got: np.ndarray, want: np.ndarray) -> str:
    """The first of the chosen elements, with both values."""
    at = np.unravel_index(np.argmax(chosen), chosen.shape)
    row, col = map(int, at)
    return f"element [{row}, {col}] is {float(got[at]):.9g}, the reference {float(want[at]):.9g}"


def max_error(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest difference of two arrays over the largest finite number of ``exact``; where one of
    two elements is infinite or NaN and the other is not the same, infinite.
    """
    finite = np.isfinite(exact) & np.isfinite(got)
    if not np.array_equal(got[~finite], exact[~finite], equal_nan=True):
        return float("inf")
    scale = np.max(np.abs(exact[finite]), initial=0.0) or 1.0
    return float(np.max(np.abs(got[finite] - exact[finite]), initial=0.0) / scale)


class DifferError(RunError):
    """A run of the RTL that is not the model's.

    Attributes
    ----------
    cycle
        Cycle of the first difference.
    """

    cycle = 0


def against_model(point: Point, rtl: Run, record: Record, stage) -> None:
    """Note in a record of the RTL the comparison with the model's run.

    Raises
    ------
    DifferError
        They differ; the message shows where.
    """
    # It needs the simulator, which runs on the model alone do without.
    from ..tb.rerun import unfold

    report = rtl.extra["report"]
    record.channels_observed = report.observed
    record.channels_total = report.total
    record.mismatches = report.mismatches
    record.compared = {n: getattr(report, n) for n in ("beats", "lines", "posts")}
    if not report.ok:
        shown = str(report)
        if "array" not in point.graph.meta:
            stage(f"RTL {point.label}: recording the channels that differ")
            shown = unfold(report, point.stimulus(), point.config)
        error = DifferError(f"model and RTL differ\n{shown}", point.label)
        error.cycle = min([rtl.cycles - 1, *(d.cycle for d in report.differences)])
        raise error
