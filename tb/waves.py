"""Waveforms with a layout for GTKWave and Surfer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from vcd.gtkw import GTKWSave

from ..machine.errors import RunError
from ..machine.unitgraph import UnitGraph
from ..overlay.core.config import LINKS, Overlay
from ..system.output import writing


def _probes(path: Path, count: int) -> dict[int, str]:
    """Channel id -> hierarchical name of its probe, read from a VCD's header through the text of
    PENSTOCK_WAVES builds.
    """
    scopes: list[str] = []
    found: dict[int, str] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("$enddefinitions"):
                break
            parts = line.split()
            if parts[:1] == ["$scope"]:
                scopes.append(parts[2])
            elif parts[:1] == ["$upscope"]:
                scopes.pop()
            elif (
                parts[:1] == ["$var"]
                and parts[4] == "text"
                and scopes
                and re.fullmatch(r"p\d+", scopes[-1])
            ):
                if int(scopes[-1][1:]) < count:
                    found[int(scopes[-1][1:])] = ".".join(scopes)
    return found


def _dump(folder: Path, where: str) -> Path:
    """The waveform that a simulator left in a folder."""
    dumps = [p for p in (folder / "dump.vcd", folder / "dump.fst") if p.exists()]
    if not dumps:
        raise RunError("the simulator wrote no waveform", where)
    return dumps[0]


def _moved(dump: Path, stem: str) -> Path:
    target = Path(f"{stem}{dump.suffix}")
    with dump.open("rb") as source, writing(target, "wb") as file:
        shutil.copyfileobj(source, file)
    dump.unlink()
    return target


def collect_overlay(folder: Path, stem: str, overlay: Overlay) -> list[str]:
    """Move an overlay's waveform to ``stem`` and write the viewer's layout beside it; returns the
    paths.

    In the layout every PE is a group: the writes to its value memory, and the links that leave it.
    """
    top = "penstock_overlay"
    target = _moved(_dump(folder, "RTL of the overlay"), stem)
    layout = Path(f"{stem}.gtkw")
    signals = ("value",) if overlay.pe == "static" else ("valid", "ready", "token")
    with writing(layout) as file:
        save = GTKWSave(file)
        save.dumpfile(str(target.resolve()))
        save.treeopen(f"{top}.")
        for name in ("clk", "start", "running", "idle", "cycles"):
            save.trace(f"{top}.{name}", datafmt="dec")
        links = set(overlay.links())
        for pe in range(overlay.pes):
            with save.group(f"PE {pe} ({pe % overlay.cols}, {pe // overlay.cols})", closed=True):
                for name in ("valid", "address", "data"):
                    save.trace(f"{top}.write{pe}.{name}", datafmt="hex")
                for link in range(len(LINKS) * pe, len(LINKS) * (pe + 1)):
                    if link in links:
                        for name in signals:
                            save.trace(f"{top}.link{link}.{name}", datafmt="hex")
    return [str(target), str(layout)]


def collect(folder: Path, stem: str, graph: UnitGraph) -> list[str]:
    """Move a run's waveform to ``stem`` and write the viewer's layout beside it; returns the paths.

    In the layout every channel is a group: what the beat at its write side is (``text``, ASCII),
    stop, valid and ready of both sides.
    """
    dump = _dump(folder, f"RTL of {graph.name}")
    probes = _probes(dump, len(graph.channels)) if dump.suffix == ".vcd" else {}
    target = _moved(dump, stem)
    layout = Path(f"{stem}.gtkw")
    with writing(layout) as file:
        save = GTKWSave(file)
        save.dumpfile(str(target.resolve()))
        save.treeopen("penstock_bench.")
        for name in ("cycle", "done", "error", "halt", "rst"):
            save.trace(f"penstock_bench.{name}", datafmt="dec")
        names = [u.name for u in graph.units]
        for c in graph.channels:
            scope = probes.get(c.id, f"penstock_bench.fabric.p{c.id}")
            with save.group(f"{c.name}: {names[c.src[0]]} -> {names[c.dst[0]]}", closed=True):
                save.trace(f"{scope}.text", alias="beat", datafmt="ascii")
                for signal in ("stop", "w_valid", "w_ready", "r_valid", "r_ready"):
                    save.trace(f"{scope}.{signal}", datafmt="dec")
    return [str(target), str(layout)]
