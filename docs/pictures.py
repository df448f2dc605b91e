"""Pictures of the pages: the code's rooms, beats of a run, graphs on a mesh.

`python docs/generate.py --pictures` draws them from runs of the model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from penstock import load_config
from penstock.frontend import Accum, Graph, Map, Sink, Source, add, lower, scale
from penstock.frontend.show import layout
from penstock.frontend.show.draw import COMPUTE, OFFCHIP, ONCHIP, SHAPE
from penstock.frontend.show.layout import Box
from penstock.machine.trace import ChannelTrace
from penstock.model import run
from penstock.overlay.core.config import Overlay
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.graphs import graph_from
from penstock.overlay.model import simulate
from penstock.overlay.runs.pictures import draw_placement
from penstock.runs.boundary import source_beats
from penstock.samples import __file__ as samples
from penstock.scheduler.token import map_graph
from penstock.system.output import write_picture

SAMPLES = Path(samples).parent / "files"
LINE = "#555555"
DONE = 15


def draw(folder: Path) -> None:
    """All pictures of this module."""
    draw_rooms(folder / "rooms.png")
    draw_beats(folder / "beats.png")
    roots = graph_from(str(SAMPLES / "graph.dfg"))
    draw_mesh(roots, Overlay(rows=2, cols=2, pe="static"), folder / "mesh_roots.png")
    matrix = graph_from(f"lu:{SAMPLES / 's27.mtx'}")
    draw_mesh(matrix, Overlay(rows=4, cols=4, pe="static"), folder / "mesh_s27.png")


def draw_rooms(path: Path) -> None:
    """Draw the way from a program to cycles, values and hardware."""
    places = {
        (0, 0): Box("program", "Python", SHAPE),
        (1, 0): Box("Graph", "frontend/: types, shapes, traffic", ONCHIP),
        (2, 0): Box("meaning", "NumPy: values without time", COMPUTE),
        (1, 1): Box("UnitGraph", "machine/: units, channels, tensors", OFFCHIP),
        (2, 1): Box("model", "model/: cycles, values, timeline", COMPUTE),
        (3, 1): Box("check", "every beat, line, counter, value", OFFCHIP),
        (1, 2): Box("fabric", "hw/: Amaranth RTL", COMPUTE),
        (2, 2): Box("Verilog", "hw/export/, with its sidecar", ONCHIP),
        (3, 2): Box("bench", "tb/: simulator, DRAM, probes", COMPUTE),
        (3, 3): Box("board", "netlist, bitstream; board/", SHAPE),
    }
    steps = [
        ((0, 0), (1, 0), "check"),
        ((1, 0), (2, 0), "evaluate"),
        ((1, 0), (1, 1), "tile, lower"),
        ((1, 1), (2, 1), "run"),
        ((1, 1), (1, 2), "build"),
        ((1, 2), (2, 2), "export"),
        ((2, 2), (3, 2), "simulate"),
        ((2, 2), (3, 3), "synthesise"),
        ((2, 0), (3, 1), "values"),
        ((2, 1), (3, 1), "beats"),
        ((3, 2), (3, 1), "beats"),
    ]
    figure, axes = canvas(9.6, 3.6)
    across, down = 3.6, -1.3
    for (x, y), box in places.items():
        layout.draw_box(axes, box, x * across, y * down)
    for (x0, y0), (x1, y1), text in steps:
        sideways = layout.WIDTH / 2 * (x1 > x0)
        upright = layout.HEIGHT / 2 * (y0 - y1) * (x1 == x0)
        start = (x0 * across + sideways, y0 * down + upright)
        end = (x1 * across - sideways, y1 * down - upright)
        layout.draw_arrow(axes, [start, end], back=False)
        flat = y0 == y1
        ha, va = ("center", "bottom") if flat else ("left", "center")
        x = (start[0] + end[0]) / 2 + 0.1 * (not flat)
        axes.text(x, (start[1] + end[1]) / 2 + 0.04, text, fontsize=7.5, ha=ha, va=va)
    axes.set_xlim(-1.4, 3 * across + 1.4)
    axes.set_ylim(3 * down - 0.45, 0.45)
    axes.set_aspect("equal")
    axes.axis("off")
    write_picture(path, figure)


def draw_beats(path: Path) -> None:
    """A stream of tiles, [[a b] [] [c d e]], scaled and summed on `small_fpga`."""
    graph = Graph("beats")
    source = Source(graph=graph, shape=(3, graph.dynamic("N", ragged=True)), tile=(4, 4), name="x")
    Sink(Accum(Map(source, fn=scale(0.5)), fn=add(), rank=1), name="y")
    config = load_config("small_fpga")
    units = lower(graph, config)
    tile = np.ones((4, 4), np.float32)
    given = source_beats(graph, units, {"x": [[tile] * 2, [], [tile] * 3]})
    ran = run(units, config, values=False, trace=True, sources=given)
    figure, axes = canvas(9.6, 2.9)
    names = []
    for row, channel in enumerate(units.channels):
        ends = (units.units[channel.src[0]], units.units[channel.dst[0]])
        names.append(" to ".join(unit.kind.name for unit in ends))
        _draw_channel(axes, ran.channels[channel.id], row, channel.depth)
    axes.set_xlim(-0.5, ran.cycles + 0.5)
    axes.set_ylim(len(names) - 0.3, -0.7)
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(range(0, ran.cycles + 1, 4))
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("cycle", fontsize=9)
    axes.tick_params(labelsize=9, length=0)
    axes.spines[:].set_visible(False)
    write_picture(path, figure)


def _draw_channel(axes: Axes, trace: ChannelTrace, row: int, depth: int) -> None:
    """A bar a beat, from the cycle that accepts it to the one that takes it, in its slot."""
    high = 0.8 / depth
    beats = zip(trace.accept, trace.take, trace.stop, trace.data, strict=True)
    for i, (accept, take, stop, data) in enumerate(beats):
        text = str(stop) if data else "D" if stop == DONE else f"B{stop}"
        colour = COMPUTE if data else SHAPE if stop == DONE else OFFCHIP
        end = row - 0.4 + i % depth * high
        wide = take - accept
        bar = Rectangle((accept, end), wide, high, facecolor=colour, edgecolor=LINE, linewidth=0.7)
        axes.add_patch(bar)
        middle = (accept + wide / 2, end + high / 2)
        axes.text(*middle, text, ha="center", va="center", fontsize=8)


def draw_mesh(graph: DataflowGraph, overlay: Overlay, path: Path) -> None:
    """A graph placed on a mesh: nodes in their PE, values that cross each link."""
    mapped = map_graph(graph, overlay)
    figure, axes = canvas(1.6 * overlay.cols + 0.8, 1.6 * overlay.rows + 0.8)
    draw_placement(axes, mapped, simulate(mapped.image, tokens=True))
    write_picture(path, figure)


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches, and its axes."""
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()
