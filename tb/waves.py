"""Meaning of a beat's bits, as text; waveforms with a layout for GTKWave and Surfer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
from vcd.gtkw import GTKWSave

from ..machine.beat import ELEMENT_BITS, STOP_BITS, STOP_DONE, BufferRef, Payload, Tile, Tuple
from ..machine.errors import RunError
from ..machine.unitgraph import UnitGraph
from ..overlay.core.config import LINKS, Overlay
from ..system.output import writing


def tile_values(tile: Tile, payload: int) -> np.ndarray:
    """float32 [t, t] of a tile's payload bits."""
    raw = (payload & (1 << tile.t * tile.t * tile.element_bits) - 1).to_bytes(
        tile.t * tile.t * tile.element_bits // 8, "little"
    )
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
            rows = counts & mask
            cols = counts >> payload.count_bits & mask
            shown = np.array2string(
                tile_values(payload, value)[:rows, :cols],
                precision=6,
                threshold=16,
                edgeitems=2,
                separator=", ",
                max_line_width=10**6,
            )
            return f"tile {rows}x{cols} {shown}".replace("\n", "")
        case BufferRef():
            return (
                f"buffer page {value & (1 << payload.page_bits) - 1}, "
                f"{value >> payload.page_bits} tiles"
            )
        case Tuple():
            parts = []
            at = 0
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
    data = beat >> payload.bits + STOP_BITS & 1
    stop = beat >> payload.bits & 2**STOP_BITS - 1
    if not data:
        return "Done" if stop == STOP_DONE else f"empty, stop {stop}"
    return _payload(payload, beat & (1 << payload.bits) - 1) + (f", stop {stop}" if stop else "")


def payload_differences(payload: Payload, model: int, rtl: int, *, most: int = 4) -> str:
    """Differences of two beats: valid counts, the first ``most`` elements (row, column, both values
    and their bits), else both in words.

    >>> rest = 0x5 << 128 | 1 << 136
    >>> tile = Tile(2, "fp32")
    >>> payload_differences(tile, 0x3F800000 << 32 | rest, 0x3F800001 << 32 | rest)
    '1 of 4 elements differ: [0,1] model 1.0 (3f800000), RTL 1.0000001 (3f800001)'
    """
    shifted = model >> payload.bits, rtl >> payload.bits
    if shifted[0] != shifted[1] or model == rtl:
        return f"model {decode(payload, model)}; RTL {decode(payload, rtl)}"
    if isinstance(payload, Tile):
        return "; ".join(_tile_differences(payload, model, rtl, most))
    if isinstance(payload, Tuple):
        parts = []
        at = 0
        for i, member in enumerate(payload.members):
            a, b = (x >> at & (1 << member.bits) - 1 for x in (model, rtl))
            if a != b:
                parts.append(f"member {i}: {payload_differences(member, a, b, most=most)}")
            at += member.bits
        return "; ".join(parts)
    return (
        f"model {_payload(payload, model & (1 << payload.bits) - 1)}; RTL "
        f"{_payload(payload, rtl & (1 << payload.bits) - 1)}"
    )


def _tile_differences(tile: Tile, model: int, rtl: int, most: int) -> list[str]:
    n = tile.t * tile.t * tile.element_bits
    mask = (1 << tile.count_bits) - 1
    out = []
    for i, what in enumerate(("rows", "cols")):
        a, b = (x >> n + i * tile.count_bits & mask for x in (model, rtl))
        if a != b:
            out.append(f"valid {what}: model {a}, RTL {b}")
    a, b = (tile_values(tile, x) for x in (model, rtl))
    x, y = (v.view(np.uint32) >> 32 - tile.element_bits for v in (a, b))
    if len(differ := np.argwhere(x != y)):
        digits = tile.element_bits // 4
        shown = [
            f"[{r},{c}] model {a[r, c]!s} ({x[r, c]:0{digits}x}), RTL {b[r, c]!s} "
            f"({y[r, c]:0{digits}x})"
            for r, c in differ[:most]
        ]
        out.append(
            f"{len(differ)} of {tile.t * tile.t} elements differ: "
            + "; ".join(shown)
            + ("; ..." if len(differ) > most else "")
        )
    return out


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
