"""Run STeP programs from Python: the same calls that the command line makes.

>>> import penstock
>>> records = penstock.run("swiglu", config="fig8", params={"tile_b": 16, "tile_inter": 64})

A point goes through stages, a module each: program and lowering (:mod:`.point`), its streams
(:mod:`.boundary`), its run (:mod:`.simulation`), its check (:mod:`.check`) and its record
(:mod:`.recording`); :mod:`.outcomes` takes many points through them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .. import model
from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.record import Record
from ..machine.record import load as load_records
from ..machine.record import save as save_records
from ..model.timeline import write as write_timeline
from ..system.output import folder_writable
from . import leaving
from .links import tracks
from .many import outcomes
from .options import BACKENDS
from .outcomes import Outcome
from .plan import grid_points
from .point import Point
from .progress import Progress
from .progress import of as progress_of
from .provenance import versions
from .tables import wrong

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
    "timeline",
    "verilog",
    "versions",
]

COLUMNS = (
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
"""Columns that :func:`table` shows by default."""


def run(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    on: str = "model",
    timing: str = "machine",
    values: bool = True,
    seed: int = 0,
    progress: Progress | Callable[[str], None] | None = None,
    tolerance: float | None = None,
    **options: str | bool | None,
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
    progress
        A display of penstock.runs.progress, or a function that is called with one line per step.
    tolerance
        Most that an output tensor may be away from float64 (the program's ``reference()`` where it
        has one), relative to the tensor's largest magnitude; None: the program's own ``tolerance``,
        or where it has a reference 1e-3 (fp32) and 5e-2 (bf16).
    options
        ``onchip_rule``: of the symbolic on-chip requirement: ``published``, ``paper``, ``machine``
        (the pages that this machine takes at most), or one registered with
        ``frontend.register_rule``. ``waves``: path stem for a waveform of the RTL run.
        ``on_array``: True places the program on the array of its configuration.

    Raises
    ------
    PenstockError
        Bad input, a deadlock, or no simulator.

    Warns
    -----
    RuntimeWarning
        Values are wrong: ``values_ok`` of a record is False, and its ``wrong`` has messages.
    """
    records = run_points(
        program,
        config,
        [params or {}],
        on=on,
        timing=timing,
        values=values,
        seed=seed,
        progress=progress,
        outputs=True,
        tolerance=tolerance,
        **options,
    )
    return _warned(records)


def sweep(
    program: str,
    config: str | Config = "fig8",
    grid: Mapping[str, Iterable] | None = None,
    *,
    fixed: dict | None = None,
    **options,
) -> list[Record]:
    """Run a program at every point of ``grid`` (name -> values); RTL
    points of equal structure share one simulator build. Options as in
    :func:`run_points`.
    """
    return _warned(run_points(program, config, grid_points(grid or {}, fixed), **options))


def _warned(records: list[Record]) -> list[Record]:
    """The records, with a RuntimeWarning where values are wrong."""
    if text := wrong(records):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return records


def run_points(program: str, config: str | Config, points: list[dict], **options) -> list[Record]:
    """Run a program at each of ``points`` (parameters); the model's
    records come first, then the RTL's. Options as in :func:`run`, and
    ``executor``, any of `concurrent.futures` or a pool of
    :mod:`.executors` (None: this process), and ``store``, a
    :class:`~penstock.runs.store.Store`.
    """
    found = outcomes(program, config, points, keep_going=False, **options)
    return [r for r in (*(o.model for o in found), *(o.rtl for o in found)) if r]


def timeline(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    out: str | Path,
    seed: int = 0,
    on_array: bool = False,
) -> Path:
    """Write the timeline of a model run (timing `machine`; open it at ui.perfetto.dev);
    ``on_array``: of the program on the array of the configuration, with a track for each track of
    its links.
    """
    config = load_config(config) if isinstance(config, str) else config
    point = Point(program, config, params or {}, seed=seed)
    if on_array:
        from .array import placed  # networkx and scipy, which fabrics of their own do without

        point = placed(point).on_array()
    run = model.run(
        point.graph, config, values=False, trace=True, timeline=True, sources=point.source_beats()
    )
    path = Path(out)
    write_timeline(path, point.graph, run, tracks(point.graph))
    return path


def verilog(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    out: str | Path,
    prefix: str = "penstock",
    annotated: bool = False,
    clock_mhz: float | None = None,
    bench: bool = False,
    progress: Progress | Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the Verilog of a program's fabric, and its sidecar (ports, registers, stream layouts,
    versions), into a folder that is made if needed.

    Parameters
    ----------
    program, config, params
        As of :func:`run`.
    out
        The folder.
    prefix
        What the names of all modules begin with; ``<prefix>_fabric`` is the top.
    annotated
        Whether the Verilog has attributes ``src``, the Python line of each part.
    clock_mhz
        Write a project for synthesis tools instead of one file: a file a module, a list of them,
        and constraints for this clock, in MHz (docs/top.md).
    bench
        Write a bench for cocotb beside it, with the model's cycles and beats (docs/testing.md).
    progress
        Called with a line about each stage.

    Raises
    ------
    PenstockError
        What ``run`` raises before it runs, and with a bench what it raises; nothing is written
        then.
    """
    # Amaranth takes a second to import; only this call needs it.
    from ..hw.export import check_prefix, export, put
    from ..hw.export.project import files_of
    from ..hw.fabric import Fabric

    check_prefix(prefix)
    config = load_config(config) if isinstance(config, str) else config
    graph = lower(build(program, params or {}, config).graph, config)
    folder_writable(Path(out))
    show = progress_of(progress)
    if bench:
        show.stage(f"model {graph.name}")
        stimulus = Point(program, config, params or {}).stimulus()
        run = leaving.run(stimulus, config)
    what = f"export Verilog of {graph.name}"
    show.stage(what)
    done = export(
        Fabric(graph, config),
        prefix=prefix,
        annotated=annotated,
        step=lambda line: show.step(f"{what}: {line}"),
    )
    files = files_of(done, clock_mhz)
    if bench:
        wires = leaving.of_fabric(graph, done)
        files |= leaving.bench(stimulus, run, config, done, files, wires)
    return put(done, files, out)


def table(records: list[Record], columns: Iterable[str] | None = None) -> list[dict]:
    """Records as rows of plain values, a column a parameter: for printing, CSV, data frames."""
    columns = list(columns or COLUMNS)
    rows = []
    for r in records:
        row = {c: getattr(r, c) for c in columns[:1]}
        row |= dict(r.params.items())
        row |= {c: getattr(r, c) for c in columns[1:]}
        rows.append(row)
    return rows
