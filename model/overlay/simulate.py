"""Run an image: cycle by cycle for dynamic PEs; a static image is its own timing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...machine.errors import RunError
from ...machine.overlay import CHAINED, WAITING, WRITE_ALU, WRITE_NONE
from ...machine.overlay_image import DynamicImage, Image, StaticImage
from . import dynamic


@dataclass
class Run:
    """One run.

    Attributes
    ----------
    cycles
        docs/overlay.md: 1 + the last cycle in which a result is written.
    written
        int64 by local address (offsets: the image's ``base``): the cycle in which an operation's
        result is written; -1 for all else.
    consumed, generated, stalled, peak_ready, deflected
        int64 [PEs], dynamic: tokens consumed and generated, cycles in which A's oldest trigger
        waits for a write, largest ready set (sources included), tokens of the torus that missed a
        turn here. Static: ``consumed`` holds the cycles with a write.
    links
        int64 [routers, 5], dynamic: tokens out of ports P, W, E, N, S.

    """

    cycles: int
    written: np.ndarray
    consumed: np.ndarray
    generated: np.ndarray
    stalled: np.ndarray
    peak_ready: np.ndarray
    deflected: np.ndarray
    links: np.ndarray = field(repr=False)

    def node_cycles(self, image: Image) -> np.ndarray:
        """``written`` by node of the graph."""
        return self.written[image.base[image.node_pe] + image.node_address]


def simulate(image: Image) -> Run:
    """Run an image of either kind; raises RunError if a dynamic overlay stops before its end (an
    image that lacks a token).
    """
    image.memories()
    pes = image.overlay.pes
    zeros = lambda *shape: np.zeros(shape, np.int64)  # noqa: E731
    written = np.full(image.base[-1], -1, np.int64)
    if isinstance(image, StaticImage):
        write = image.context["write"]
        p, c = np.nonzero(write == WRITE_ALU)
        written[image.base[p] + image.context["address"][p, c]] = c
        return Run(
            image.length,
            written,
            (write != WRITE_NONE).sum(axis=1),
            zeros(pes),
            zeros(pes),
            zeros(pes),
            zeros(pes),
            zeros(pes, 5),
        )
    assert isinstance(image, DynamicImage)
    o = image.overlay
    run = Run(0, written, zeros(pes), zeros(pes), zeros(pes), zeros(pes), zeros(pes), zeros(pes, 5))
    run.cycles = int(
        dynamic.run(
            o.rows,
            o.cols,
            o.network == "hoplite",
            o.ready == "criticality",
            o.fifo_depth,
            o.wake,
            WAITING if o.wake == 2 else 1,
            CHAINED[o.wake],
            image.base,
            o.latencies()[image.op].astype(np.int64),
            image.senders,
            image.sources,
            image.fires,
            image.first_base,
            image.first_pe,
            image.first_node,
            image.first_slot,
            image.first_node2,
            image.first_slot2,
            image.first_last,
            image.first_rest,
            image.rest_base,
            image.rest_pe,
            image.rest_node,
            image.rest_slot,
            image.rest_node2,
            image.rest_slot2,
            image.rest_last,
            image.chain_valid,
            image.chain_node,
            image.chain_slot,
            image.seed,
            written,
            run.links,
            run.consumed,
            run.generated,
            run.peak_ready,
            run.stalled,
            run.deflected,
        )
    )
    if run.cycles < 0:
        late = int(np.count_nonzero(written < 0)) - int(
            np.count_nonzero(o.latencies()[image.op] == 0)
        )
        raise RunError(
            f"nothing moves any more after cycle {-run.cycles - 1}; {late} operations have not "
            "fired",
            "overlay",
            rule="every operation gets a token for each operand",
            remedy="build the image from a graph with `map_graph`",
        )
    return run
