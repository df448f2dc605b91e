"""`penstock regress`: designs that the RTL and the model must agree on, beat for beat."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..machine.config import Config, check, load
from ..machine.errors import PenstockError
from ..machine.forms import in_form
from ..machine.record import Record
from ..system.output import folder, write_text
from ..tb.environment import RegressionSettings, asked
from ..workloads.operators import PARTS
from . import api, many, tables
from .check import DifferError
from .executors import Pool
from .outcomes import Outcome
from .point import Point
from .progress import Progress
from .progress import of as progress_of


@dataclass(frozen=True)
class Design:
    """A program at several points on one machine (one simulator build where the structure is
    equal).
    """

    name: str  # of the design, as the table shows it
    config: str  # preset name or TOML file
    points: tuple[dict, ...]  # parameters of the program, one dict a point
    # fields of ``[machine]`` that differ from the preset's
    fields: Mapping = field(default_factory=dict)
    program: str = "swiglu"  # workload name or program file
    seeds: int = 1  # draws of inputs and streams that every point is run at
    deep: bool = False  # left out unless asked for
    # on the array that its configuration is; or on an overlay of these fields, where the program is
    # the name of a dataflow graph
    on_array: bool = False
    overlay: Mapping = field(default_factory=dict)

    @property
    def has_forms(self) -> bool:
        """True if its machine is one of a fabric of its own."""
        return not self.on_array and not self.overlay

    def again(self, seed: int, form: str = "any") -> str:
        """A line for a shell that runs it again from a seed on."""
        more = ["--deep"] * self.deep + ([] if form == "any" else ["--form", form])
        more += ["--stop-at-first"] * self.has_forms
        asked = f"COCOTB_RANDOM_SEED={seed} COCOTB_TESTCASE={shlex.quote(self.name)}"
        return " ".join([asked, "penstock regress", *more])

    def machine(self, form: str = "any") -> Config:
        """The design's machine, in one of :data:`penstock.machine.forms.FORMS`."""
        config = load(self.config)
        name = config.name
        if self.fields:
            name = self.name.removeprefix(f"{self.program} ").replace(" ", "_")
        machine = in_form(replace(config.machine, **self.fields), form)
        if machine == config.machine:
            return config
        name = name if form == "any" else f"{name}_{form}"
        return check(replace(config, name=name, machine=machine))


def _units(n: int) -> dict:
    return {"units": {"matmul": n, "map": n}}


def _p(batch: int, dim: int, inter: int, tile_b: int, tile_inter: int) -> dict:
    return {"batch": batch, "dim": dim, "inter": inter, "tile_b": tile_b, "tile_inter": tile_inter}


SMALL = (
    _p(8, 16, 16, 4, 8),
    _p(8, 16, 24, 8, 8),
    _p(16, 8, 16, 8, 16),
    _p(6, 10, 12, 6, 6),
    _p(10, 18, 14, 5, 7),
    _p(4, 4, 4, 4, 4),
)
WIDE = (
    _p(32, 64, 64, 16, 32),
    _p(64, 64, 64, 64, 64),
    _p(16, 32, 96, 16, 48),
    _p(40, 72, 56, 20, 28),
    _p(24, 40, 40, 24, 40),
)
FIG8 = tuple({"tile_b": b, "tile_inter": i} for b in (16, 32, 64) for i in (16, 32, 64, 128, 256))

MOE = {"tokens": 12, "experts": 2, "dim": 8, "inter": 8, "tile_inter": 8}
ATTENTION = {"requests": 4, "regions": 2, "most": 3}
FULL_MOE = {"tokens": 64, "experts": 8}
FULL_ATTENTION = {"requests": 16, "regions": 4, "most": 32}
LAYER = {
    **{"requests": 4, "dim": 16, "heads": 2, "kv_heads": 1, "head_dim": 8, "chunks": 2},
    **{"tile_out": 8, "rows_out": 2, "kv_tile": 4, "most": 4, "skew": 0.3},
    **{"inter": 16, "experts": 2, "top_k": 1, "tile_inter": 8, "regions": 0},
}
"""A whole decoder layer, small."""


def _one(
    program: str, what: str, params: Mapping[str, Any], *, seeds: int = 3, deep: bool = False
) -> Design:
    """A program at one point, on ``small_fpga``."""
    return Design(
        f"{program} {what}".strip(),
        "small_fpga",
        (dict(params),),
        program=program,
        seeds=seeds,
        deep=deep,
    )


