"""Schedules of the DAG scheduler on the machine: run every subgraph's program, check its values,
and lay cycles beside predicted latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from ..frontend import lower
from ..machine.errors import PenstockError, RunError
from ..machine.record import Record
from ..machine.trace import Run, SourceBeats
from ..machine.unitgraph import UnitGraph
from ..scheduler.dag import Problem, evaluate
from ..scheduler.dag.machine import Fabric, Held, Lowered, derive, lower_subgraph
from ..scheduler.dag.machine.rates import LINE_ELEMENTS
from ..scheduler.dag.solution import Schedule
from ..system.output import write_picture
from .provenance import versions

__all__ = ["ScheduleRun", "SubgraphRun", "draw", "run_schedule", "spearman", "table"]


@dataclass
class SubgraphRun:
    """One subgraph on one backend. Times are in cycles, traffic in elements.

    Attributes
    ----------
    predicted, cycles
        The evaluator's latency, and what the machine took.
    fill
        What the problem's model leaves out by letting a step's loads, compute and stores overlap,
        and the machine cannot at both ends of a subgraph: right operands and slices that stay for
        several steps are loaded as a whole before the first work on them, and after a reduction
        over several steps the last output tile is stored (and passes the operations that run on
        finished tiles) at the end.
    latency
        Memory latency of a first load and a last store.
    overlap
        What the problem's model forbids and the machine does: the sum over the steps of the larger
        of compute and traffic, less the larger of the two sums.
    predicted_elements, elements
        Loaded and stored; the machine moves whole lines.
    busy
        Share of the run in which the busiest unit, and the memory, could have done nothing more.
    values_ok, max_rel_err
        Bit-equal to the reference of the stated arithmetic; largest error against float64 (of the
        largest magnitude).

    """

    index: int
    ops: list[int]
    granularity: list[int]
    tiles: int
    steps: int
    backend: str
    predicted: float
    cycles: int
    fill: float
    latency: int
    overlap: float
    predicted_elements: float
    elements: int
    compute_cycles: float
    memory_cycles: float
    bound_by: str
    values_ok: bool | None = None
    max_rel_err: float | None = None
    mismatches: int | None = None
    units: int = 0
    wall_s: float = 0.0

    @property
    def ratio(self) -> float:
        """Predicted / simulated."""
        return self.predicted / self.cycles

    @property
    def ratio_after_fill(self) -> float:
        """Predicted / (simulated less fill and memory latency)."""
        return self.predicted / (self.cycles - self.fill - self.latency)


@dataclass
class ScheduleRun:
    """A schedule on one backend: the problem, the machine, its subgraphs."""

    problem: str
    backend: str
    machine: str
    scale: int
    cycles_per_time: float
    seed: int
    subgraphs: list[SubgraphRun] = field(default_factory=list)

    def total(self, name: str) -> float:
        return sum(getattr(s, name) for s in self.subgraphs)

    @property
    def ratio(self) -> float:
        return self.total("predicted") / self.total("cycles")

    @property
    def ratio_after_fill(self) -> float:
        return self.total("predicted") / (
            self.total("cycles") - self.total("fill") - self.total("latency")
        )

    @property
    def spearman(self) -> float | None:
        """Rank correlation of predicted and simulated over the subgraphs; None for fewer than
        three.
        """
        return spearman([s.predicted for s in self.subgraphs], [s.cycles for s in self.subgraphs])

    def record(self) -> Record:
        """The result record: the cycles of all subgraphs, one after the other."""
        values = {s.values_ok for s in self.subgraphs}
        errors = [s.max_rel_err for s in self.subgraphs if s.max_rel_err is not None]
        return Record(
            f"dag:{self.problem}",
            self.machine,
            {"scale": self.scale},
            self.backend,
            "machine",
            int(self.total("cycles")),
            values_ok=None if values == {None} else values == {True},
            max_rel_err=max(errors, default=None),
            mismatches=int(self.total("mismatches"))
            if all(s.mismatches is not None for s in self.subgraphs)
            else None,
            wall_s=self.total("wall_s"),
            seed=self.seed,
            versions=versions(),
            schedule=self.to_dict(),
        )

    def to_dict(self) -> dict:
        return asdict(self) | {
            "predicted": self.total("predicted"),
            "cycles": self.total("cycles"),
            "ratio": self.ratio,
            "ratio_after_fill": self.ratio_after_fill,
            "spearman": self.spearman,
        }


def run_schedule(
    problem: Problem,
    schedule: Schedule,
    *,
    on: str = "model",
    t: int = 16,
    scale: int = 1,
    seed: int = 0,
    values: bool = True,
    progress: Callable[[str], None] | None = None,
    waves: str | None = None,
) -> list[ScheduleRun]:
    """Run a schedule; one `ScheduleRun` for `model`, one for `rtl`, two (and the beat-by-beat check
    of each subgraph) for `both`.

    Parameters
    ----------
    problem, schedule
        As they are to be run (`scheduler.dag.machine.shrink` makes smaller ones; `scale` only
        records by how much).
    scale, seed
        By how much the problem was made smaller; of the inputs.
    on
        ``model`` | ``rtl`` | ``both``.
    t
        Edge of the machine's physical tiles.
    values
        Compute and check values; False: cycles only, on the model.
    progress
        Called with one line per step.
    waves
        Path stem: a waveform of each subgraph's run on the RTL, ``<waves>_<subgraph>``.

    Raises
    ------
    PenstockError
        An illegal schedule, a program that does not fit, values that differ, RTL that differs from
        the model.

    """
    if on != "model" and not values:
        raise PenstockError("the RTL computes values", remedy="leave out --no-values")
    if waves and on == "model":
        raise PenstockError("only the RTL has waveforms", remedy="use --on rtl or --on both")
    say = progress or (lambda _line: None)
    costs = evaluate(problem, schedule, check_latencies=False).subgraphs
    residents = [frozenset[int]()] + [frozenset(s.retain) for s in schedule.subgraphs]
    args = [
        (problem, entry, resident, f"subgraph{i}")
        for i, (entry, resident) in enumerate(zip(schedule.subgraphs, residents, strict=False))
    ]
    fabric = derive(problem, [lower_subgraph(*a) for a in args], t)
    programs = [
        lower_subgraph(*a, interval=paces.get)
        for a, paces in zip(args, fabric.intervals, strict=False)
    ]
    exact = _exact(problem, seed)
    held = (
        {t_: exact[t_].astype(np.float32) for t_, op in enumerate(problem.producer) if op is None}
        if values
        else {}
    )
    backends = ("model", "rtl") if on == "both" else (on,)
    results = {
        b: ScheduleRun(problem.name, b, fabric.text(), scale, fabric.cycles_per_time, seed)
        for b in backends
    }
    for index, (entry, cost, program) in enumerate(
        zip(schedule.subgraphs, costs, programs, strict=False)
    ):
        graph = lower(program.graph, fabric.config)
        done = {}
        for backend in backends:
            say(f"{problem.name}: subgraph {index + 1} of {len(programs)} on {backend}")
            done[backend] = _execute(
                program,
                graph,
                fabric,
                held,
                backend,
                trace=on == "both",
                values=values,
                waves=f"{waves}_{index}" if waves else None,
            )
        if on == "both":
            from ..tb import check

            report = check.compare(done["model"].run, done["rtl"].run, graph)
            if not report.ok:
                raise RunError(
                    f"model and RTL differ\n{report}", f"{problem.name}: subgraph {index}"
                )
        for backend, got in done.items():
            row = _describe(index, entry, cost, program, graph, fabric, got.run)
            if values:
                row.values_ok, row.max_rel_err = _check_values(
                    program, graph, held, got.tensors, exact, t
                )
            row.mismatches = 0 if on == "both" else None
            results[backend].subgraphs.append(row)
        held |= done[backends[0]].tensors
    return list(results.values())


# -- values
# --------------------------------------------------------------------------


def _exact(problem: Problem, seed: int) -> list[np.ndarray]:
    """Every tensor in float64, of inputs with a deviation of 1 (right operands: 1 / sqrt(K)),
    rounded to fp32.
    """
    rng = np.random.default_rng(seed)
    rights = {op.inputs[1] for op in problem.ops if op.is_matmul}
    tensors: dict[int, np.ndarray] = {}
    for index, shape in enumerate(problem.tensors):
        if problem.producer[index] is None:
            scale = shape.height**-0.5 if index in rights else 1.0
            tensors[index] = (
                (rng.standard_normal((shape.height, shape.width)) * scale)
                .astype(np.float32)
                .astype(np.float64)
            )
    for op in problem.topological:
        given = [tensors[t] for t in problem.ops[op].inputs]
        if problem.ops[op].is_matmul:
            made = given[0] @ given[1]
        elif len(given) == 1:
            made = given[0] / (1 + np.exp(-given[0]))
        else:
            made = np.sum(given, axis=0)
        tensors[problem.ops[op].output] = made
    return [tensors[t] for t in range(len(problem.tensors))]


def _logical(values: np.ndarray, held: Held) -> list[tuple[np.ndarray, int]]:
    """The elements of a `Source`: (tile, stop)."""
    (rows, cols), inner = held.tile, held.steps or 1
    last = len(held.places) - 1
    out = []
    for i, (r, c) in enumerate(held.places):
        stop = (
            (2 if held.steps else 1)
            if i == last
            else 1
            if held.steps and (i + 1) % inner == 0
            else 0
        )
        out.append((values[r : r + rows, c : c + cols], stop))
    return out


def _nested(values: np.ndarray, held: Held) -> list:
    """The elements of a `Source` as nested lists."""
    tiles = [tile for tile, _ in _logical(values, held)]
    return [
        [tiles[i : i + held.steps] for i in range(0, len(tiles), held.steps)]
        if held.steps
        else tiles
    ]


def _beats(tiles: list[tuple[np.ndarray, int]], tile: tuple[int, int], t: int) -> SourceBeats:
    """Physical beats of logical fp32 tiles."""
    bands = -(-tile[0] // t)
    across = -(-tile[1] // t)
    count_bits = t.bit_length()
    words = np.zeros((len(tiles) * bands * across + 1, t * t + 1), np.uint32)
    stops = np.zeros(len(words), np.uint8)
    at = 0
    for values, stop in tiles:
        padded = np.zeros((bands * t, across * t), np.float32)
        padded[: values.shape[0], : values.shape[1]] = values
        for b in range(bands):
            for a in range(across):
                words[at, :-1] = (
                    padded[b * t : b * t + t, a * t : a * t + t].ravel().view(np.uint32)
                )
                rows, cols = (
                    min(max(n - i * t, 0), t) for n, i in zip(values.shape, (b, a), strict=False)
                )
                words[at, -1] = rows | cols << count_bits
                stops[at] = 0 if a < across - 1 else 1 if b < bands - 1 else 2 + stop
                at += 1
    stops[at] = 15
    data = np.ones(len(words), np.uint8)
    data[at] = 0
    return SourceBeats(np.zeros(len(words), np.int64), stops, data, words)


def _gather(elements: np.ndarray, held: Held, shape: tuple[int, int], t: int) -> np.ndarray:
    """A retained tensor from the elements [beats, t * t] that its sink took."""
    (rows, cols), (bands, across) = held.tile, (-(-held.tile[0] // t), -(-held.tile[1] // t))
    whole = (
        elements.reshape(len(held.places), bands, across, t, t)
        .transpose(0, 1, 3, 2, 4)
        .reshape(-1, bands * t, across * t)
    )
    out = np.zeros(shape, np.float32)
    for tile, (r, c) in zip(whole, held.places, strict=False):
        place = out[r : r + rows, c : c + cols]
        place[:] = tile[: place.shape[0], : place.shape[1]]
    return out


@dataclass
class _Done:
    run: Run
    tensors: dict[int, np.ndarray]


def _execute(
    program: Lowered,
    graph: UnitGraph,
    fabric: Fabric,
    held: dict[int, np.ndarray],
    backend: str,
    trace: bool,
    values: bool,
    waves: str | None,
) -> _Done:
    t = fabric.config.machine.t
    config = fabric.config
    ids = {u.name: u.id for u in graph.units}
    shapes = program.meter.problem.tensors
    empty = {
        h.tensor: np.zeros((shapes[h.tensor].height, shapes[h.tensor].width), np.float32)
        for h in program.sources.values()
    }  # without values
    sources = {
        ids[name]: _beats(_logical(held.get(h.tensor, empty[h.tensor]), h), h.tile, t)
        for name, h in program.sources.items()
    }
    inputs = (
        {x.name: held[int(x.name[1:])] for x in graph.tensors if x.role == "input"}
        if values
        else None
    )
    kept = {name: graph.inputs(ids[name])[0].id for name in program.sinks}
    if backend == "model":
        from .. import model

        run = model.run(graph, config, inputs, values=values, trace=trace, sources=sources)
        taken = {
            name: beats for name in kept if (beats := run.sink_beats[ids[name]].values) is not None
        }
    else:
        from ..tb import run as simulate

        run = simulate(
            graph, config, inputs, trace=trace, sources=sources, record=kept.values(), waves=waves
        )
        taken = {
            name: run.extra["payloads"][c][:, : t * t].astype(np.uint32).view(np.float32)
            for name, c in kept.items()
        }
    tensors = {int(name[1:]): np.asarray(a, np.float32) for name, a in (run.outputs or {}).items()}
    for name, elements in taken.items():
        h = program.sinks[name]
        shape = shapes[h.tensor]
        count = len(h.places) * -(-h.tile[0] // t) * -(-h.tile[1] // t)
        tensors[h.tensor] = _gather(
            np.ascontiguousarray(elements[:count]), h, (shape.height, shape.width), t
        )
    return _Done(run, tensors)


def _check_values(
    program: Lowered,
    graph: UnitGraph,
    held: dict[int, np.ndarray],
    got: dict[int, np.ndarray],
    exact: list[np.ndarray],
    t: int,
):
    from .expected import evaluator

    sources = {name: _nested(held[h.tensor], h) for name, h in program.sources.items()}
    ev = evaluator(
        {x.name: held[int(x.name[1:])] for x in graph.tensors if x.role == "input"}, t, sources
    )
    want = {int(name[1:]): a for name, a in ev.run(program.graph).items()}
    for name, h in program.sinks.items():
        out = np.zeros_like(got[h.tensor])
        for (tile, _), (r, c) in zip(ev.sinks[name], h.places, strict=False):
            out[r : r + tile.shape[0], c : c + tile.shape[1]] = tile
        want[h.tensor] = out
    ok = True
    worst = 0.0
    for tensor, a in got.items():
        ok &= a.astype(np.float32).tobytes() == want[tensor].astype(np.float32).tobytes()
        worst = max(
            worst, float(np.max(np.abs(a - exact[tensor])) / (np.max(np.abs(exact[tensor])) or 1.0))
        )
    return bool(ok), worst


# -- times
# --------------------------------------------------------------------------


def _describe(
    index: int, entry, cost, program: Lowered, graph: UnitGraph, fabric: Fabric, run: Run
) -> SubgraphRun:
    tau = fabric.cycles_per_time
    dram = fabric.config.machine.dram
    latency = (dram.start_up + dram.latency + 3) * (bool(run.lines_read) + bool(run.lines_written))
    fill = tau * _fill(program, entry, cost.tiles)
    return SubgraphRun(
        index,
        list(entry.ops),
        list(entry.granularity),
        cost.tiles,
        cost.steps,
        run.backend,
        tau * cost.latency,
        int(run.cycles),
        fill,
        latency,
        tau * (cost.latency - max(cost.compute, cost.memory)),
        cost.loaded + cost.stored,
        LINE_ELEMENTS * int(run.lines_read + run.lines_written),
        tau * cost.compute,
        dram.interval * int(run.lines_read + run.lines_written),
        cost.bound_by,
        units=len(graph.units),
        wall_s=run.wall_s,
    )


def _fill(program: Lowered, entry, tiles: int) -> float:
    """`SubgraphRun.fill` in units of time, from the predicted costs of the first and of the last
    step.
    """
    bandwidth = program.meter.problem.bandwidth
    first, last = _ends(program, entry)
    before = min(sum(program.ahead), first.loaded) / bandwidth
    head = (
        before
        + max(first.compute, first.loaded / bandwidth - before)
        - max(first.compute, first.loaded / bandwidth)
    )
    if program.meter.steps_per_tile == 1:
        return head
    late = sum(w.cost for w in program.work.values() if w.late) / tiles
    stored = last.stored / bandwidth
    return (
        head
        + max(last.compute - late, last.loaded / bandwidth)
        + max(late, stored)
        - max(last.compute, last.loaded / bandwidth + stored)
    )


def _ends(program: Lowered, entry):
    """Predicted cost of the first and of the last step."""
    meter = program.meter
    tiles = list(meter.tiles(entry.order))
    first, _ = meter.step(*tiles[0], 0, {})
    last_step = meter.steps_per_tile - 1
    before = (
        {}
        if len(tiles) == 1 and not last_step
        else meter.buffers(*tiles[-1], last_step - 1)
        if last_step
        else meter.buffers(*tiles[-2], 0)
    )
    return first, meter.step(*tiles[-1], last_step, before)[0]


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Rank correlation; None for fewer than three points."""
    if len(a) < 3:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def table(run: ScheduleRun) -> list[dict]:
    """Rows to print: subgraphs, then the total."""
    rows = [
        {
            "subgraph": s.index,
            "ops": ",".join(map(str, s.ops)),
            "w x h x k": "x".join(map(str, s.granularity)),
            "steps": s.steps,
            "predicted": round(s.predicted),
            "simulated": s.cycles,
            "ratio": round(s.ratio, 3),
            "fill": round(s.fill),
            "memory latency": s.latency,
            "ratio after fill": round(s.ratio_after_fill, 3),
            "forbidden overlap": round(s.overlap),
            "lines / elements": round(s.elements / s.predicted_elements, 3)
            if s.predicted_elements
            else None,
            "bound by": s.bound_by,
            "values": s.values_ok,
            "error": s.max_rel_err,
        }
        for s in run.subgraphs
    ]
    rows.append(
        {
            "subgraph": "all",
            "predicted": round(run.total("predicted")),
            "simulated": int(run.total("cycles")),
            "ratio": round(run.ratio, 3),
            "fill": round(run.total("fill")),
            "memory latency": int(run.total("latency")),
            "ratio after fill": round(run.ratio_after_fill, 3),
            "forbidden overlap": round(run.total("overlap")),
            "values": all(s.values_ok in (True, None) for s in run.subgraphs),
        }
    )
    return rows


