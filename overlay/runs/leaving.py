"""A bench that leaves with an overlay's Verilog: what loads a graph, and the model's writes, tokens
and values as plain tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from ...hw.export import Export
from ...hw.overlay import look_layout
from ...machine.errors import PenstockError
from ...machine.limits import RESET_CYCLES
from ...runs.leaving import MAKEFILE, MOST_BEATS, table
from ...system.sources import PACKAGE
from ..core.image import Image
from ..core.places import links, write_ports
from ..model.moves import Moves, moves

BEGINS = 200
"""Cycles from ``start`` in which a run begins."""


def bench(image: Image, done: Export, names: Iterable[str], labels: list[str]) -> dict[str, str]:
    """Files of a bench beside ``load.hex``, by name; ``labels``: names of the graph's nodes.

    Raises PenstockError where it has more moves than `MOST_BEATS`.
    """
    model = moves(image)
    if (found := len(model.writes) + len(model.tokens)) > MOST_BEATS:
        raise PenstockError(
            f"a bench would have {found:,} writes and tokens",
            rule=f"it has at most {MOST_BEATS:,}: each is read through the simulator's interface",
            remedy="choose a smaller graph, or export without --bench",
        )
    places = [*write_ports(image.overlay).values(), *links(image.overlay, image.sizes).values()]
    top = done.top
    sources = [name for name in names if name.endswith(".v")]
    look = look_layout(image.overlay, image.sizes)
    looked = look.pack({"pe": image.node_pe, "address": image.node_address})
    columns = (labels, looked, model.values.tolist(), model.known.tolist())
    rows = [row[:3] for row in zip(*columns, strict=True) if row[3]]
    bench = {
        "format": 1,
        "top": top,
        "clock": {"port": "clk", "period_ns": 10},
        "reset": {"port": "rst", "active": 1, "cycles": RESET_CYCLES},
        "cycles": model.cycles,
        "begins": BEGINS,
        "places": [asdict(place) for place in places],
    }
    return {
        "Makefile": MAKEFILE.format(top=top, sources=" ".join(sources)),
        f"test_{top}.py": (PACKAGE / "overlay/tb/leaving.py").read_text(encoding="utf-8"),
        "bench.json": json.dumps(bench, indent=1) + "\n",
        "expected/moves.csv": table("cycle,place,words", _rows(image, model)),
        "expected/values.csv": table(
            "node,look,hex", ((n, f"{a:x}", f"{v:x}") for n, a, v in rows)
        ),
    }


def _rows(image: Image, model: Moves) -> list[tuple[int, str, str]]:
    """Cycle, place and words of each move."""
    ports, wires = write_ports(image.overlay), links(image.overlay, image.sizes)
    rows = [(c, ports[pe].name, f"{a:x} {w:x}") for (c, pe), (a, w) in model.writes.items()]
    rows += [(c, wires[link].name, f"{w:x}") for (c, link), w in model.tokens.items()]
    return sorted(rows)
