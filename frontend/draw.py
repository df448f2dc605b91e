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


def layers(graph: Graph) -> list[list[Operator]]:
    """Operators by depth: each just above its nearest reader, ordered within a layer to keep edges short."""
    depth: dict[str, int] = {}
    for node in graph.nodes:
        depth[node.name] = 1 + max((depth[s.node.name] for s in node.inputs), default=-1)
    for node in reversed(graph.nodes):
        readers = [depth[r.name] for s in node for r, _ in graph.consumers(s)]
        if readers and not node.inputs:
            depth[node.name] = min(readers) - 1
    rows = [[n for n in graph.nodes if depth[n.name] == d] for d in range(max(depth.values()) + 1)]
    at = {n.name: i - len(row) / 2 for row in rows for i, n in enumerate(row)}
    for _ in range(4):
        for row in rows:
            for n in row:
                near = [at[s.node.name] for s in n.inputs] + [at[r.name] for s in n for r, _ in graph.consumers(s)]
                at[n.name] = sum(near) / len(near) if near else at[n.name]
            row.sort(key=lambda n: at[n.name])
            for i, n in enumerate(row):
                at[n.name] = i - (len(row) - 1) / 2
    return rows


def draw(graph: Graph, path: str | Path) -> None:
    """Write a drawing; the suffix chooses DOT or a format of matplotlib."""
    path = Path(path)
    if path.suffix == ".dot":
        path.write_text(to_dot(graph))
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    formats = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:] not in formats:
        raise ProgramError(f"cannot draw to {path.name!r}", remedy=f"suffixes are .dot, {', '.join('.' + f for f in sorted(formats))}")
    rows = layers(graph)
    width, height, dx, dy = 2.5, 0.62, 3.3, 1.25
    centre = {n.name: ((i - (len(row) - 1) / 2) * dx, -d * dy) for d, row in enumerate(rows) for i, n in enumerate(row)}
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(columns * dx + 1.5, len(rows) * dy + 0.6), dpi=110)
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-columns * dx / 2 - 0.75, columns * dx / 2 + 0.75)
    ax.set_ylim(-(len(rows) - 1) * dy - 0.7, 0.7)
    ax.axis("off")
    from matplotlib.patches import FancyBboxPatch

    for node in graph.nodes:
        x, y = centre[node.name]
        ax.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.08",
                                    facecolor=colour(node), edgecolor="#555555", linewidth=0.8, zorder=2))
        name, kind = caption(node)
        ax.text(x, y + 0.13, name, ha="center", va="center", fontsize=9, fontweight="bold", zorder=3)
        ax.text(x, y - 0.14, kind, ha="center", va="center", fontsize=7.5, zorder=3)
        for i, s in enumerate(node.inputs):
            x0, y0 = centre[s.node.name]
            spread = (i - (len(node.inputs) - 1) / 2) * 0.9
            start, end = (x0, y0 - height / 2), (x + spread, y + height / 2)
            ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}, zorder=1)
            fx = 0.5 if y0 - y < 1.5 * dy else 0.12
            ax.text(start[0] + (end[0] - start[0]) * fx, start[1] + (end[1] - start[1]) * fx, str(s.type), ha="center", va="center", fontsize=6.5,
                    color="#333333", zorder=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
    figure.savefig(path)
