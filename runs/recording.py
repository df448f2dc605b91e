"""The last stage of a point: the result record of a finished run."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..frontend.analysis.bounds import Known, bounds
from ..frontend.analysis.flows import Flow
from ..frontend.analysis.metrics import Analysis, by_tensor
from ..frontend.analysis.onchip import page_bytes
from ..frontend.meaning.elements import tokens
from ..frontend.operators.boundary import Sink, Source
from ..frontend.operators.routing import TopK
from ..frontend.types import TileType
from ..machine.array.streams import streams_text
from ..machine.memories import memory_bits
from ..machine.record import Record
from ..machine.shapes import check_asserted
from ..machine.spilling import ROLE as SPILL
from ..machine.spilling import spilled_lines
from ..machine.trace import Run
from . import check
from .point import Point
from .provenance import versions


def record(point: Point, run: Run, outputs: bool = False, *, judge: bool = False) -> Record:
    """The result record of a finished run, with its output tensors where ``outputs`` asks for them;
    ``judge``: of :class:`~penstock.runs.options.Options`.

    Symbols that the program leaves open take the sizes that its streams have, on chip the largest.
    """
    if point.asserts:
        check_asserted(point.graph, run)
    checked = check.values(point, run, judge)
    r = Record(
        point.program.name,
        point.config.name,
        point.program.params,
        run.backend,
        point.timing,
        int(run.cycles),
        int(run.first_request),
    )
    _fill_metrics(r, point, run, checked)
    _fill_memory(r, point, run)
    if point.timing == "machine":
        _fill_machine(r, point, run)
    if checked:
        r.values_ok = not checked.wrong
        r.wrong = checked.wrong
        r.notes = _not_finite(point)
        r.sink_elements = {
            name: sum(v is not None for v, _ in items) for name, items in checked.sinks.items()
        }
        r.max_rel_err = max(checked.errors.values(), default=0.0)
        if outputs and run.outputs is not None:
            r.outputs = {n: np.asarray(a, np.float32) for n, a in run.outputs.items()}
            r.errors = checked.errors
            r.sinks = checked.sinks
    else:
        r.notes = _equal_scores(point)
    r.build = run.extra.get("build")
    r.wall_s = run.wall_s
    r.setup_s = run.setup_s
    r.events = int(run.events) or None
    r.seed = point.seed
    r.versions = versions()
    r.units = _units(point, run)
    r.channels = _channels(point, run)
    if "array" in point.graph.meta:
        r.streams = streams_text(point.graph)
    return r


def _equal_scores(point: Point) -> list[str]:
    """A line for choices that a run without values does not have."""
    graph = point.program.graph
    for node in graph.nodes:
        if isinstance(node, TopK) and any(type(r) is not Sink for r, _ in graph.consumers(node[0])):
            return [
                f"without values each row chooses the first {node.args.k} of {node.name}; an "
                "imported layer takes the experts of its tokens from --choices"
            ]
    return []


def _not_finite(point: Point) -> list[str]:
    """A line for each input tensor, or source of tiles, that has NaN or infinities."""
    given = {f"input tensor {name}": a for name, a in point.tensors.items()}
    for node in point.program.graph.nodes:
        if isinstance(node, Source) and isinstance(node.outputs[0].element, TileType):
            elements = tokens(point.streams[node.name], node.outputs[0], node.label)
            tiles = [v.ravel() for v, _ in elements if v is not None]
            given[f"source {node.name}"] = np.concatenate([np.zeros(0), *tiles])
    lines = []
    for name, a in given.items():
        counts = {"NaN": int(np.isnan(a).sum()), "infinite": int(np.isinf(a).sum())}
        if found := [f"{n} {what}" for what, n in counts.items() if n]:
            lines.append(f"{name} has {' and '.join(found)} of {a.size} values")
    return lines


def _fill_metrics(r: Record, point: Point, run: Run, checked: check.Checked | None) -> None:
    """The symbolic metrics with the sizes of this run."""
    analysis = point.analysis
    graph = point.program.graph
    meaning = None
    if checked:
        meaning = checked.meaning
    elif analysis.symbols:
        meaning = point.measured
    if meaning is not None:
        analysis = analysis.subs(
            meaning.sizes.symbols, meaning.sizes.largest, meaning.sizes.shares(graph)
        )
        r.onchip_active_bytes = analysis.of(meaning.active(graph)).onchip_bytes
    if point.timing == "machine":
        turns = not checked and any(u.kind.by_arrival for u in point.graph.units)
        # Without values an evaluation takes merged inputs in turns, which no run has to.
        _fill_bound(r, point, run, point.analysis if turns else analysis)
    r.offchip_bytes = analysis.offchip_bytes
    if r.offchip_bytes is None:
        r.offchip_bytes = run.extra.get("offchip_bytes")
    r.onchip_bytes = analysis.onchip_bytes
    r.onchip_rule = analysis.onchip_rule
    r.flops = analysis.flops
    r.tensors = _tensors(point, run, analysis)


def _tensors(point: Point, run: Run, analysis: Analysis) -> list[dict]:
    """The traffic of each off-chip tensor."""
    moved: Counter[tuple[str, str]] = Counter()
    for u, lines in zip(point.graph.ports, run.port_lines, strict=bool(len(run.port_lines))):
        unit = point.graph.units[u]
        moved[unit.kind.tensor, unit.kind.offchip] += int(lines)
    line = point.config.machine.dram.line_bytes
    shares = by_tensor(point.program.graph, analysis.offchip)
    return [
        {
            "name": t.name,
            "role": t.role,
            "offchip_bytes": shares[t.name].value,
            "read_bytes": line * moved[t.name, "read"],
            "written_bytes": line * moved[t.name, "write"],
        }
        for t in point.program.graph.tensors.values()
    ] + [
        {
            "name": t.name,
            "role": t.role,
            "offchip_bytes": 0,
            "read_bytes": line * moved[t.name, "read"],
            "written_bytes": line * moved[t.name, "write"],
        }
        for t in point.graph.tensors
        if t.role == SPILL
    ]


def _fill_bound(r: Record, point: Point, run: Run, analysis: Analysis) -> None:
    """Lower bound on the cycles of every run of the program with these beats."""
    graph = point.program.graph
    flows = {
        point.graph.outputs(u)[0].id: Flow.seen(beats.stop, beats.data)
        for u, beats in point.source_beats().items()
    }
    known = Known(flows | _ran(run), lines=int(run.lines_read + run.lines_written))
    found = bounds(graph, analysis, point.graph, point.config, known)
    tightest = found.tightest()
    r.bound_cycles = tightest.value
    r.bound_by = tightest.constraint
    sizes = page_bytes(point.graph, point.config.machine)
    r.bound_onchip_bytes = sum(n * sizes.get(u, 0) for u, n in found.least_pages().items())


def _ran(run: Run) -> dict[int, Flow]:
    """Shapes that channels carried, by id; of RTL where it was traced."""
    if run.shapes:
        return {i: Flow.ran(shape) for i, shape in enumerate(run.shapes)}
    return {i: Flow.seen(c.stop, c.data).summed() for i, c in enumerate(run.channels)}


def _fill_memory(r: Record, point: Point, run: Run) -> None:
    config = point.config
    dram = config.stepsim.dram if point.timing == "stepsim" else config.machine.dram
    r.dram_bytes = dram.line_bytes * int(run.lines_read + run.lines_written)
    if point.timing == "machine" and config.machine.spill:
        r.spilled_bytes = dram.line_bytes * spilled_lines(point.graph, run.port_lines)
    r.dram = run.dram
    r.offchip_bytes_per_cycle = dram.bytes_per_cycle
    r.offchip_utilisation = r.dram_bytes / (r.cycles * dram.bytes_per_cycle)


def _fill_machine(r: Record, point: Point, run: Run) -> None:
    """Fill the fields that only this machine has: pages, and FLOP that units could do."""
    m = point.config.machine
    sizes = page_bytes(point.graph, m)
    r.onchip_capacity_bytes = sum(m.pages * b for b in sizes.values())
    if run.counted:
        r.onchip_peak_bytes = sum(run.peak_pages.get(u, 0) * b for u, b in sizes.items())
    r.memory_bytes = sum(memory_bits(point.graph, m).values()) // 8
    r.allocated_flops_per_cycle = sum(u.kind.flops_per_cycle(m.t) for u in point.graph.units)
    # The work of a program of run-time sizes is known with its values.
    if r.flops is not None and r.allocated_flops_per_cycle:
        r.compute_utilisation = r.flops / (r.cycles * r.allocated_flops_per_cycle)


def _units(point: Point, run: Run) -> list[dict]:
    if not len(run.busy):
        return []
    return [
        {
            "name": u.name,
            "kind": u.kind.name,
            "node": u.node,
            "busy": int(run.busy[u.id]),
            "blocked": int(run.blocked[u.id]),
            "starved": int(run.starved[u.id]),
        }
        for u in point.graph.units
    ]


def _channels(point: Point, run: Run) -> list[dict]:
    names = [u.name for u in point.graph.units]
    return [
        {
            "name": c.name,
            "src": names[c.src[0]],
            "dst": names[c.dst[0]],
            "depth": c.depth or point.config.stepsim.fifo_depth,
            "occupancy": float(run.occupancy[c.id]) if len(run.occupancy) else None,
        }
        for c in point.graph.channels
    ]
