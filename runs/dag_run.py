"""Schedules of the DAG scheduler on the machine: run their programs, check values, and lay cycles
beside predicted latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from ..frontend import lower
from ..machine.config import Config
from ..machine.errors import PenstockError, RunError
from ..machine.record import Record
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..scheduler.dag import Problem, evaluate
from ..scheduler.dag.machine import Lowered, at_rates_of, lower_schedule
from ..scheduler.dag.machine.rates import LINE_ELEMENTS, text
from ..scheduler.dag.meter import SubgraphCost
from ..scheduler.dag.solution import Schedule
from ..system.output import write_picture
from . import dag_values
from .dag_ledger import TERMS, Ledger, ledger
from .provenance import versions

MOST_TRACED = 5_000_000
"""Predicted cycles of a program up to which its run is traced, so that its ledger can be drawn
up.
"""


@dataclass
class ProgramRun:
    """One program on one backend: a subgraph, or several between which tensors are retained. Times
    are in cycles, traffic in elements.
    """

    # subgraphs, ops, granularities: of the schedule, in order
    subgraphs: list[int]
    ops: list[list[int]]
    granularities: list[list[int]]
    steps: int
    backend: str
    # predicted, cycles: the evaluator's latency, and what the machine took
    predicted: float
    cycles: int
    # compute, memory: predicted, each for itself
    compute: float
    memory: float
    # kept, left: retained tensors that stay in the fabric, and that leave it
    kept: list[int]
    left: list[int]
    # predicted_elements, elements: loaded and stored; the machine moves whole lines
    predicted_elements: float
    elements: int
    onchip_bytes: int  # tiles of the program's scratchpads
    ledger: Ledger | None = None  # what lies between prediction and run; None for long runs
    # values_ok, max_rel_err: bit-equal to the reference of the stated arithmetic; largest error
    # against float64 (of the largest magnitude)
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
    def bound_by(self) -> str:
        """Resource that bounds the prediction."""
        return "compute" if self.compute >= self.memory else "memory"


@dataclass
class ScheduleRun:
    """A schedule on one backend: the problem, the machine, its programs."""

    problem: str
    backend: str
    config: str
    machine: str
    scale: int
    seed: int
    programs: list[ProgramRun] = field(default_factory=list)

    def total(self, name: str) -> float:
        return sum(getattr(s, name) for s in self.programs)

    @property
    def ratio(self) -> float:
        return self.total("predicted") / self.total("cycles")

    @property
    def ledger(self) -> Ledger | None:
        """The programs' ledgers, added up."""
        parts = [p.ledger for p in self.programs if p.ledger is not None]
        return sum(parts[1:], parts[0]) if len(parts) == len(self.programs) else None

    @property
    def spearman(self) -> float | None:
        """Rank correlation of predicted and simulated over the programs; None for fewer than
        three.
        """
        return spearman([s.predicted for s in self.programs], [s.cycles for s in self.programs])

    def record(self) -> Record:
        """The result record: the cycles of all programs, one after the other."""
        values = {s.values_ok for s in self.programs}
        errors = [s.max_rel_err for s in self.programs if s.max_rel_err is not None]
        return Record(
            f"dag:{self.problem}",
            self.config,
            {"scale": self.scale},
            self.backend,
            "machine",
            int(self.total("cycles")),
            values_ok=None if values == {None} else values == {True},
            max_rel_err=max(errors, default=None),
            mismatches=int(self.total("mismatches"))
            if all(s.mismatches is not None for s in self.programs)
            else None,
            wall_s=self.total("wall_s"),
            seed=self.seed,
            versions=versions(),
            schedule=self.to_dict(),
        )

    def to_dict(self) -> dict:
        whole = self.ledger
        return asdict(self) | {
            "predicted": self.total("predicted"),
            "cycles": self.total("cycles"),
            "ratio": self.ratio,
            "ledger": whole and asdict(whole),
            "spearman": self.spearman,
        }


