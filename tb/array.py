"""Programs on the RTL of an array: one export and one simulator build, and an image for each.

A placed graph has units in slots, and hops, which are switch inputs. Each of its channels is a FIFO
of the array, as wide as its plane; the bits that a channel uses of such a beat are its moves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..hw import export
from ..hw.yosys import VERSION as YOSYS
from ..machine.array.description import PLANES
from ..machine.array.image import encoded
from ..machine.array.streams import moves, on_plane
from ..machine.array.structure import Structure
from ..machine.array.variants import container
from ..machine.beat import STOP_DONE, Payload, beat_bits, beat_words
from ..machine.config import Config
from ..machine.limits import REGISTER_BITS
from ..machine.stimulus import Point
from ..machine.trace import SourceBeats
from ..machine.unitgraph import UnitGraph
from ..system.cache import digest, entry
from ..system.sources import PACKAGE, digest_of, sources_of
from .cut import Hole
from .design import Modules
from .exported import Design, module_ports, source_of
from .toolchain import package_version

SLOT = "slot"
SITE = "penstock_site"


@dataclass(frozen=True)
class ArrayDesign(Design):
    """An array as Verilog; the points' graphs are placed graphs."""

    structure: Structure = field(kw_only=True)  # of the array

    @property
    def name(self) -> str:
        return self.structure.network.array.name

    @property
    def size(self) -> int:
        return len(self.structure.network.slots) + len(self.structure.fifos)

    @property
    def memory(self) -> bool:
        return bool(self.structure.offchip)

    @cached_property
    def _ends(self) -> dict[str, list[int]]:
        """Slots with a source, and with a sink."""
        kinds = [{v.kind for v in variants} for variants in self.structure.variants]
        return {x: [k for k, of in enumerate(kinds) if x in of] for x in ("source", "sink")}

    def alike(self) -> Mapping[str, Sequence[str]]:
        """The lanes of a site are of one class."""
        text = "\n".join(self.verilog.values())
        lanes = [m for m in self.shared if not m.startswith(SITE)]
        return module_ports(text, lanes)

    @property
    def apart(self) -> list[str]:
        """Each kind of site."""
        return [m for m in self.shared if m.startswith(SITE)]

    def agents(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        t = self.structure.machine.t
        slots = self.structure.network.slots
        sources = [(k, slots[k].slot.outputs[0].plane) for k in self._ends["source"]]
        sinks = [(k, slots[k].slot.inputs[0].plane) for k in self._ends["sink"]]
        widths = {plane: beat_bits(container(plane, t)) for plane in PLANES}
        return [(k, widths[p]) for k, p in sources], [(k, widths[p]) for k, p in sinks]

    def writes(self, point: Point) -> list[list[int]]:
        image = encoded(self.structure, point.graph, point.sources)
        return [list(pair) for pair in image.writes(self.structure)]

    def own(self, point: Point) -> dict:
        graph = point.graph
        slots = slots_of(graph)
        return {
            "channels": len(graph.channels),
            "ports": len(graph.ports),
            "units": len(graph.units),
            "counters": [slots.get(unit.id, -1) for unit in graph.units],
            "kept": self._sink_memories(graph),
        }

    def _sink_memories(self, graph: UnitGraph) -> list[dict[str, Any]]:
        """The memories of sinks that a placed graph uses, for the bench to read."""
        found: list[dict[str, Any]] = []
        for u, at in slots_of(graph).items():
            unit = graph.units[u]
            if unit.kind.name == "sink" and unit.kind.beats is not None:
                memory = self.structure.sink_memories[at]
                (channel,) = graph.inputs(u)
                plane = self.structure.network.slots[at].slot.data
                done = on_plane(_done(), plane, channel.payload, graph.t)[0]
                layout = {
                    "unit": u,
                    "channel": channel.id,
                    "runs": moves(plane, channel.payload, graph.t),
                    "beat_words": beat_words(channel.payload),
                    "stride": memory.stride,
                    "done": done.tolist(),
                }
                found.append({**memory._asdict(), **layout})
        return found

    @property
    def further(self) -> Sequence[Hole]:
        ports = [Hole("input", REGISTER_BITS, "sink_addr"), Hole("output", 32, "sink_data")]
        return ports if self.structure.sink_memories else ()

    def streams(self, point: Point) -> dict[str, np.ndarray]:
        unit_in = {slot: u for u, slot in slots_of(point.graph).items()}
        arrays = self._fifos(point.graph)
        for slot in self._ends["source"]:
            words, release = self._given(point, slot, unit_in.get(slot))
            arrays[f"source{slot}_words"] = words
            arrays[f"source{slot}_release"] = release
        for slot in self._ends["sink"]:
            held = point.sinks.get(unit_in.get(slot, -1), ())
            arrays[f"sink{slot}_release"] = np.asarray(held, np.int64)
        return arrays

    def _given(self, point: Point, slot: int, unit: int | None) -> tuple[np.ndarray, np.ndarray]:
        """The beats at a slot's port and their cycles; none where no unit lies in it, or its stream
        is in its memory.
        """
        graph = point.graph
        if unit is None or graph.units[unit].kind.beats is not None:
            return np.zeros((0, 1), np.uint32), np.zeros(0, np.int64)
        given = source_of(point, unit)
        plane = self.structure.network.slots[slot].slot.outputs[0].plane
        words = on_plane(given, plane, graph.outputs(unit)[0].payload, graph.t)
        return words, np.asarray(given.release, np.int64)

    def _fifos(self, graph: UnitGraph) -> dict[str, np.ndarray]:
        """Description of every FIFO for the bench: its channel, and how its beats become those."""
        structure = self.structure
        channel_of = np.full(len(structure.fifos), -1, np.int32)
        format_of = np.zeros(len(structure.fifos), np.int32)
        formats: dict[tuple[str, Payload], int] = {}
        for c, (_, at, *pin) in zip(graph.channels, graph.meta["array"]["channels"], strict=True):
            number = structure.number[at, pin[0] if pin else -1]
            key = (structure.fifos[number].plane, c.payload)
            channel_of[number] = c.id
            format_of[number] = formats.setdefault(key, len(formats))
        t = structure.machine.t
        widths = [(beat_bits(p), beat_bits(container(plane, t))) for plane, p in formats]
        arrays = {f"moves{k}": np.array(moves(*key, t)) for key, k in formats.items()}
        return {
            **arrays,
            "formats": np.array(widths),
            "channel_of": channel_of,
            "format_of": format_of,
        }


def slots_of(graph: UnitGraph) -> dict[int, int]:
    """The slot by unit, of those that lie in one."""
    units = graph.meta["array"]["units"]
    return {u: at for u, (what, at) in enumerate(units) if what == SLOT}


def _done() -> SourceBeats:
    """A stream of its Done alone."""
    stop = np.array([STOP_DONE], np.uint8)
    return SourceBeats(
        np.zeros(1, np.int64), stop, np.zeros(1, np.uint8), np.zeros((1, 1), np.uint32)
    )


def array_design(config: Config, *, stage: Callable[[str], None] | None = None) -> ArrayDesign:
    """The probed array of a configuration, exported or from the cache.

    Parameters
    ----------
    config
        With an array.
    stage
        Called with one line when an export begins (not when the cache has it).
    """
    from ..hw.array import array

    structure = Structure(config)
    # What runs tools and keeps files shapes nothing, and a board is around a fabric.
    without = [PACKAGE / "system", PACKAGE / "hw" / "host"]
    files = sources_of([PACKAGE / "hw", PACKAGE / "machine"], without=without)
    sources = digest(digest_of([Path(__file__), *files]), package_version("amaranth"), YOSYS)
    key = digest(f"array {structure.fingerprint:08x}", sources)
    start = time.perf_counter()
    say = stage or (lambda _line: None)
    with entry("verilog", key, lambda: say("wait for another process's Verilog")) as (
        folder,
        ready,
    ):
        if not ready:
            say("export Verilog")
            done = export.export(array.Array(config, probes=True), store=Modules(sources))
            (folder / "fabric.v").write_text(done.verilog, encoding="utf-8")
            (folder / "fabric.json").write_text(json.dumps(done.sidecar), encoding="utf-8")
        sidecar = json.loads((folder / "fabric.json").read_text(encoding="utf-8"))
        verilog = (folder / "fabric.v").read_text(encoding="utf-8")
    name = structure.network.array.name
    return ArrayDesign(
        UnitGraph(name, config.machine.t, (), ()),
        {"array.v": verilog},
        sidecar["top"],
        (),
        tuple(sidecar["shared"]),
        config.machine.port_lanes,
        config.machine.response_lanes,
        config.machine.dram.line_bytes,
        0.0 if ready else time.perf_counter() - start,
        structure=structure,
    )
