"""The machine that a problem stands for.

The problem's machine has one array, which executes the operations of a step one after the other,
and a memory of `bandwidth` elements per unit of time.  On the fabric every operation has a unit of
its own and all units work at once.  So that both have the same capability, `derive` sets the rates:

- *Memory*: one channel that takes a 64-B line (16 elements) every `interval` cycles, with its
  latency.  This fixes the unit of time: one unit is `bandwidth` x `interval` / 16 cycles.
- *Units*: the whole array's rate for every operation (cost of its executions / physical tiles they
  take), but for one *leader* among the operations of a subgraph.  The leader also gives up the time
  in which the array works for the others: its pace is that of their sum.  The operations that run
  on finished output tiles (after a reduction over several steps) have a leader of their own, and
  the first leader does not wait for them after the last tile.  A compute-bound subgraph of N tiles
  so takes what the problem says; what comes before the leader's first beat and after its last is
  fill.
- *Scratchpads*: room for two buffers, one in use and one being loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....frontend import ceil_div
from ....machine.beat import LINE_BYTES
from ....machine.config import Config, Dram, Machine, Stepsim, check
from ..problem import Problem
from .lower import Lowered

__all__ = ["LINE_ELEMENTS", "Fabric", "derive"]

LINE_ELEMENTS = LINE_BYTES // 4
LEAST_PACE = 4
"""Cycles per physical tile that the fastest unit of weight takes at least: far from what the
fabric's own transport allows.
"""
NEGLIGIBLE = 0.01
"""Share of a subgraph's compute below which an operation may keep its unit's own interval."""
MOST_INTERVAL = 4096
FRAMES = 1


@dataclass(frozen=True)
class Fabric:
    """A machine for all subgraphs of a schedule.

    `cycles_per_time` turns the problem's units of time into cycles;
    `intervals` holds, per subgraph, the pace of each operation in
    sixteenths of a cycle.
    """

    config: Config
    cycles_per_time: float
    intervals: tuple[dict[str, int], ...]

    def text(self) -> str:
        """One line: the memory, the tile edge, the unit of time."""
        m = self.config.machine
        return (
            f"{m.t} x {m.t} tiles of fp32, a line of {LINE_ELEMENTS} elements every "
            f"{m.dram.interval} cycles after {m.dram.start_up + m.dram.latency}, "
            f"{self.cycles_per_time:.4g} cycles per unit of time, scratchpads of {m.buffers} "
            f"buffers, up to {m.pages * m.frames} tiles"
        )


def derive(problem: Problem, lowered: Sequence[Lowered], t: int) -> Fabric:
    """A problem's machine for the programs of one of its schedules, with tiles of `t` x `t`."""
    shares = [_shares(x, t) for x in lowered]
    interval = 2
    for program, share in zip(lowered, shares, strict=False):
        total = sum(share.values())
        for name, time in share.items():
            if time > NEGLIGIBLE * total:
                need = (
                    max(LEAST_PACE, _own_interval(name, program, t))
                    * program.work[name].beats(t)
                    / time
                )  # cycles per unit of time
                interval = max(interval, math.ceil(LINE_ELEMENTS * need / problem.bandwidth))
    interval = min(interval, MOST_INTERVAL)
    cycles = problem.bandwidth * interval / LINE_ELEMENTS
    intervals = tuple(
        {
            name: max(
                16 * _own_interval(name, x, t), round(16 * cycles * time / x.work[name].beats(t))
            )
            for name, time in share.items()
        }
        for x, share in zip(lowered, shares, strict=False)
    )
    buffers = [ceil_div(r, t) * ceil_div(c, t) for x in lowered for r, c in x.buffers]
    sums = [
        math.prod(ceil_div(n, t) for n in w.elements[:2]) for x in lowered for w in x.work.values()
    ]
    machine = Machine(
        t=t,
        dtype="fp32",
        rows_per_cycle=t,
        lanes={"default": t * t, "silu": t},
        accum_tiles=max(sums, default=1),
        frames=FRAMES,
        pages=2 * ceil_div(max(buffers, default=1), FRAMES),
        buffers=2,
        sized=True,
        port_lanes=1,
        load_lines=32,
        arbitration="round_robin",
        dram=Dram(kind="pipe", channels=1, interval=interval),
    )
    return Fabric(check(Config(f"dag:{problem.name}", machine, Stepsim())), cycles, intervals)


def _own_interval(name: str, program: Lowered, t: int) -> int:
    """Cycles from tile to tile of the unit itself."""
    fn = next(node.args["fn"].name for node in program.graph.nodes if node.name == name)
    return t if fn == "silu" else 1


def _shares(program: Lowered, t: int) -> dict[str, float]:
    """Time that each operation's unit takes for the whole subgraph if
    nothing holds it up, in units of time.
    """
    work = program.work
    times = {name: w.cost for name, w in work.items()}
    early, late = ([n for n in work if work[n].late == after] for after in (False, True))
    tiles = program.meter.rows * program.meter.columns
    after = sum(times[n] for n in late)
    total = sum(times.values())
    if late:
        times[max(late, key=times.__getitem__)] = after
    if early:
        times[max(early, key=lambda n: work[n].cost)] = total - after / tiles
    return {name: time for name, time in times.items() if time > 0}