def run_schedule(
    problem: Problem,
    schedule: Schedule,
    config: Config,
    *,
    on: str = "model",
    scale: int = 1,
    seed: int = 0,
    values: bool = True,
    progress: Callable[[str], None] | None = None,
    waves: str | None = None,
) -> list[ScheduleRun]:
    """Run a schedule; one `ScheduleRun` for `model`, one for `rtl`, two (and the beat-by-beat check
    of each program) for `both`.

    Parameters
    ----------
    problem, schedule
        As they are to be run (`scheduler.dag.machine.shrink` makes smaller ones; `scale` only
        records by how much). The problem's own costs and bandwidth do not count: the machine's do.
    config
        The machine.
    scale, seed
        By how much the problem was made smaller; of the inputs.
    on
        ``model`` | ``rtl`` | ``both``.
    values
        Compute and check values; False: cycles only, on the model.
    progress
        Called with one line per step.
    waves
        Path stem: a waveform of each program's run on the RTL, ``<waves>_<first subgraph>``.

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
    problem = at_rates_of(config, problem)
    costs = evaluate(problem, schedule, check_latencies=False).subgraphs
    programs = lower_schedule(problem, schedule, config.machine.t)
    true = dag_values.exact(problem, seed)
    held = (
        {t: true[t].astype(np.float32) for t, op in enumerate(problem.producer) if op is None}
        if values
        else {}
    )
    backends = ("model", "rtl") if on == "both" else (on,)
    results = {
        b: ScheduleRun(problem.name, b, config.name, text(config), scale, seed) for b in backends
    }
    for number, program in enumerate(programs):
        where = f"{problem.name}: program {number + 1} of {len(programs)}"
        graph = lower(program.graph, config)
        cost = [costs[i] for i in program.entries]
        traced = on == "both" or sum(c.latency for c in cost) <= MOST_TRACED
        done: dict[str, _Done] = {}
        for backend in backends:
            say(f"{where} on {backend}")
            path = f"{waves}_{program.entries[0]}" if waves else None
            before = done.get("model")
            done[backend] = _execute(
                program,
                graph,
                config,
                held,
                backend,
                trace=traced,
                values=values,
                waves=path,
                expected=before and before.run,
            )
        if on == "both" and not (report := done["rtl"].run.extra["report"]).ok:
            raise RunError(f"model and RTL differ\n{report}", where)
        for backend, got in done.items():
            row = _describe(schedule, cost, program, graph, config, got.run, traced)
            if values:
                row.values_ok, row.max_rel_err = dag_values.check(
                    program, graph, held, got.tensors, true, config.machine.t
                )
            row.mismatches = 0 if on == "both" else None
            results[backend].programs.append(row)
        held |= done[backends[0]].tensors
    return list(results.values())


@dataclass
class _Done:
    run: Run
    tensors: dict[int, np.ndarray]


def _execute(
    program: Lowered,
    graph: UnitGraph,
    config: Config,
    held: dict[int, np.ndarray],
    backend: str,
    trace: bool,
    values: bool,
    waves: str | None,
    expected: Run | None,
) -> _Done:
    t = config.machine.t
    ids = {u.name: u.id for u in graph.units}
    shapes = program.meters[0].problem.tensors
    empty = {
        h.tensor: np.zeros((shapes[h.tensor].height, shapes[h.tensor].width), np.float32)
        for h in program.sources.values()
    }  # without values
    sources = {
        ids[name]: dag_values.beats(held.get(h.tensor, empty[h.tensor]), h, t)
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
            graph,
            config,
            inputs,
            trace=trace,
            sources=sources,
            record=kept.values(),
            waves=waves,
            expected=expected,
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
        tensors[h.tensor] = dag_values.gather(
            np.ascontiguousarray(elements[:count]), h, (shape.height, shape.width), t
        )
    return _Done(run, tensors)


def _describe(
    schedule: Schedule,
    costs: Sequence[SubgraphCost],
    program: Lowered,
    graph: UnitGraph,
    config: Config,
    run: Run,
    traced: bool,
) -> ProgramRun:
    entries = [schedule.subgraphs[i] for i in program.entries]
    pads = [u for u in graph.units if u.kind.name == "scratchpad"]
    tiles = sum(u.kind.pages * u.kind.frames for u in pads)
    return ProgramRun(
        list(program.entries),
        [list(e.ops) for e in entries],
        [list(e.granularity) for e in entries],
        sum(c.steps for c in costs),
        run.backend,
        sum(c.latency for c in costs),
        int(run.cycles),
        sum(c.compute for c in costs),
        sum(c.memory for c in costs),
        list(program.kept),
        [h.tensor for h in program.sinks.values()],
        sum(c.loaded + c.stored for c in costs),
        LINE_ELEMENTS * int(run.lines_read + run.lines_written),
        tiles * config.machine.t**2 * 4,
        ledger(costs, graph, config, run) if traced else None,
        units=len(graph.units),
        wall_s=run.wall_s,
    )


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Rank correlation; None for fewer than three points."""
    if len(a) < 3:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def table(run: ScheduleRun) -> list[dict]:
    """Rows to print: programs, then the total."""
    rows = [
        {
            "subgraphs": ",".join(map(str, s.subgraphs)),
            "ops": " | ".join(",".join(map(str, ops)) for ops in s.ops),
            "w x h x k": " | ".join("x".join(map(str, g)) for g in s.granularities),
            "predicted": round(s.predicted),
            "simulated": s.cycles,
            "ratio": round(s.ratio, 3),
            **_entries(s.ledger),
            "bound by": s.ledger.busiest if s.ledger else s.bound_by,
            "kept": ",".join(map(str, s.kept)),
            "left": ",".join(map(str, s.left)),
            "values": s.values_ok,
            "error": s.max_rel_err,
        }
        for s in run.programs
    ]
    rows.append(
        {
            "subgraphs": "all",
            "predicted": round(run.total("predicted")),
            "simulated": int(run.total("cycles")),
            "ratio": round(run.ratio, 3),
            **_entries(run.ledger),
            "values": all(s.values_ok in (True, None) for s in run.programs),
        }
    )
    return rows


