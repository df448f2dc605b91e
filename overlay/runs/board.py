"""A dataflow graph on an overlay on a board: loaded, run, read back, compared with the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...board.bitstream import Bitstream, available, bitstream
from ...board.design import TOP, Design, number_of
from ...board.device import Device, Loaded
from ...board.run import RUN_SECONDS, SIMULATED, Place, check_limit, opened
from ...hw.export import export
from ...machine.errors import RunError
from ...machine.host_frames import MOST_WORDS
from ...machine.host_map import WORD_BYTES, window
from ...machine.limits import SEEDS, within
from ...runs.progress import Progress
from ...runs.progress import of as progress_of
from ...scheduler.token import Mapped, map_graph
from ...system.cache import digest, entry
from ...system.sources import PACKAGE, digest_of, sources_of
from .. import model
from ..core.config import Overlay, bits_for, memories
from ..core.dataflow import DataflowGraph
from ..core.image import Image
from ..graphs.source import graph_from
from ..tb.api import classes_of

LOOK_EVERY = 64
"""Writes between two looks at whether the board was reset."""


@dataclass(frozen=True)
class OverlayRun:
    """Outcome of an overlay's run on a board, and its comparison."""

    # graph, overlay, board: names
    graph: str
    overlay: str
    board: str
    cycles: int  # of the run
    values: np.ndarray  # uint64 [graph nodes]: bits of every node's value, read back
    loaded: Loaded  # what loading took
    ran: DataflowGraph  # the graph as its PEs execute it
    # of the model, where it ran too; then all values are equal to its
    model_cycles: int | None = None


def run(
    graph: str,
    overlay: Overlay,
    *,
    place: Place = SIMULATED,
    on: str = "board",
    seed: int = 0,
    limit: float = RUN_SECONDS,
    progress: Progress | Callable[[str], None] | None = None,
) -> OverlayRun:
    """Run a graph on an overlay on a board, or on one in simulation.

    Parameters
    ----------
    graph
        A specification, as ``penstock overlay compare`` takes it.
    overlay
        The machine.
    place
        Which board, and how it is reached; its memory is not used.
    on
        ``board``, or ``both``: the model too, and compare.
    seed
        Of the placement.
    limit
        Seconds that the run may take.
    progress
        A display, or a function that is called with a line a step.

    Raises
    ------
    PenstockError
        Bad input, no simulator, no board, or a difference from the model.
    """
    check_limit(limit)
    show = progress_of(progress)
    divisor = place.divisor  # refused before anything is placed
    mapped = _mapped(graph, overlay, seed, show.stage)
    title = mapped.graph.title
    image = mapped.image
    design = overlay_design(image, divisor=divisor, stage=show.stage)
    with opened(place, design, show.stage) as link:
        show.stage(f"load {title} through {link.name}")
        device = Device(link, design.number)
        loaded = device.filled(lambda: _fill(device, image))
        ended = device.run(0, limit)
        values = _values(device, image)
    cycles = None
    if on == "both":
        show.stage("run the model")
        cycles = _compare(title, image, ended.cycles, values, place.board)
    return OverlayRun(
        title, _name(overlay), place.board, ended.cycles, values, loaded, mapped.graph, cycles
    )


def build(
    graph: str,
    overlay: Overlay,
    *,
    place: Place,
    out: str | Path,
    placement: int = 0,
    seed: int = 1,
    progress: Progress | Callable[[str], None] | None = None,
) -> Bitstream:
    """The bitstream of an overlay with room for a graph.

    Parameters
    ----------
    graph, overlay, place
        As of :func:`run`.
    out
        A folder, which is made if needed.
    placement, seed
        Of the graph on the overlay; of the design on the FPGA.
    progress
        As of :func:`run`.

    Raises
    ------
    PenstockError
        Bad input, or what :func:`~penstock.board.bitstream.bitstream` raises.
    """
    available()
    show = progress_of(progress)
    divisor = place.divisor
    image = _mapped(graph, overlay, placement, show.stage).image
    design = overlay_design(image, divisor=divisor, stage=show.stage)
    return bitstream(design, place.board, out, seed=within("seed", seed, SEEDS), stage=show.stage)


