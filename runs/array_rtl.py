"""Programs on the RTL of an array: one build, an image for each, every FIFO compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.array.image import Image, decoded, encoded, read
from ..machine.array.streams import moves
from ..machine.array.structure import Structure
from ..machine.errors import RunError
from ..machine.record import Record
from ..machine.stimulus import Point as Stimulus
from ..machine.trace import Run
from ..system.output import folder
from . import check, leaving, simulation
from .array import Placed, array_config
from .progress import Progress
from .recording import record

if TYPE_CHECKING:
    from ..hw.export import Export


def image(placed: Placed) -> tuple[Image, Structure]:
    """The image of a placed program, and the array that it is of."""
    structure = Structure(placed.point.config)
    point = placed.on_array()
    return encoded(structure, point.graph, point.source_beats()), structure


def run(
    placed: Sequence[Placed], *, values: bool = True, progress: Progress | None = None
) -> list[Record]:
    """Records of programs on the RTL of their array, which is built once.

    Raises
    ------
    RunError
        A FIFO, a line of memory, a counter or an output differs from the model of the placed graph;
        the message shows where.
    """
    made = []
    for _, rtl, error in outcomes(placed, values=values, progress=progress):
        if error is not None:
            raise error
        assert rtl is not None
        made.append(rtl)
    return made


def outcomes(
    placed: Sequence[Placed],
    *,
    values: bool = True,
    judge: bool = False,
    progress: Progress | None = None,
) -> list[tuple[Record | None, Record | None, RunError | None]]:
    """Outcomes of the programs: for each the record of the model of its placed graph, that of the
    RTL, and its fault, if any; the others go on. ``judge``: the judge of nested lists checks both.
    """
    from ..tb import api
    from ..tb.array import array_design

    show = progress or Progress()
    points = [x.on_array() for x in placed]
    if not points:
        return []
    config = points[0].config
    design = array_design(config, stage=show.stage)
    models: list[Run | RunError] = []
    for point in points:
        show.step(f"model of {point.label}")
        try:
            models.append(simulation.on_model(point, values, trace=True))
        except RunError as e:
            models.append(e)
    both = [(p, m) for p, m in zip(points, models, strict=True) if isinstance(m, Run)]
    stimuli = [replace(p.stimulus(), expected=m) for p, m in both]
    simulated = api.simulate(design, stimuli, config, stage=show.stage, keep_going=True)
    runs = iter(simulated)
    made: list[tuple[Record | None, Record | None, RunError | None]] = []
    for point, model in zip(points, models, strict=True):
        try:
            if isinstance(model, RunError):
                raise model
            if isinstance(rtl := next(runs), RunError):
                raise rtl
            mine = record(point, rtl, outputs=values, judge=judge)
            check.against_model(point, rtl, mine, lambda _line: None)
            made.append((record(point, model, outputs=values, judge=judge), mine, None))
        except RunError as e:
            made.append((None, None, e))
    return made


def verilog(
    array: str, *, out: str | Path, bench: Placed | None = None, progress: Progress | None = None
) -> list[Path]:
    """Write the Verilog of an array and its sidecar into a folder.

    Parameters
    ----------
    array
        Configuration with an ``[array]`` table.
    out
        The folder, made if needed.
    bench
        Program on this array of which a bench for cocotb is written, too (docs/testing.md).
    progress
        A display.

    Raises
    ------
    PenstockError
        As of :func:`.leaving.run`.
    """
    from ..hw import export
    from ..hw.array.array import Array

    show = progress or Progress()
    config = array_config(array)
    if bench:
        point = bench.on_array().stimulus()
        show.step(f"model {point.graph.name}")
        run = leaving.run(point, config)
    show.step(f"export {array}")
    done = export.export(Array(config))
    files = {f"{done.top}.v": done.verilog}
    if bench:
        wires = _wires(point, Structure(config), done)
        files |= leaving.bench(point, run, config, done, files, wires)
    return export.put(done, files, folder(out))


def _wires(point: Stimulus, structure: Structure, done: Export) -> leaving.Wires:
    """Places of a placed program's channels in the Verilog of its array."""
    from ..tb.array import slots_of

    graph = point.graph
    paths = [
        f"site_{row}_{col}.f{k}"
        for row, col in structure.network.array.places()
        for k in range(len(structure.fifos_of(row, col)))
    ]
    placed = [(at, *pin) for _, at, *pin in graph.meta["array"]["channels"]]
    fifos = [structure.number[at, pin[0] if pin else -1] for at, *pin in placed]
    planes = [structure.fifos[number].plane for number in fifos]
    ports = [port["name"] for port in done.sidecar["ports"] if port["direction"] == "input"]
    low = {name: 0 for name in ports if name.endswith(("_addr", "_we", "_valid"))}
    return leaving.Wires(
        registers=encoded(structure, graph, point.sources).writes(structure),
        fifos=[paths[number] for number in fifos],
        moves=[
            moves(plane, c.payload, graph.t)
            for plane, c in zip(planes, graph.channels, strict=True)
        ],
        numbers=slots_of(graph),
        idle=low | {name: 1 for name in ports if name.endswith("_ready")},
    )


def dump(path: str | Path, array: str) -> str:
    """Every field of an image, as text: settings of each slot, switch and port, and the beats of
    sources.
    """
    structure = Structure(array_config(array))
    found = read(path, structure)
    lines = [
        f"image of {array}: {structure.words} words, {4 * structure.words} bytes, "
        f"fingerprint {found.fingerprint:08x}",
        "bits of each slot or switch, and of its tables:",
    ]
    lines += [
        f"  {size.number} x {size.name}: {size.bits} + {size.table_bits}"
        for size in structure.sizes()
    ]
    for block, label, values, tables in decoded(found, structure):
        lines.append(f"{block.name} at {block.base:#06x}: {label or 'set'}")
        if label != "not used":
            lines += [f"  {name} = {value}" for name, value in values.items()]
            lines += [f"  {name} = {_entries(held)}" for name, held in tables.items()]
    for slot, beats in found.beats.items():
        memory = structure.source_memories[slot]
        name = structure.network.slots[slot].name
        lines.append(
            f"{name} holds {len(beats)} beats of {memory.words} words, "
            f"from {memory.base:#06x}, one each {memory.stride} addresses"
        )
        lines += [f"  {' '.join(f'{word:08x}' for word in words)}" for words in beats]
    return "\n".join(lines)


def _entries(held: Sequence[int]) -> str:
    """The entries of a table up to the last that is not 0."""
    while held and not held[-1]:
        held = held[:-1]
    return " ".join(map(str, held)) or "0"
