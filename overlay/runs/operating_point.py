"""DC operating point of a circuit: a Newton iteration on an overlay, iterated by the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...machine.errors import RunError
from ...scheduler.token import MEAN, Mapped, map_graph
from .. import model
from ..core.config import Overlay
from ..core.dataflow import DataflowGraph
from ..core.image import Image
from .comparison import against_model, dynamic_share

MOST_ITERATIONS = 100
"""Iterations after which a circuit is said not to converge, as in SPICE."""

State = dict[str, np.ndarray]
"""Inputs of an iteration by name; outputs of the same names are those of the next one."""


@dataclass(frozen=True)
class OperatingPoint:
    """The operating point of a circuit, found on an overlay."""

    overlay: Overlay
    values: dict[str, float]  # node voltages in volts, currents of voltage sources in amperes
    cycles: list[int]  # of each iteration
    dynamic_share: float | None  # of hybrid PEs: operations decided or by tokens
    compared: int | None  # writes of the RTL that equal the model's, if it ran


def iterations(graph: DataflowGraph) -> list[State]:
    """States by NumPy: the one that the first iteration begins with, and the outputs of each
    iteration, ``converged`` among them, up to the one that has.

    Raises
    ------
    RunError
        A value is infinite or no number, or there are more than :data:`MOST_ITERATIONS`.
    """
    where = f"circuit {graph.title}"
    start = {graph.name[int(i)]: np.array(graph.value[i], np.float32) for i in graph.inputs}
    states = [start]
    while len(states) <= MOST_ITERATIONS:
        given = {name: states[-1][name] for name in start}
        with np.errstate(all="ignore"):
            states.append(graph.results(graph.evaluate(given)))
        bad = next((name for name, x in states[-1].items() if not np.isfinite(x)), None)
        if bad is not None:
            raise RunError(
                f"{bad} is {states[-1][bad]} after iteration {len(states) - 1}",
                where,
                "every step has a finite solution",
                "give each node a path to ground, or change what drives it",
            )
        if states[-1]["converged"]:
            return states
    raise RunError(
        f"does not converge in {MOST_ITERATIONS} iterations",
        where,
        remedy="check the values, or begin with a smaller supply",
    )


def operating_point(
    graph: DataflowGraph, overlay: Overlay, *, on: str = "model", seed: int = 0
) -> OperatingPoint:
    """Iterate until the graph's test says so, every output equal to NumPy's in every bit.

    Parameters
    ----------
    graph
        Of :func:`~penstock.overlay.graphs.circuit.newton_graph`.
    overlay
        The machine; its format is fp32.
    on
        ``model``, or ``both``: the RTL as well, each write and token equal to the model's.
    seed
        Of the placement.

    Raises
    ------
    ConfigError, ProgramError
        The graph does not fit: memories, format.
    RunError
        The circuit does not converge, or values or cycles differ.
    """
    states = iterations(graph)
    m = map_graph(graph, overlay, seed, MEAN)
    names = [m.graph.name[int(i)] for i in m.graph.inputs]
    images: list[Image] = []
    runs: list[model.Run] = []
    state = states[0]
    for wanted in states[1:]:
        given = np.array([state[name] for name in names], np.float32)
        images.append(m.image.with_inputs(m.graph.inputs, given.view(np.uint32)))
        runs.append(model.simulate(images[-1], tokens=on == "both"))
        words = model.values(images[-1], runs[-1]).astype(np.uint32)
        state = m.graph.results(words.view(np.float32))
        for name, x in state.items():
            if x.tobytes() != wanted[name].tobytes():
                place = f"circuit {graph.title}, iteration {len(runs)}"
                raise RunError(f"{name} is {x}, by NumPy {wanted[name]}", place)
    compared = _compared(m, images, runs) if on == "both" else None
    values = {name: float(state[name]) for name in graph.meta["unknowns"]}
    cycles = [run.cycles for run in runs]
    ends = (run.node_cycles(image) for image, run in zip(images, runs, strict=True))
    fired = sum(int(np.count_nonzero(end >= 0)) for end in ends)
    share = dynamic_share(m.image, fired, len(runs))
    return OperatingPoint(m.overlay, values, cycles, share, compared)


def _compared(m: Mapped, images: list[Image], runs: list[model.Run]) -> int:
    """Writes of the RTL in all iterations, which begin with the inputs alone; each write and token
    is the model's.
    """
    from ..tb.api import run_image

    at = images[0].base[images[0].node_pe[m.graph.inputs]]
    at = at + images[0].node_address[m.graph.inputs]
    given = [(m.graph.inputs, image.value[at]) for image in images[1:]]
    first = run_image(images[0], given)
    writes = 0
    for k, (image, run, rtl) in enumerate(zip(images, runs, [first, *first.again], strict=True), 1):
        bits = model.values(image, run)
        place = f"{m.graph.title}, iteration {k}"
        writes += against_model(replace(m, image=image), run, bits, rtl, place)["writes"]
    return writes
