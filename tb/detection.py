"""Detection of a design's mutants by its runs: one netlist with all of them, one simulator, a run
for each mutant and point until a point finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.stimulus import Point
from ..machine.trace import Run
from ..machine.unitgraph import UnitGraph
from . import api
from .exported import Design
from .mutants import SELECTOR, Mutant, planted
from .result import IDLE_CYCLES

TOP = "penstock_fabric"
AT_ONCE = 24
"""Mutants of a launch of the simulator."""


@dataclass(frozen=True)
class Case:
    """A point of a design, and the model's run of it, with its trace."""

    name: str
    point: Point
    model: Run


@dataclass(frozen=True)
class Found:
    """Sign by which a mutant shows."""

    point: str  # name of the first point that finds it
    message: str  # the first line of what is said there


@dataclass(frozen=True)
class Source:
    """The probed fabric of a graph: annotated RTLIL, and its run-time registers."""

    graph: UnitGraph
    config: Config
    rtlil: str
    registers: Sequence[Mapping]


def annotated(graph: UnitGraph, config: Config, *, probes: bool = True) -> Source:
    """Parts of the netlist of a graph, with the bench's probes or as exported."""
    # Amaranth takes a second to import; only an export needs it.
    from ..hw.export import annotated_rtlil
    from ..hw.fabric import Fabric

    fabric = Fabric(graph, config, probes=probes)
    return Source(graph, config, annotated_rtlil(fabric, TOP), tuple(fabric.registers))


def netlist(source: Source, numbers: Mapping[Mutant, int]) -> Design:
    """The design with mutants."""
    from ..hw.export import verilog_of

    machine = source.config.machine
    return Design(
        source.graph,
        {"mutants.sv": SELECTOR, "fabric.v": verilog_of(planted(source.rtlil, numbers, TOP))},
        TOP,
        source.registers,
        (),
        machine.port_lanes,
        machine.response_lanes,
        machine.dram.line_bytes,
    )


def found(
    design: Design,
    cases: Sequence[Case],
    config: Config,
    numbers: Sequence[int],
    say: Callable[[str], None],
) -> dict[int, Found]:
    """Run each mutant at each point until the run differs from the model's; those that do.

    Raises
    ------
    RunError
        A run without a mutant differs: its netlist is not the design.
    """
    _run(design, cases, config, [0] * len(cases))
    out: dict[int, Found] = {}
    for case in cases:
        left = [number for number in numbers if number not in out]
        say(f"{case.name}: {len(left)} mutants")
        for begin in range(0, len(left), AT_ONCE):
            some = left[begin : begin + AT_ONCE]
            out |= {
                number: Found(case.name, message)
                for number, message in _at(design, case, config, some).items()
            }
    return out


def _at(design: Design, case: Case, config: Config, numbers: Sequence[int]) -> dict[int, str]:
    """Result of a point for the mutants that it finds; a launch that fails is halved."""
    try:
        messages = _run(design, [case] * (len(numbers) + 1), config, [*numbers, 0])
    except _NoLaunchError as e:
        if len(numbers) == 1:
            return {numbers[0]: str(e)}
        half = len(numbers) // 2
        parts = (numbers[:half], numbers[half:])
        return {n: m for part in parts for n, m in _at(design, case, config, part).items()}
    return {number: message for number, message in zip(numbers, messages, strict=False) if message}


class _NoLaunchError(RunError):
    """The simulator itself failed."""


def _run(
    design: Design, cases: Sequence[Case], config: Config, numbers: Sequence[int]
) -> list[str]:
    """One launch: a message for each run that differs, empty where none does."""
    points = [
        replace(case.point, mutant=number, expected=case.model)
        for case, number in zip(cases, numbers, strict=True)
    ]
    most = 2 * max(case.model.cycles for case in cases) + IDLE_CYCLES
    try:
        runs = api.simulate(design, points, config, max_cycles=most, keep_going=True)
    except RunError as e:
        raise _NoLaunchError(str(e).splitlines()[0], f"RTL of {design.graph.name}") from None
    messages = []
    for case, number, run in zip(cases, numbers, runs, strict=True):
        messages.append(_difference(run))
        if number == 0 and messages[-1]:
            raise RunError(f"no mutant is on, and it differs: {messages[-1]}", case.name)
    return messages


def _difference(run: Run | RunError) -> str:
    """The first thing that differs from the model."""
    if isinstance(run, RunError):
        return str(run).splitlines()[0]
    report = run.extra["report"]
    if report.ok:
        return ""
    return str(report.differences[0]).splitlines()[0] if report.differences else "beats not seen"
