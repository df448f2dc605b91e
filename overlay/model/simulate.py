"""Run an image: cycle by cycle for dynamic PEs; a static image is its own timing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...machine.errors import RunError
from ..core.config import WRITE_ALU, WRITE_NONE
from ..core.image import DynamicImage, HybridImage, Image, StaticImage
from ..core.ops import Op
from . import dynamic
from .routes import routes
from .state import PORTS, State
from .values import computed, walked


@dataclass
class Run:
    """One run."""

    cycles: int  # docs/overlay.md: up to the first in which nothing is left to do
    # int64 by local address (offsets: the image's ``base``): the cycle in which an operation's
    # result is written; -1 for all else
    written: np.ndarray
    # consumed, generated, stalled, peak_ready, deflected: int64 [PEs], dynamic: tokens consumed and
    # generated, cycles in which A's oldest trigger waits for a write, largest ready set (sources
    # included), tokens of the torus that missed a turn here. Static: ``consumed`` holds the cycles
    # with a write.
    consumed: np.ndarray
    generated: np.ndarray
    stalled: np.ndarray
    peak_ready: np.ndarray
    deflected: np.ndarray
    # int64 [routers, 5], dynamic: tokens out of ports P, W, E, N, S
    links: np.ndarray = field(repr=False)
    # what is on the links to neighbours and when, if it was asked for: dynamic,
    # :data:`~.state.TOKEN`; static, :data:`~.routes.CROSSING`
    tokens: np.ndarray | None = field(default=None, repr=False)
    # int64 [cycles], hybrid: the context that holds in each
    contexts: np.ndarray | None = field(default=None, repr=False)

    def node_cycles(self, image: Image) -> np.ndarray:
        """``written`` by node of the graph."""
        return self.written[image.base[image.node_pe] + image.node_address]

    def known(self, image: Image) -> np.ndarray:
        """bool [graph nodes]: those whose values are given, or computed by the run."""
        if not isinstance(image, DynamicImage):
            return np.ones(len(image.node_pe), bool)
        known = (self.written >= 0) | (image.op < Op.ADD)
        return known[image.base[image.node_pe] + image.node_address]


def simulate(image: Image, *, tokens: bool = False) -> Run:
    """Run an image of either kind; with ``tokens``, what is on the links is kept.

    Raises
    ------
    RunError
        A dynamic overlay stops before its end (an image that lacks a token).
    """
    image.memories()
    written = np.full(image.base[-1], -1, np.int64)
    if isinstance(image, StaticImage):
        write = image.context["write"]
        p, c = np.nonzero(write == WRITE_ALU)
        written[image.base[p] + image.context["address"][p, c]] = c
        return Run(
            1 + int(c.max(initial=-1)),
            written,
            (write != WRITE_NONE).sum(axis=1),
            *np.zeros((4, image.overlay.pes), np.int64),
            links=np.zeros((image.overlay.pes, PORTS), np.int64),
            tokens=routes(image).crossings if tokens else None,
        )
    assert isinstance(image, DynamicImage)
    fires = image.op >= Op.ADD
    sends = np.ones(len(fires), bool)
    contexts = None
    if isinstance(image, HybridImage):
        contexts = np.arange(image.length)
        if image.decides:
            contexts, _ = walked(image)
            fires[:] = False
        image = image.taken(contexts)
    elif image.conditional:
        _, fires, sends = computed(image)
    state = State(image, sends)
    cycles = int(dynamic.run(state.address))
    written = state.S[state.written_at :][: len(written)].copy()
    links = np.stack([state.S[at : at + PORTS] for at in state.results("links")])
    names = ("consumed", "generated", "stalled", "peak_ready", "deflected")
    found = (state.results(name) for name in names)
    run = Run(cycles, written, *found, links=links, contexts=contexts)
    late = int(np.count_nonzero((written < 0) & fires))
    if run.cycles < 0 or late:
        last = cycles if cycles >= 0 else -cycles - 1
        raise RunError(
            f"nothing moves any more after cycle {last}; {late} operations have not fired",
            "overlay",
            rule="every operation gets a token for each operand",
            remedy="build the image from a graph with `map_graph`",
        )
    return replace(run, tokens=_crossings(image, sends, run)) if tokens else run


def _crossings(image: DynamicImage, sends: np.ndarray, run: Run) -> np.ndarray:
    """The tokens on the links: the same run again, with room for as many as it had."""
    state = State(image, sends, int(run.links[:, 1:].sum()))
    dynamic.run(state.address)
    return state.tokens()