DESIGNS = (
    *(_one("operators", part, {"part": part}, seeds=8) for part in PARTS),
    _one("simple_moe", "", {}),
    _one("moe", "static", {"tile_rows": 4, **MOE}),
    _one("moe", "dynamic", {"tile_rows": 0, **MOE}),
    _one("moe", "time-multiplexed", {"tile_rows": 0, "regions": 1, **MOE}),
    _one("attention", "coarse", {"parallel": "coarse", "softmax": "published", **ATTENTION}),
    _one("attention", "interleaved", {"parallel": "interleaved", "softmax": "stable", **ATTENTION}),
    _one("attention", "dynamic", {"parallel": "dynamic", "softmax": "online", **ATTENTION}),
    _one("moe", "8 experts static", {"tile_rows": 16, **FULL_MOE}, deep=True),
    _one("moe", "8 experts dynamic", {"tile_rows": 0, **FULL_MOE}, deep=True),
    _one(
        "moe", "8 experts time-multiplexed", {"tile_rows": 0, "regions": 4, **FULL_MOE}, deep=True
    ),
    *(
        _one(
            "attention",
            f"16 requests {p}",
            {"parallel": p, "softmax": s, **FULL_ATTENTION},
            deep=True,
        )
        for p, s in (("coarse", "online"), ("interleaved", "published"), ("dynamic", "stable"))
    ),
    _one(
        "published_moe",
        "dynamic",
        {
            "tokens": 8,
            "dim": 8,
            "inter": 8,
            "experts": 4,
            "top_k": 2,
            "tile_rows": 0,
            "tile_inter": 4,
        },
    ),
    _one(
        "published_attention",
        "dynamic",
        {
            "requests": 8,
            "regions": 2,
            "heads": 4,
            "head_dim": 8,
            "kv_tile": 4,
            "most": 3,
            "parallel": "dynamic",
        },
    ),
    _one("published_layer", "dynamic", LAYER, seeds=1, deep=True),
    _one(
        "published_layer",
        "static",
        {"parallel": "interleaved", "tile_rows": 2, **LAYER},
        seeds=1,
        deep=True,
    ),
    Design("swiglu small_fpga", "small_fpga", SMALL),
    Design("swiglu small_fpga x2", "small_fpga", SMALL, _units(2)),
    Design("swiglu small_fpga x4", "small_fpga", SMALL, _units(4)),
    Design(
        "swiglu small_fpga narrow",
        "small_fpga",
        SMALL,
        {"rows_per_cycle": 2, "lanes": {"default": 4, "silu": 1, "accum": 8}},
    ),
    Design("swiglu paper_hdl_bf16", "paper_hdl_bf16", WIDE),
    Design("swiglu paper_hdl_bf16 x2", "paper_hdl_bf16", WIDE, _units(2)),
    Design("swiglu paper_hdl_bf16 x4", "paper_hdl_bf16", WIDE, _units(4)),
    Design("swiglu fig8", "fig8", FIG8),
)
"""Programs on fabrics of their own."""
ELSEWHERE = (
    Design("swiglu array_tiny", "array_tiny", SMALL[:1], on_array=True),
    *(
        Design(f"ladder overlay {pe}", f"{pe} PEs", ({},), program="gen:ladder:6", overlay=fields)
        for pe in ("static", "dynamic")
        for fields in ({"rows": 2, "cols": 2, "pe": pe},)
    ),
)
"""Programs on an array, and graphs on overlays of each kind of PE."""


OnOverlay = Callable[[Design, int, Progress], Sequence[Record]]


def run(
    only: str | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    designs: tuple[Design, ...] = DESIGNS + ELSEWHERE,
    deep: bool = False,
    waves: str | None = None,
    executor: Executor | Pool | None = None,
    form: str = "any",
    stop: bool = False,
    on_overlay: OnOverlay | None = None,
) -> tuple[list[Record], list[dict]]:
    """Run every design whose name contains ``only``; the deep ones (workloads at the paper's
    reduced sizes, minutes each) if asked for. ``waves``: path stem of a waveform of the first point
    of each design, which is run once more for it; with ``stop`` of the first point of a design that
    differs from the model, up to the cycle of the first difference. ``executor``: as of
    ``run_points``. ``form``: of every design's machine. ``on_overlay``: runs a design of an
    overlay from a seed on model and RTL; without it they are left out.

    Returns
    -------
    records, rows
        All records, and one table row per point with the totals last. A row of a point that failed
        has its message in ``failed``; the other points of its design keep their rows.
    """
    wanted = asked()
    designs = tuple(d for d in designs if d.has_forms or form == "any")
    designs = tuple(d for d in designs if on_overlay or not d.overlay)
    picked = chosen(only, deep, designs, wanted)
    overlays = [d for d in picked if d.overlay]
    picked = [d for d in picked if not d.overlay]
    waves = waves or ("regress" if wanted.waves or stop else None)
    show = progress_of(progress)

    def show_waves(d: Design, params: dict, seed: int = 0, cycles: int | None = None) -> str:
        stem = f"{waves}_{d.name.replace(' ', '_')}"
        show.stage(f"waveform of {d.name}")
        more = {"waves": stem, "max_cycles": cycles, "progress": show}
        api.outcomes(d.program, d.machine(form), [params], on="rtl", seed=seed, **more)
        return stem

    for d in picked if waves and not stop else ():
        if d.has_forms:
            show_waves(d, d.points[0])
    runs = [
        [(p, seed) for p in d.points for seed in range(wanted.seed, wanted.seed + d.seeds)]
        for d in picked
    ]
    calls = [
        many.call(
            d.program,
            d.machine(form),
            [p for p, _ in own],
            on="both",
            seed=[s for _, s in own],
            judge=True,
            on_array=d.on_array,
        )
        for d, own in zip(picked, runs, strict=True)
    ]
    found: dict[tuple[int, int], Outcome] = {}
    for number, place, outcome in many.several(calls, progress=show, executor=executor):
        found[number, place] = outcome
    records = []
    rows = []
    stopped = set()
    for (number, place), o in sorted(found.items(), key=lambda pair: pair[0]):
        d = picked[number]
        p, seed = runs[number][place]
        records += o.records
        drawn = {"seed": seed} if d.seeds > 1 else {}
        point = " ".join(f"{k}={v}" for k, v in (p | drawn).items())
        rows.append(tables.row(o, design=d.name, point=point))
        if "failed" in rows[-1]:
            rows[-1]["failed"] += f"\nagain: {d.again(seed, form)}"
        if stop and isinstance(o.error, DifferError) and d.has_forms and number not in stopped:
            stopped.add(number)
            stem = show_waves(d, p, seed, o.error.cycle + 1)
            rows[-1]["failed"] += f"\nwaves to cycle {o.error.cycle}: {stem}"
    for d in overlays:
        assert on_overlay, "overlays are left out without it"
        o = Outcome({})
        show.step(f"{d.name}, {d.program}")
        try:
            o.model, o.rtl = on_overlay(d, wanted.seed, show)
        except PenstockError as e:
            o.error = e
        records += o.records
        rows.append(tables.row(o, design=d.name, point=d.program))
        if "failed" in rows[-1]:
            rows[-1]["failed"] += f"\nagain: {d.again(wanted.seed)}"
    return records, [*rows, tables.total(rows, design="total")]


