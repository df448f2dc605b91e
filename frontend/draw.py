"""Drawings of a program graph: DOT text, and PNG or SVG through matplotlib with a layered layout of our own."""

from __future__ import annotations

from pathlib import Path

from penstock.machine.errors import ProgramError

from .graph import Graph, Operator
from .memory_operators import Bufferize, LinearOffChipLoad, LinearOffChipStore, Streamify

OFFCHIP, ONCHIP, COMPUTE, SHAPE = "#f4c7a1", "#cfe3b4", "#b9d3ee", "#e6e6e6"


def colour(node: Operator) -> str:
    """Fill by category: off-chip memory, on-chip memory, higher-order, shape."""
    if isinstance(node, (LinearOffChipLoad, LinearOffChipStore)):
        return OFFCHIP
    if isinstance(node, (Bufferize, Streamify)):
        return ONCHIP
    return COMPUTE if node.higher_order else SHAPE


def caption(node: Operator) -> tuple[str, str]:
    """Name, and operator with what tells it apart."""
    kind = type(node).__name__
    args = node.args
    detail = {"fn": getattr(args.get("fn"), "name", None), "rank": args.get("rank"), "tensor": getattr(args.get("tensor"), "name", None),
              "dim": args.get("dim"), "chunk": args.get("chunk"), "count": args.get("count"), "repeat": args.get("repeat")}
    shown = ", ".join(str(v) if k in ("fn", "tensor") else f"{k} {v}" for k, v in detail.items() if v is not None)
    return node.name, f"{kind}({shown})"


def to_dot(graph: Graph) -> str:
    """The graph in DOT, for graphviz."""
    lines = [f"digraph {graph.name} {{", '  node [shape=box, style="rounded,filled", fontname="Helvetica"];', '  edge [fontname="Helvetica", fontsize=9];']
    for node in graph.nodes:
        name, kind = caption(node)
        lines.append(f'  {node.name} [label="{name}\\n{kind}", fillcolor="{colour(node)}"];')
    for node in graph.nodes:
        for s in node.inputs:
            lines.append(f'  {s.node.name} -> {node.name} [label="{s.type}"];')
    return "\n".join(lines + ["}"]) + "\n"


def layers(graph: Graph) -> tuple[list[list[tuple]], dict[tuple, list[tuple]]]:
    """A layered layout.

    Returns the layers, top first, as lists of keys: ``(operator name,)``, or ``(reader, input, layer)`` where an edge passes; and
    for each edge ``(reader, input)`` the keys on its way. A load stands just above its first reader.
    """
    depth: dict[str, int] = {}
    for node in graph.nodes:
        depth[node.name] = 1 + max((depth[s.node.name] for s in node.inputs), default=-1)
    for node in reversed(graph.nodes):
        readers = [depth[r.name] for s in node for r, _ in graph.consumers(s)]
        if readers and not node.inputs:
            depth[node.name] = min(readers) - 1
    rows: list[list[tuple]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in graph.nodes:
        rows[depth[node.name]].append((node.name,))
    ways, near = {}, {}
    for node in graph.nodes:
        for i, s in enumerate(node.inputs):
            between = [(node.name, i, d) for d in range(depth[s.node.name] + 1, depth[node.name])]
            ways[node.name, i] = way = [(s.node.name,), *between, (node.name,)]
            for key in between:
                rows[key[2]].append(key)
            for a, b in zip(way, way[1:]):
                near.setdefault(a, []).append(b)
                near.setdefault(b, []).append(a)
    at = {key: i - (len(row) - 1) / 2 for row in rows for i, key in enumerate(row)}
    for _ in range(8):
        for row in rows:
            row.sort(key=lambda k: sum(at[n] for n in near[k]) / len(near[k]) if k in near else at[k])
            for i, key in enumerate(row):
                at[key] = i - (len(row) - 1) / 2
    return rows, ways


def draw(graph: Graph, path: str | Path) -> None:
    """Write a drawing; the suffix chooses DOT or a format of matplotlib."""
    path = Path(path)
    if path.suffix == ".dot":
        path.write_text(to_dot(graph))
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:] not in formats:
        raise ProgramError(f"cannot draw to {path.name!r}", remedy=f"suffixes are .dot, {', '.join('.' + f for f in sorted(formats))}")
    rows, ways = layers(graph)
    width, height, dx, dy = 2.5, 0.62, 3.1, 1.3
    centre = {key: ((i - (len(row) - 1) / 2) * dx, -d * dy) for d, row in enumerate(rows) for i, key in enumerate(row)}
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(columns * dx + 0.6, len(rows) * dy), dpi=110)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-columns * dx / 2 - 0.3, columns * dx / 2 + 0.3)
    ax.set_ylim(-(len(rows) - 1) * dy - 0.6, 0.6)
    ax.axis("off")
    for node in graph.nodes:
        x, y = centre[node.name,]
        ax.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.08",
                                    facecolor=colour(node), edgecolor="#555555", linewidth=0.8, zorder=2))
        name, kind = caption(node)
        ax.text(x, y + 0.13, name, ha="center", va="center", fontsize=9, fontweight="bold", zorder=3)
        ax.text(x, y - 0.14, kind, ha="center", va="center", fontsize=7.5, zorder=3)

    def fan(edges: list[tuple], end: int, step: int) -> dict[tuple, float]:
        """Where edges meet one side of a box: spread out, in the order of their far ends."""
        ordered = sorted(edges, key=lambda e: centre[ways[e][end + step]][0])
        return {e: (i - (len(ordered) - 1) / 2) * 0.9 * min(1, 3 / len(ordered)) for i, e in enumerate(ordered)}

    arrive, leave = {}, {}
    for node in graph.nodes:
        arrive |= fan([(node.name, i) for i in range(len(node.inputs))], -1, -1)
        leave |= fan([(r.name, i) for s in node for r, i in graph.consumers(s)], 0, 1)
    for edge, way in ways.items():
        points = [(centre[way[0]][0] + leave[edge], centre[way[0]][1] - height / 2)]
        for key in way[1:-1]:
            x, y = centre[key]
            points += [(x, y + height / 2), (x, y - height / 2)]
        points.append((centre[way[-1]][0] + arrive[edge], centre[way[-1]][1] + height / 2))
        for a, b in zip(points[:-2], points[1:-1]):
            ax.plot(*zip(a, b), color="#444444", linewidth=0.9, zorder=1, solid_capstyle="round")
        ax.annotate("", xy=points[-1], xytext=points[-2], zorder=1,
                    arrowprops={"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0})
        (x0, y0), (x1, y1) = points[:2]
        reader, i = edge
        stream = next(n for n in graph.nodes if n.name == reader).inputs[i]
        ax.text(x0 + (x1 - x0) * 0.35, y0 + (y1 - y0) * 0.35, str(stream.type), ha="center", va="center", fontsize=6.5, color="#333333",
                zorder=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
    figure.savefig(path)
