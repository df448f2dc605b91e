"""A bench that leaves with an overlay's Verilog: what loads a graph, and the model's writes, tokens
and values as plain tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ...hw.export import Export
from ...hw.overlay import look_layout
from ...machine.errors import PenstockError
from ...machine.limits import RESET_CYCLES
from ...runs.leaving import MAKEFILE, MOST_BEATS, table
from ...system.sources import PACKAGE
from ..core.config import LINKS
from ..core.image import Image
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
    top = done.top
    sources = [name for name in names if name.endswith(".v")]
    look = look_layout(image.overlay, image.sizes)
    looked = look.pack({"pe": image.node_pe, "address": image.node_address})
    rows = zip(labels, looked, model.values.tolist(), strict=True)
    bench = {
        "format": 1,
        "top": top,
        "clock": {"port": "clk", "period_ns": 10},
        "reset": {"port": "rst", "active": 1, "cycles": RESET_CYCLES},
        "cycles": model.cycles,
        "begins": BEGINS,
        "places": [*_write_ports(image), *_links(image)],
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


def _tile(image: Image, pe: int) -> str:
    cols = image.overlay.cols
    return f"tile_{pe % cols}_{pe // cols}"


def _write_port(image: Image, pe: int) -> str:
    """Name of a PE's write port."""
    return f"{_tile(image, pe)} write"


def _link(image: Image, link: int) -> str:
    """Name of a link, which is its path in the hierarchy."""
    pe, side = divmod(link, len(LINKS))
    return f"{_tile(image, pe)}.{LINKS[side]}_o"


def _write_ports(image: Image) -> Iterator[dict]:
    """Write ports of value memories; static PEs show a write a cycle later."""
    static = image.overlay.pe == "static"
    port = "pe._put__" if static else "pe.values.write__"
    for pe in range(image.overlay.pes):
        path = f"{_tile(image, pe)}.{port}"
        parts = [path + "addr", path + "data"]
        yield _place(_write_port(image, pe), int(static), [path + "en"], parts)


def _links(image: Image) -> Iterator[dict]:
    """Links: streams, or registers, which show a token a cycle later; of static PEs those wires
    that somebody reads.
    """
    overlay = image.overlay
    for link in overlay.links():
        path = _link(image, link)
        if overlay.pe == "static":
            yield _place(path, 1, [], [path])
        elif overlay.torus:
            yield _place(path, 1, [path], [path], shift=1)
        else:
            yield _place(path, 0, [path + "_valid", path + "_ready"], [path + "_payload"])


def _place(name: str, late: int, when: list[str], parts: list[str], shift: int = 0) -> dict:
    return {"name": name, "late": late, "when": when, "parts": parts, "shift": shift}


def _rows(image: Image, model: Moves) -> list[tuple[int, str, str]]:
    """Cycle, place and words of each move."""
    rows = [(c, _write_port(image, pe), f"{a:x} {w:x}") for (c, pe), (a, w) in model.writes.items()]
    rows += [(c, _link(image, link), f"{w:x}") for (c, link), w in model.tokens.items()]
    return sorted(rows)
