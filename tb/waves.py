"""What a beat's bits mean, as text; and the waveform of a run with a layout for GTKWave and Surfer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
from vcd.gtkw import GTKWSave

from penstock.machine.beat import ELEMENT_BITS, STOP_BITS, STOP_DONE, BufferRef, Payload, Tile, Tuple
from penstock.machine.errors import RunError
from penstock.machine.unitgraph import UnitGraph

__all__ = ["decode", "tile_values", "element_differences", "collect"]


def tile_values(tile: Tile, payload: int) -> np.ndarray:
    """float32 [t, t] of a tile's payload bits."""
    raw = (payload & (1 << tile.t * tile.t * tile.element_bits) - 1).to_bytes(tile.t * tile.t * tile.element_bits // 8, "little")
    if ELEMENT_BITS[tile.dtype] == 16:
        words = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
    else:
        words = np.frombuffer(raw, "<u4").astype(np.uint32)
    return words.view(np.float32).reshape(tile.t, tile.t)


def _payload(payload: Payload, value: int) -> str:
    match payload:
        case Tile():
            counts = value >> payload.t * payload.t * payload.element_bits
            mask = (1 << payload.count_bits) - 1
            rows, cols = counts & mask, counts >> payload.count_bits & mask
            shown = np.array2string(tile_values(payload, value)[:rows, :cols], precision=6, threshold=16, edgeitems=2, separator=", ", max_line_width=10**6)
            return f"tile {rows}x{cols} {shown}".replace("\n", "")
        case BufferRef():
            return f"buffer page {value & (1 << payload.page_bits) - 1}, {value >> payload.page_bits} tiles"
        case Tuple():
            parts, at = [], 0
            for member in payload.members:
                parts.append(_payload(member, value >> at & (1 << member.bits) - 1))
                at += member.bits
            return f"({'; '.join(parts)})"
    return f"{value:#x}"


def decode(payload: Payload, beat: int) -> str:
    """A whole beat (docs/timing.md section 6) in words.

    >>> decode(Tile(2, "fp32"), 1 << 136)
    'tile 0x0 []'
    """
    data, stop = beat >> payload.bits + STOP_BITS & 1, beat >> payload.bits & 2**STOP_BITS - 1
    if not data:
        return "Done" if stop == STOP_DONE else f"empty, stop {stop}"
    return _payload(payload, beat & (1 << payload.bits) - 1) + (f", stop {stop}" if stop else "")


def element_differences(payload: Payload, model: int, rtl: int) -> str:
    """Two beats that differ: the elements of a tile that do, else both in words."""
    if isinstance(payload, Tile) and (model ^ rtl) >> payload.t * payload.t * payload.element_bits == 0:
        a, b = (tile_values(payload, x) for x in (model, rtl))
        differ = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
        shown = [f"[{r},{c}] model {a[r, c]!s} ({a.view(np.uint32)[r, c]:08x}), RTL {b[r, c]!s} ({b.view(np.uint32)[r, c]:08x})" for r, c in differ[:4]]
        return f"{len(differ)} elements differ: " + "; ".join(shown)
    return f"model {decode(payload, model)}; RTL {decode(payload, rtl)}"


def _probes(path: Path, count: int) -> dict[int, str]:
    """Channel id -> hierarchical name of its probe, read from a VCD's header through the text of PENSTOCK_WAVES builds."""
    scopes: list[str] = []
    found: dict[int, str] = {}
    with path.open(errors="replace") as file:
        for line in file:
            if line.startswith("$enddefinitions"):
                break
            parts = line.split()
            if parts[:1] == ["$scope"]:
                scopes.append(parts[2])
            elif parts[:1] == ["$upscope"]:
                scopes.pop()
            elif parts[:1] == ["$var"] and parts[4] == "text" and scopes and re.fullmatch(r"p\d+", scopes[-1]):
                if int(scopes[-1][1:]) < count:
                    found[int(scopes[-1][1:])] = ".".join(scopes)
    return found


def collect(folder: Path, stem: str, graph: UnitGraph) -> list[str]:
    """Move a run's waveform to ``stem`` and write the viewer's layout beside it; returns the paths.

    In the layout every channel is a group: what the beat at its write side is (``text``, ASCII), stop, valid and ready of both sides.
    """
    dumps = [p for p in (folder / "dump.vcd", folder / "dump.fst") if p.exists()]
    if not dumps:
        raise RunError("the simulator wrote no waveform", f"RTL of {graph.name}")
    target = Path(f"{stem}{dumps[0].suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    probes = _probes(dumps[0], len(graph.channels)) if target.suffix == ".vcd" else {}
    shutil.move(dumps[0], target)
    layout = target.with_suffix(".gtkw")
    with layout.open("w") as file:
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
