"""The result record: measurements of one run of one program on one backend.

Every table and plot is made from these.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..system.output import write_text
from ..system.reading import check_fields, is_list, is_table, read_json
from .errors import PenstockError
from .timings import current_name

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Record:
    """One run.

    Attributes
    ----------
    workload, config, params
        Program name, configuration name, program parameters.
    backend, timing
        ``model`` or ``rtl``; ``machine`` or ``stepsim``.
    bound_cycles, bound_by
        A lower bound on the cycles, and the constraint that makes it (docs/bounds.md; `machine`).
    bound_onchip_bytes
        A lower bound on ``onchip_peak_bytes``.
    cycles, first_request
        Total cycles (`machine`: docs/timing.md section 5; `stepsim`: latest local time), cycle of
        the first off-chip request.
    offchip_bytes
        Logical traffic in B, from the symbolic analysis (padding never counts); where that leaves
        symbols, `stepsim`: the bytes of the tiles moved.
    dram_bytes, spilled_bytes
        Bytes of the lines that moved; of those, the bytes of buffers that went off-chip and came
        back (null: this machine's scratchpads do not spill).
    onchip_bytes, onchip_rule
        Symbolic on-chip requirement in B and the name of the rule that gave it.
    onchip_active_bytes
        The part of it that operators have which were given an element, or gave one: what is
        allocated on demand.
    onchip_capacity_bytes, onchip_peak_bytes
        Scratchpad bytes allocated in the fabric; most bytes of pages in use at once.
    memory_bytes
        All memories of the fabric in B, as units and channels state them (machine/memories.py):
        scratchpads and what they keep of pages, accumulators, rings, bands, queues, channels.
    flops, allocated_flops_per_cycle, compute_utilisation
        FLOP of the program; FLOP per cycle that the units could do; their ratio over the run.
    offchip_bytes_per_cycle
        Peak of the off-chip memory in B a cycle.
    offchip_utilisation
        dram_bytes / (cycles x peak bandwidth).
    values_ok, max_rel_err
        Outputs bit-equal to the NumPy reference of the stated arithmetic and within the tolerance
        (null: not computed); largest error against float64, relative to the largest magnitude of
        the output.
    wrong
        Where values are not right: a message for each difference, with its place and both values.
    notes
        NaN and infinities in the inputs: a line for each tensor, with their numbers.
    sink_elements
        How many elements each sink took, where values were computed.
    wall_s, setup_s
        Seconds of the run itself, and of all else that the point took: on the model its program,
        lowering, loading and check; on RTL exports and builds, shared equally among their points.
    events
        Beats taken from channels plus memory lines.
    channels_observed, channels_total, mismatches
        Of the RTL-against-model check (null where none was made).
    compared
        How many beats, memory lines and posts of reference counts it compared, one by one.
    build
        RTL: name of the simulator build; records with the same name shared one.
    dram
        Of an `hbm2` memory: name of a counter -> one number a channel (docs/timing.md section 5.2).
    seed, versions
        Seed of the inputs; versions of Penstock and the tools, by name.
    tensors
        Per off-chip tensor: name, role, logical traffic (``offchip_bytes``, null while it is a
        formula), bytes of the lines that were read and written (`machine`).
    units
        Per unit: name, kind, node, busy, blocked, starved cycles.
    channels
        Per channel: name, src and dst (unit names), depth, mean occupancy in beats.
    schedule
        Of a schedule of the DAG scheduler: predicted latency in cycles, fill, memory latency, and
        each of its subgraphs.
    overlay
        Of a dataflow graph on the token overlay: mesh, variant, graph counts, bounds, cut, memory
        bits and words, use of links and PEs, wall clock by step.
    outputs, errors
        Output tensors by name, as float32, which holds bf16 exactly, and how far each is from the
        float64 reference, relative to its largest magnitude. Only what `run` returns has them,
        where values were computed (else None); they are no part of a file of records.
    sinks
        By name of each sink that took what the program's meaning in NumPy says, its elements as
        (value, stop): arrays of tiles, integers, sets of targets; None where a dimension is empty.
        As ``outputs``, no part of a file of records.
    streams
        On an array: which of the program's own streams lie in memories of slots, as a line; empty
        where it has none. No part of a file of records.
    """

    workload: str
    config: str
    params: dict[str, Any]
    backend: str
    timing: str
    cycles: int
    first_request: int = -1
    bound_cycles: int | None = None
    bound_by: str = ""
    bound_onchip_bytes: int | None = None
    offchip_bytes: int | None = None
    dram_bytes: int | None = None
    spilled_bytes: int | None = None
    onchip_bytes: int | None = None
    onchip_rule: str = ""
    onchip_active_bytes: int | None = None
    onchip_capacity_bytes: int | None = None
    onchip_peak_bytes: int | None = None
    memory_bytes: int | None = None
    flops: int | None = None
    allocated_flops_per_cycle: int | None = None
    compute_utilisation: float | None = None
    offchip_utilisation: float | None = None
    values_ok: bool | None = None
    max_rel_err: float | None = None
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sink_elements: dict[str, int] = field(default_factory=dict)
    channels_observed: int | None = None
    channels_total: int | None = None
    mismatches: int | None = None
    compared: dict[str, int] | None = None
    build: str | None = None
    wall_s: float = 0.0
    setup_s: float = 0.0
    events: int | None = None
    seed: int | None = None
    versions: dict[str, Any] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    units: list[Any] = field(default_factory=list)
    channels: list[Any] = field(default_factory=list)
    offchip_bytes_per_cycle: float | None = None
    dram: dict[str, list[int]] | None = None
    overlay: dict[str, Any] | None = None
    schedule: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.outputs: dict[str, np.ndarray] | None = None
        self.errors: dict[str, float] | None = None
        self.sinks: dict[str, list[Any]] | None = None
        self.streams = ""

    def key(self) -> tuple[Any, ...]:
        """Key that two records of the same experiment share (backend and timing apart)."""
        return (
            self.workload,
            self.config,
            tuple(sorted((k, str(v)) for k, v in self.params.items())),
        )


def save(records: list[Record], path: str | Path) -> None:
    """Write a list of records as JSON."""
    write_text(path, json.dumps([asdict(r) for r in records], indent=1) + "\n")


_TYPES = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "dict": dict,
    "list": list,
    "None": type(None),
}


def _fits(value: object, annotation: str) -> bool:
    """True if a JSON value is of a field's type; a bool is no number."""
    names = [n.strip().partition("[")[0] for n in annotation.split("|")]
    return any(
        isinstance(value, _TYPES[n]) and (n == "bool" or not isinstance(value, bool)) for n in names
    )


_ENTRIES = {
    "tensors": {"name": "str", "role": "str", "read_bytes": "int", "written_bytes": "int"},
    "units": {
        "name": "str",
        "kind": "str",
        "busy": "int",
        "blocked": "int | None",
        "starved": "int | None",
    },
    "channels": {
        "name": "str",
        "src": "str",
        "dst": "str",
        "depth": "int",
        "occupancy": "float | None",
    },
}
"""Fields that the entries of a record's lists have at least."""
_PARTS = {
    "overlay": {
        "bounds": "dict",
        "variant": "str",
        "nodes": "int",
        "edges": "int",
        "depth": "int",
        "nodes_per_pe": "int",
        "cut_edges": "int",
        "memory_bits": "int",
    },
    "schedule": {"predicted": "float", "ratio": "float", "programs": "list"},
}
"""Fields that its dicts have at least."""
_PROGRAM = {"subgraphs": "list", "predicted": "float", "cycles": "int", "ledger": "dict | None"}
LEDGER = ("overlap", "padding", "beside", "lines", "fill", "stalls", "drain")
"""Terms between the prediction and the cycles of a program of a schedule."""
_TITLES = (
    "- steps overlap",
    "- padding",
    "- side by side",
    "+ whole lines",
    "+ fill",
    "+ waits",
    "+ drain",
)
TERMS = dict(zip(LEDGER, _TITLES, strict=True))
"""Titles of these terms in tables, with their signs."""


def load(path: str | Path) -> list[Record]:
    """Read a list of records; raises PenstockError naming file and field."""
    return records_of(read_json(path), str(path))


def records_of(data: object, path: str) -> list[Record]:
    """The records that a file holds; raises PenstockError naming it and the field."""
    if not is_list(data):
        raise PenstockError("must hold a list of records", path)
    return [_record(d, i, path) for i, d in enumerate(data)]


def _record(d: object, i: int, path: str) -> Record:
    if not is_table(d) or not {
        "workload",
        "config",
        "params",
        "backend",
        "timing",
        "cycles",
    } <= set(d):
        raise PenstockError(
            f"entry {i} is not a result record",
            path,
            remedy="write records with `penstock run ... --json`",
        )
    check_fields(d, [f.name for f in fields(Record)], f"{path}: entry {i}")
    for f in fields(Record):
        if f.name in d and not _fits(d[f.name], str(f.type)):
            raise PenstockError(
                f"entry {i}: {f.name} must be {f.type}, not {_shown(d[f.name])}", path
            )
    if d["cycles"] < 0:
        raise PenstockError(f"entry {i}: cycles must be at least 0, not {d['cycles']}", path)
    for name, wanted in _ENTRIES.items():
        for j, entry in enumerate(d.get(name, [])):
            _check_part(entry, wanted, f"entry {i}: {name}[{j}]", path)
    for name, wanted in _PARTS.items():
        if d.get(name) is not None:
            _check_part(d[name], wanted, f"entry {i}: {name}", path)
    if d.get("overlay"):
        _check_part(
            d["overlay"]["bounds"],
            dict.fromkeys(d["overlay"]["bounds"] or ["best"], "float"),
            f"entry {i}: overlay.bounds",
            path,
        )
    schedule: dict[str, Any] = d.get("schedule") or {"programs": []}
    for j, entry in enumerate(schedule["programs"]):
        what = f"entry {i}: schedule.programs[{j}]"
        _check_part(entry, _PROGRAM, what, path)
        if entry["ledger"]:
            _check_part(entry["ledger"], dict.fromkeys(LEDGER, "float"), f"{what}.ledger", path)
    _check_channels(d, i, path)
    checked: dict[str, Any] = d | {"timing": current_name(d["timing"])}
    return Record(**checked)


def _check_part(part: object, wanted: dict[str, str], what: str, path: str) -> None:
    for key, kind in wanted.items():
        if not is_table(part) or key not in part or not _fits(part[key], kind):
            raise PenstockError(f"{what} has no {key} that is {kind}", path)


def _check_channels(d: dict[str, Any], i: int, path: str) -> None:
    names = {u["name"] for u in d.get("units", [])}
    for c in d.get("channels", []):
        if not {c["src"], c["dst"]} <= names or c["depth"] < 1:
            raise PenstockError(
                f"entry {i}: channel {c['name']!r} must join two of the units and hold at least "
                "1 beat",
                path,
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
