"""Ledger between a schedule's prediction and its run, cycle by cycle.

The prediction is a sum over steps of the larger of compute and traffic. A run is as long as its
busiest resource is at work (the off-chip memory, or a unit by its beats and interval) and waits.
Both are known, so the terms below add up exactly:

    cycles = predicted - overlap - padding - beside + lines
             + fill + stalls + drain
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..machine.config import Config
from ..machine.record import TERMS
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from ..scheduler.dag.meter import SubgraphCost

MEMORY = "off-chip memory"


@dataclass
class Ledger:
    """The terms, in cycles.

    Attributes
    ----------
    overlap
        Steps overlap: the prediction adds up, step by step, the larger of compute and traffic; the
        machine goes on with the one while it waits for the other.
    padding
        The prediction pads tiles to native ones; the machine works on physical tiles.
    beside
        Operations have a unit each and work side by side: what all do together, less the busiest.
        Below zero where a scratchpad's port is the busiest.
    lines
        The memory moves whole lines.
    fill, drain
        Before the busiest resource's first work, and after its last.
    stalls
        It waits in between.
    busiest
        Its name.
    stops
        Beats without data in all channels: stop tokens that ride on no value, Done among them.
    """

    overlap: float
    padding: float
    beside: float
    lines: float
    fill: float
    stalls: float
    drain: float
    busiest: str
    stops: int

    @property
    def waits(self) -> float:
        """Cycles without work."""
        return self.fill + self.stalls + self.drain

    def __add__(self, other: Ledger) -> Ledger:
        sums = {name: getattr(self, name) + getattr(other, name) for name in (*TERMS, "stops")}
        busiest = self.busiest if self.busiest == other.busiest else "several"
        return Ledger(**sums, busiest=busiest)


@dataclass(frozen=True)
class _Work:
    """Work of a resource: cycles of work, the first and the one after the last."""

    name: str
    cycles: float
    first: int
    end: float
    computes: bool = False


def ledger(costs: Sequence[SubgraphCost], graph: UnitGraph, config: Config, run: Run) -> Ledger:
    """The ledger of a traced run of subgraphs of these costs."""
    predicted = sum(c.latency for c in costs)
    memory = sum(c.memory for c in costs)
    summed = max(sum(c.compute for c in costs), memory)
    works = list(_works(graph, config, run))
    busiest = max(works, key=lambda work: work.cycles)
    needed = max(memory, sum(work.cycles for work in works if work.computes))
    base = memory if busiest.name == MEMORY else busiest.cycles
    drain = run.cycles - busiest.end
    return Ledger(
        overlap=predicted - summed,
        padding=summed - needed,
        beside=needed - base,
        lines=busiest.cycles - base,
        fill=busiest.first,
        stalls=busiest.end - busiest.first - busiest.cycles,
        drain=drain,
        busiest=busiest.name,
        stops=int(sum((c.data == 0).sum() for c in run.channels)),
    )


def _works(graph: UnitGraph, config: Config, run: Run) -> Iterator[_Work]:
    """The work of the memory, of each unit with an interval, and of each scratchpad's ports."""
    dram = config.machine.dram
    moved = [port for port in run.ports if len(port.accept)]
    if moved:
        accept = np.concatenate([port.accept for port in moved])
        deliver = np.concatenate([port.deliver for port in moved])
        # granted ahead of its service, a line waits in the memory
        last = deliver.max() - (deliver - accept).min() + dram.interval
        line = dram.line_bytes / dram.bytes_per_cycle
        yield _Work(MEMORY, line * len(accept), int(accept.min()), int(last))
    for unit in graph.units:
        kind = unit.kind
        if kind.name == "scratchpad":
            writers = len(kind.writers)
            inputs = graph.inputs(unit.id)[:writers]
            outputs = graph.outputs(unit.id)[writers:]
            yield from _moved(unit.name, run, [c.id for c in inputs], 1, "take")
            yield from _moved(unit.name, run, [c.id for c in outputs], 1, "accept")
        elif kind.name in ("matmul", "map", "accum"):
            _, interval = kind.pipeline(graph.t)
            taken = [graph.inputs(unit.id)[0].id]
            computes = kind.name != "accum"
            yield from _moved(unit.name, run, taken, interval, "take", computes)


def _moved(
    name: str, run: Run, channels: Sequence[int], interval: int, when: str, computes: bool = False
) -> Iterator[_Work]:
    """The work of a port: its beats of data."""
    cycles = [getattr(run.channels[c], when)[run.channels[c].data != 0] for c in channels]
    beats = np.concatenate(cycles)
    if len(beats):
        last = int(beats.max()) + interval
        yield _Work(name, interval * len(beats), int(beats.min()), last, computes)
