"""Shares of some hundred small faults of the RTL that regression and fuzzer find, at t = 2: `nox -s
detection`.

The mutants are drawn of the designs `DRAWN_OF`. Each design of the regression runs those that no
design before it found, and so do the fuzzed programs, part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from measurements import Bench, Row
from penstock import model
from penstock.fuzz.campaign import Campaign, batches, rounds_of, side_by_side
from penstock.machine.config import Config, check
from penstock.machine.stimulus import Point as Stimulus
from penstock.runs import regress
from penstock.runs.point import Point
from penstock.tb import detection
from penstock.tb.detection import Case
from penstock.tb.mutants import Mutant, candidates, drawn

EDGE = 2
COUNT = 240
SEED = 20261122
FUZZ_SEED = 1
"""Seed of the first part of the fuzzed programs."""
PROGRAMS = 64
"""Programs of a part."""
PARTS = 8
PRESET = "small_fpga"
REFUSED = ("operators compute", "simple_moe")
"""Designs that have no form with tiles of 2 x 2."""
DESIGNS = {
    f"regress {d.name}": d
    for d in regress.DESIGNS
    if d.config == PRESET and not d.deep and d.name not in REFUSED
}
DRAWN_OF = [
    f"regress {name}"
    for name in (
        "operators routing",
        "operators memory",
        "attention dynamic",
        "moe dynamic",
        "swiglu small_fpga",
    )
]
"""Designs that differ most in their units."""
FUZZED = {f"fuzz {PROGRAMS * k + 1} to {PROGRAMS * (k + 1)}": FUZZ_SEED + k for k in range(PARTS)}
"""Part of the fuzzed programs -> its seed."""
Netlist = tuple[Config, list[Stimulus], list[str]]
"""Its machine, and its points with their names; all of one structure."""


def machine(design: regress.Design) -> Config:
    """A design's machine with tiles of 2 x 2."""
    found = design.machine()
    m = found.machine
    lanes = {name: min(n, EDGE * EDGE) for name, n in m.lanes.items()}
    small = replace(m, t=EDGE, rows_per_cycle=min(m.rows_per_cycle, EDGE), lanes=lanes)
    return check(replace(found, machine=small))


def of_design(design: regress.Design, config: Config | None = None) -> Iterator[Netlist]:
    """The points of a design, with tiles of 2 x 2 if no machine is given; points of one structure
    are one netlist.
    """
    config = config or machine(design)
    found: dict[str, tuple[list[Stimulus], list[str]]] = {}
    for params in design.points:
        for seed in range(design.seeds):
            point = Point(design.program, config, params, seed=seed)
            points, names = found.setdefault(str(point.graph.structure().to_dict()), ([], []))
            points.append(point.stimulus())
            names.append(f"{point.label} seed={seed}")
    for points, names in found.values():
        yield config, points, names


def of_programs(seed: int) -> Iterator[Netlist]:
    """A part of the fuzzed programs, side by side."""
    for number, (config, structures) in enumerate(batches(Campaign(), PROGRAMS, seed, edge=EDGE)):
        points, _ = side_by_side(rounds_of(structures))
        yield config, points, [f"batch {number} round {k}" for k in range(len(points))]


def netlists(case: str) -> Iterator[Netlist]:
    """Netlists of a design, or of fuzzed programs."""
    return of_programs(FUZZED[case]) if case in FUZZED else of_design(DESIGNS[case])


def draw() -> list[Mutant]:
    """The mutants of the measurement."""
    found: set[Mutant] = set()
    for case in DRAWN_OF:
        for config, points, _ in netlists(case):
            found |= candidates(detection.annotated(points[0].graph, config).rtlil)
    return drawn(found, COUNT, SEED)


def campaign(_: str = "") -> list[Row]:
    """Totals of regression, fuzzer and both, by kind of mutant."""
    numbers = {mutant: n for n, mutant in enumerate(draw(), 1)}
    by = {"regression": DESIGNS, "fuzzer": FUZZED}
    found: dict[str, set[int]] = {what: set() for what in by}
    for what, cases in by.items():
        for case in cases:
            for made in netlists(case):
                found[what] |= tried(case, made, numbers, found[what])
    for mutant, n in numbers.items():
        if n not in found["regression"] | found["fuzzer"]:
            print(f"not found: {mutant}", flush=True)
    return totals({n: mutant.kind for mutant, n in numbers.items()}, found)


def totals(kinds: dict[int, str], found: dict[str, set[int]]) -> list[Row]:
    """A row for each kind of mutant."""
    rows = []
    for kind in sorted(set(kinds.values())):
        mine = {n for n, k in kinds.items() if k == kind}
        row: Row = {"kind": kind, "mutants": len(mine)}
        row |= {what: len(mine & of) for what, of in found.items()}
        rows.append(row | {"either": len(mine & set().union(*found.values()))})
    return rows


def tried(case: str, made: Netlist, numbers: dict[Mutant, int], done: set[int]) -> set[int]:
    """The mutants of a netlist that are not done and that it finds."""
    config, points, names = made
    source = detection.annotated(points[0].graph, config)
    here = candidates(source.rtlil)
    left = {m: n for m, n in numbers.items() if m in here and n not in done}
    if not left:
        return set()
    cases = [
        Case(name, point, modelled(point, config))
        for name, point in zip(names, points, strict=True)
    ]
    design = detection.netlist(source, left)
    return set(detection.found(design, cases, config, sorted(left.values()), say(case)))


def say(case: str):
    """Prints where a case is."""
    return lambda line: print(f"  {case}: {line}", flush=True)


def modelled(point: Stimulus, config: Config):
    return model.run(
        point.graph, config, point.tensors, trace=True, sources=point.sources, sinks=point.sinks
    )


DETECTION = Bench(lambda: ["all"], campaign)
