"""The picture of a mapping: floor plan, units in their slots, tracks in use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from ...machine.array.network import SwitchPort
from ...machine.array.placed import NO_SLOT
from ...machine.kinds import kind_of
from ...system.output import write_picture
from . import mapping as maps

SITE = 1.0
GAP = 0.45
PITCH = SITE + GAP
OFFCHIP = "#f4c7a1"
ONCHIP = "#cfe3b4"
COMPUTE = "#b9d3ee"
OTHER = "#dddddd"
ENDS = "#e8d5f0"
FREE = "#ffffff"
COLOURS = {
    "off-chip memory": OFFCHIP,
    "scratchpads and buffers": ONCHIP,
    "arithmetic": COMPUTE,
    "streams from and to outside": ENDS,
    "shape and routing": OTHER,
    "free": FREE,
}
PLANES = {"tile": "#c0392b", "small": "#2471a3"}
EMPTY = "#e4e4e4"
TIPS = {"north": "^", "east": ">", "south": "v", "west": "<"}


def draw(mapping: maps.Mapping, path: str | Path) -> None:
    """Write the picture of a mapping as PNG."""
    array = mapping.network.array
    width = 1.5 * array.cols + 0.6
    height = 1.5 * array.rows + 1.4
    figure = Figure(figsize=(width, height), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _sites(axes, mapping)
    _tracks(axes, mapping)
    axes.set_xlim(-GAP / 2, array.cols * PITCH - GAP / 2)
    axes.set_ylim(array.rows * PITCH - GAP / 2, -GAP / 2)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(
        f"{mapping.program.name} on {array.name}: {mapping.hops} hops, "
        f"{len(mapping.placement.wires)} local wires"
    )
    marks = [
        Patch(facecolor=colour, edgecolor="#555555", label=name) for name, colour in COLOURS.items()
    ]
    marks += [Patch(facecolor=colour, label=f"{p} plane") for p, colour in PLANES.items()]
    figure.legend(handles=marks, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    write_picture(path, figure)


def _colour(kind: str) -> str:
    made = kind_of(kind)
    if made.offchip:
        return OFFCHIP
    if made.memory or kind == "hop":
        return ONCHIP
    if made.computes or kind == "row_reduce":
        return COMPUTE
    return ENDS if kind in ("source", "sink") else OTHER


def _sites(axes: Axes, mapping: maps.Mapping) -> None:
    network = mapping.network
    unit_in = {s: u for u, s in enumerate(mapping.placement.slots) if s != NO_SLOT}
    for row, col in network.array.places():
        x = col * PITCH
        y = row * PITCH
        axes.add_patch(Rectangle((x, y), SITE, SITE, fill=False, edgecolor="#555555", lw=0.8))
        slots = network.slots_of(row, col)
        for k, slot in enumerate(slots):
            high = SITE / len(slots)
            unit = unit_in.get(slot)
            kind = "" if unit is None else mapping.program.units[unit].kind.name
            colour = _colour(kind) if kind else FREE
            place = (x, y + k * high)
            axes.add_patch(
                Rectangle(place, SITE, high, facecolor=colour, edgecolor="#aaaaaa", lw=0.4)
            )
            name = network.slots[slot].slot.name if unit is None else _name(mapping, unit)
            axes.text(
                x + SITE / 2,
                y + (k + 0.5) * high,
                name,
                ha="center",
                va="center",
                fontsize=4.6,
                color="#999999" if unit is None else "black",
            )


def _name(mapping: maps.Mapping, unit: int) -> str:
    name = mapping.program.units[unit].name
    return name if len(name) <= 26 else f"{name[:12]}..{name[-12:]}"


def _tracks(axes: Axes, mapping: maps.Mapping) -> None:
    """Every track as a stroke between its sites: in its plane's colour where a route takes it."""
    network = mapping.network
    used = {o for r in mapping.placement.routes for hop in r.hops for o in hop.outputs}
    for out in network.outputs:
        if out.side:
            xs, ys = _stroke(out, network.array.tracks)
            taken = out.id in used
            colour = PLANES[out.plane] if taken else EMPTY
            axes.plot(xs, ys, color=colour, lw=1.6 if taken else 0.5, solid_capstyle="butt")
            if taken:
                tip = (sum(xs) / 2, sum(ys) / 2)
                axes.plot(*tip, marker=TIPS[out.side], color=colour, markersize=4)


def _stroke(out: SwitchPort, count: Mapping[str, int]) -> tuple[list[float], list[float]]:
    """Ends of a track's stroke. Those of a side lie side by side: the tile plane's, then the small
    one's; both directions of a link apart.
    """
    total = sum(count.values())
    number = out.track + (count["tile"] if out.plane == "small" else 0)
    half = 0 if out.side in ("north", "east") else 1
    along = SITE * (0.04 + 0.92 * (half * total + number + 0.5) / (2 * total))
    x = out.col * PITCH
    y = out.row * PITCH
    if out.side == "north":
        return [x + along] * 2, [y - GAP, y]
    if out.side == "south":
        return [x + along] * 2, [y + SITE, y + SITE + GAP]
    if out.side == "east":
        return [x + SITE, x + SITE + GAP], [y + along] * 2
    return [x - GAP, x], [y + along] * 2