def overlay_design(
    image: Image, *, divisor: int, stage: Callable[[str], None] | None = None
) -> Design:
    """The board of an image's overlay, exported or from the cache.

    Parameters
    ----------
    image
        Its sizes are those of the memories.
    divisor
        Clock cycles of a bit on the serial line.
    stage
        Called with one line when an export begins.
    """
    classes = classes_of([image])
    sources = sources_of([PACKAGE / "hw" / "host" / "overlay_board.py", Path(__file__)])
    shape = [
        digest_of(sources),
        image.overlay.to_dict(),
        vars(image.sizes),
        sorted((pe, sorted(names)) for pe, names in classes.items()),
    ]
    shape = json.loads(json.dumps(shape, default=int))
    number = number_of(shape)
    with entry("verilog", f"overlay-{digest(json.dumps(shape), str(divisor))}") as (at, ready):
        path = at / f"{TOP}.v"
        if not ready:
            if stage:
                stage("export the board")
            path.write_text(_export(image, classes, number, divisor), encoding="utf-8")
        text = path.read_text(encoding="utf-8")
        mesh = (image.overlay.cols, image.overlay.rows)
        return Design({path.name: text}, number, divisor, mesh=mesh)


def _export(image: Image, classes, number: int, divisor: int) -> str:
    # Amaranth takes a second to import; only an export needs it.
    from ...hw.host.overlay_board import OverlayBoard
    from ...hw.overlay import Overlay as Component

    design = Component(overlay=image.overlay, sizes=image.sizes, classes=classes)
    return export(OverlayBoard(design, digest=number, divisor=divisor), TOP).verilog


def _mapped(spec: str, overlay: Overlay, seed: int, stage: Callable[[str], None]) -> Mapped:
    """A graph on an overlay."""
    stage(f"place {spec}")
    return map_graph(graph_from(spec), overlay, within("seed", seed, SEEDS))


def _name(overlay: Overlay) -> str:
    return f"{overlay.rows}x{overlay.cols} {overlay.name()}"


def _fill(device: Device, image: Image) -> None:
    """Load every word of an image."""
    base = window("IMAGE").base
    room = MOST_WORDS
    waiting: list[int] = []
    writes = 0
    for parts in _load_parts(image):
        if len(waiting) + len(parts) > room:
            device.link.write(base, waiting)
            waiting = []
            writes += 1
            if writes % LOOK_EVERY == 0:
                device.same_session()
        waiting += parts
    if waiting:
        device.link.write(base, waiting)


def _load_parts(image: Image) -> Iterator[list[int]]:
    """The words to load in parts of 32 bits, as many as a power of two."""
    # Both load Amaranth.
    from ...hw.host.streams import stride
    from ...hw.overlay import load_layout, load_words

    parts = stride(load_layout(image.overlay, image.sizes).width)
    for word in load_words(image):
        yield [word >> 32 * k & 0xFFFFFFFF for k in range(parts)]


def _values(device: Device, image: Image) -> np.ndarray:
    """Bits of every node's value, uint64 [graph nodes]."""
    overlay = image.overlay
    parts = overlay.width // 32
    depth = 1 << bits_for(memories(overlay, image.sizes)["value"].depth)
    out = np.zeros(len(image.node_pe), np.uint64)
    for pe in range(overlay.pes):
        here = np.flatnonzero(image.node_pe == pe)
        if not len(here):
            continue
        addresses = image.node_address[here]
        base = window("VALUES").base + WORD_BYTES * parts * depth * pe
        read = device.link.read(base, parts * (int(addresses.max()) + 1))
        words = np.array(read, np.uint64).reshape(-1, parts)
        whole = words[:, 0] if parts == 1 else words[:, 0] | words[:, 1] << np.uint64(32)
        out[here] = whole[addresses]
    return out


def _compare(title: str, image: Image, cycles: int, values: np.ndarray, board: str) -> int:
    """The model's cycles; RunError where a cycle or a value differs."""
    outcome = model.simulate(image, tokens=False)
    differ = model.values(image, outcome) != values
    wrong = int(np.count_nonzero(differ & outcome.known(image)))
    if cycles != outcome.cycles or wrong:
        raise RunError(
            f"differs from the model: {cycles} cycles, the model's {outcome.cycles}; {wrong} of "
            f"{len(values)} values",
            f"{title} on board {board}",
            remedy="report this: board and model are equal by contract",
        )
    return outcome.cycles