def _entries(entries: Ledger | None) -> dict[str, int]:
    """The terms of a ledger by the words of the table."""
    if entries is None:
        return {}
    return {title: round(getattr(entries, name)) for name, title in TERMS.items()}


def draw(path: str | Path, run: ScheduleRun) -> None:
    """Predicted beside simulated cycles per program, with what binds them, into an image file (by
    suffix).
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    index = np.arange(len(run.programs))
    figure, axis = plt.subplots(figsize=(max(6, 0.5 * len(index) + 3), 4.5), layout="constrained")
    predicted = [s.predicted for s in run.programs]
    axis.bar(index - 0.2, predicted, 0.4, label="predicted", color="lightsteelblue")
    waits = [s.ledger.waits if s.ledger else 0 for s in run.programs]
    worked = [s.cycles - wait for s, wait in zip(run.programs, waits, strict=True)]
    label = f"simulated ({run.backend}): busiest unit at work"
    axis.bar(index + 0.2, worked, 0.4, label=label, color="steelblue")
    axis.bar(index + 0.2, waits, 0.4, bottom=worked, label="fill, waits, drain", color="orange")
    compute = [s.compute for s in run.programs]
    memory = [s.memory for s in run.programs]
    axis.plot(index - 0.2, compute, "kv", markersize=5, label="predicted compute")
    axis.plot(index - 0.2, memory, "kx", markersize=5, label="predicted traffic")
    axis.set_xticks(index, [",".join(map(str, s.subgraphs)) for s in run.programs])
    axis.set_xlabel("subgraphs of a program")
    axis.set_ylabel("cycles")
    axis.set_title(f"{run.problem}: predicted / simulated {run.ratio:.3f}")
    axis.legend()
    write_picture(path, figure, dpi=110)
    plt.close(figure)