def draw(path: str | Path, run: ScheduleRun) -> None:
    """Predicted beside simulated cycles per subgraph, with what binds them, into an image file (by
    suffix).
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    index = np.arange(len(run.subgraphs))
    figure, axis = plt.subplots(figsize=(max(6, 0.5 * len(index) + 3), 4.5), layout="constrained")
    axis.bar(
        index - 0.2,
        [s.predicted for s in run.subgraphs],
        0.4,
        label="predicted",
        color="lightsteelblue",
    )
    axis.bar(
        index + 0.2,
        [s.cycles - s.fill - s.latency for s in run.subgraphs],
        0.4,
        label=f"simulated ({run.backend})",
        color="steelblue",
    )
    axis.bar(
        index + 0.2,
        [s.fill + s.latency for s in run.subgraphs],
        0.4,
        bottom=[s.cycles - s.fill - s.latency for s in run.subgraphs],
        label="fill and memory latency",
        color="orange",
    )
    axis.plot(
        index + 0.2, [s.compute_cycles for s in run.subgraphs], "kv", markersize=5, label="compute"
    )
    axis.plot(
        index + 0.2,
        [s.memory_cycles for s in run.subgraphs],
        "kx",
        markersize=5,
        label="memory (whole lines)",
    )
    axis.set_xticks(index, [str(s.index) for s in run.subgraphs])
    axis.set_xlabel("subgraph")
    axis.set_ylabel("cycles")
    axis.set_title(
        f"{run.problem}: predicted / simulated {run.ratio:.3f}, after fill "
        f"{run.ratio_after_fill:.3f}"
    )
    axis.legend()
    write_picture(path, figure, dpi=110)
    plt.close(figure)