def chosen(
    only: str | None,
    deep: bool,
    designs: tuple[Design, ...] = DESIGNS + ELSEWHERE,
    wanted: RegressionSettings | None = None,
) -> list[Design]:
    """Designs whose names contain a text, and that the environment asks for.

    Raises PenstockError where there is none.
    """
    wanted = wanted or asked()
    if wanted.tests:
        designs = tuple(d for d in designs if wanted.tests.search(d.name))
    designs = tuple(d for d in designs if deep or not d.deep)
    found = [d for d in designs if not only or only in d.name]
    if not found:
        raise PenstockError(
            f"no design's name contains {only!r}"
            if only
            else "no design has the name that was asked",
            remedy=(
                "designs: "
                f"{', '.join(d.name for d in designs)}{'' if deep else '; more with --deep'}"
                f"{f'; tests of units: pytest tb -k {only}' if only else ''}"
            ),
        )
    return found


def run_on_array(
    array: str,
    only: str | None = None,
    progress: Progress | Callable[[str], None] | None = None,
    designs: tuple[Design, ...] = DESIGNS,
    deep: bool = False,
) -> tuple[list[Record], list[dict], dict[str, str]]:
    """Run the programs of the designs on the RTL of an array, each at the design's points.

    Machine and draws of a design are not used: the array is the machine, and inputs are of the one
    seed that the environment has (default 0).

    Returns
    -------
    records, rows
        As of :func:`run`.
    refused
        What the array does not hold: program and point -> the message.
    """
    from . import array as arrays
    from . import array_rtl

    show = progress_of(progress)
    wanted = asked()
    if wanted.waves:
        raise PenstockError("is for fabrics of their own", "WAVES", remedy="unset it")
    picked = chosen(only, deep, tuple(d for d in designs if d.has_forms and not d.fields), wanted)
    config = arrays.array_config(array)
    refused: dict[str, str] = {}
    held: dict[str, tuple[Design, Outcome, arrays.Placed]] = {}
    for d in picked:
        for p in d.points:
            name = f"{d.program} {' '.join(f'{k}={v}' for k, v in p.items())}".strip()
            if name in held or name in refused:
                continue
            try:
                point = Point(d.program, config, p, seed=wanted.seed)
                held[name] = (d, Outcome(p), arrays.placed(point, progress=show))
            except PenstockError as e:
                refused[name] = str(e)
    results = array_rtl.outcomes(
        [placed for *_, placed in held.values()], judge=True, progress=show
    )
    rows = []
    records = []
    for (d, o, _), (o.model, o.rtl, o.error) in zip(held.values(), results, strict=True):
        records += o.records
        point = " ".join(f"{k}={v}" for k, v in o.params.items())
        rows.append(tables.row(o, design=d.name, point=point))
    return records, [*rows, tables.total(rows, design="total")], refused


def save(out: Path, records: list[Record], rows: list[dict]) -> list[Path]:
    """Write regress.json (rows and versions), regress.txt (the table) and records.json into a
    folder, which is made if need be; returns their paths.
    """
    folder(out)
    text = tables.text_table(rows) + "".join(
        f"\n{line}" for line in tables.failures(rows[:-1]).splitlines()
    )
    table = {"rows": rows[:-1], "total": rows[-1], "versions": api.versions()}
    write_text(out / "regress.json", json.dumps(table, indent=1) + "\n")
    write_text(out / "regress.txt", text.rstrip() + "\n")
    api.save_records(records, out / "records.json")
    return [out / "regress.json", out / "regress.txt", out / "records.json"]
