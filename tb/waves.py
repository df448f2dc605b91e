"""Waveforms with save files for GTKWave and Surfer, which group signals by unit and stream."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pywellen import Waveform
from vcd.gtkw import GTKWSave

from ..hw.fabric import fifo_name
from ..machine.errors import RunError
from ..machine.unitgraph import Channel, UnitGraph
from ..overlay.core.config import LINKS, Overlay
from ..system.output import writing

FORMATS = {"text": "ascii", "cycle": "dec", "cycles": "dec", "stop": "dec"}
"""Format of a signal in GTKWave, by its name; hexadecimal by default."""
ZOOM = -17
"""GTKWave's zoom at which the first hundred cycles are seen, with a clock of 10 ns."""


@dataclass(frozen=True)
class Group:
    """Signals by their paths, and groups of them."""

    name: str
    signals: Sequence[str] = ()
    groups: Sequence[Group] = ()


def _widths(dump: Path) -> dict[str, int]:
    """Bits of a waveform's signals, by hierarchical name."""
    return {var.full_name: var.bitwidth or 1 for var in Waveform(str(dump)).all_vars()}


def save(dump: Path, groups: Sequence[Group], widths: Mapping[str, int]) -> list[str]:
    """Write save files for a waveform beside it, the first group open; returns the three paths.

    GTKWave finds a vector by its name and range. Surfer reads commands, whose names are words: its
    groups are dividers.
    """
    gtkw, surfer = dump.with_suffix(".gtkw"), dump.with_suffix(".sucl")
    with writing(gtkw) as file:
        viewer = GTKWSave(file)
        viewer.dumpfile(str(dump.resolve()))
        viewer.zoom_markers(ZOOM)
        for k, group in enumerate(groups):
            _add(viewer, group, widths, closed=k > 0)
    with writing(surfer) as file:
        file.writelines(f"{line}\n" for group in groups for line in _commands(group))
    return [str(dump), str(gtkw), str(surfer)]


def _add(viewer: GTKWSave, group: Group, widths: Mapping[str, int], closed: bool) -> None:
    with viewer.group(group.name, closed=closed):
        for signal in group.signals:
            width = widths.get(signal, 1)
            bits = f"[{width - 1}:0]" if width > 1 else ""
            viewer.trace(signal + bits, datafmt=FORMATS.get(signal.rpartition(".")[2], "hex"))
        for inner in group.groups:
            _add(viewer, inner, widths, closed=closed)


def _commands(group: Group) -> Iterator[str]:
    yield f"divider_add {group.name.replace(' ', '_')}"
    yield from (f"variable_add {signal}" for signal in group.signals)
    for inner in group.groups:
        yield from _commands(inner)


def _of(path: str, *names: str) -> list[str]:
    return [f"{path}.{name}" for name in names]


def by_unit(graph: UnitGraph, streams: Mapping[int, Sequence[str]]) -> list[Group]:
    """A group for each unit, and in it one for each stream that leaves it, of its signals."""

    def stream(c: Channel) -> Group:
        ends = f"{graph.units[c.src[0]].name} -> {graph.units[c.dst[0]].name}"
        return Group(f"{c.name}: {ends}", streams[c.id])

    return [
        Group(f"{u.name} ({u.kind.name})", groups=[stream(c) for c in outputs])
        for u in graph.units
        if (outputs := graph.outputs(u.id))
    ]


def of_suite(dump: Path, top: str, graph: UnitGraph | None, ports: Sequence[str]) -> None:
    """Write save files for the waveform of a test top: its ports by the component or unit in their
    names, and the FIFOs of a fabric by unit and stream.
    """
    held: dict[str, list[str]] = {}
    for port in ports:
        held.setdefault(port.partition("_")[0], []).append(f"{top}.{port}")
    units = []
    if graph:
        sides = [f"{side}_{name}" for side in "io" for name in ("valid", "ready", "payload")]
        fifos = {c.id: _of(f"{top}.{fifo_name(c)}", *sides) for c in graph.channels}
        units = by_unit(graph, fifos)
    groups = [*units, *(Group(name, signals) for name, signals in held.items())]
    save(dump, groups, _widths(dump))


def _probes(names: Iterable[str]) -> dict[int, str]:
    """Channel id -> hierarchical name of its probe, found by the text of PENSTOCK_WAVES builds."""
    found = (re.fullmatch(r"(.*\.p(\d+))\.text", name) for name in names)
    return {int(probe[2]): probe[1] for probe in found if probe}


def _moved(folder: Path, stem: str, where: str) -> Path:
    """The waveform that a simulator left in a folder, moved to ``stem``."""
    dumps = [p for p in (folder / "dump.vcd", folder / "dump.fst") if p.exists()]
    if not dumps:
        raise RunError("the simulator wrote no waveform", where)
    target = Path(f"{stem}{dumps[0].suffix}")
    with dumps[0].open("rb") as source, writing(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def collect_overlay(folder: Path, stem: str, overlay: Overlay) -> list[str]:
    """Move an overlay's waveform to ``stem`` and write save files beside it; returns the paths.

    Every PE is a group: the writes to its value memory, and the links that leave it.
    """
    top = "penstock_overlay"
    signals = ("value",) if overlay.pe == "static" else ("valid", "ready", "token")
    links = set(overlay.links())
    groups = [Group("run", _of(top, "clk", "start", "running", "idle", "cycles"))]
    for pe in range(overlay.pes):
        own = [x for x in range(len(LINKS) * pe, len(LINKS) * (pe + 1)) if x in links]
        shown = [y for x in own for y in _of(f"{top}.link{x}", *signals)]
        writes = _of(f"{top}.write{pe}", "valid", "address", "data")
        name = f"PE {pe} ({pe % overlay.cols}, {pe // overlay.cols})"
        groups.append(Group(name, [*writes, *shown]))
    dump = _moved(folder, stem, "RTL of the overlay")
    return save(dump, groups, _widths(dump))


def collect(folder: Path, stem: str, graph: UnitGraph) -> list[str]:
    """Move a run's waveform to ``stem`` and write save files beside it; returns the paths.

    Every unit is a group, and in it each stream that leaves it: what the beat at its write side is
    (``text``, ASCII), stop, valid and ready of both sides.
    """
    dump = _moved(folder, stem, f"RTL of {graph.name}")
    top = "penstock_bench"
    widths = _widths(dump)
    probes = _probes(widths)
    names = ("text", "stop", "w_valid", "w_ready", "r_valid", "r_ready")
    streams = {c.id: _of(probes[c.id], *names) for c in graph.channels}
    run = Group("run", _of(top, "cycle", "done", "error", "halt", "rst"))
    return save(dump, [run, *by_unit(graph, streams)], widths)
