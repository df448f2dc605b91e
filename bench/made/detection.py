"""Which of many small faults of the RTL regression and fuzzer find, at
t = 2: `nox -s detection`.

The mutants are drawn once, of the designs `DRAWN_OF`. Then each design
of the regression runs those that no design before it found, and so do
the fuzzed programs, part by part: what either finds is told apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock import model
from penstock.fuzz.campaign import Campaign, batches, rounds_of, side_by_side
from penstock.machine.config import Config, check
from penstock.machine.errors import PenstockError
from penstock.machine.stimulus import Point as Stimulus
from penstock.runs import regress
from penstock.runs.point import Point
from penstock.system.cache import digest
from penstock.tb import detection
from penstock.tb.detection import Case
from penstock.tb.mutants import Mutant, candidates, drawn, line_of
from records import Record, on_rtl

EDGE = 2
COUNT = 240
SEED = 20261122
FUZZ_SEED = 1
"""Of the first part of the fuzzed programs."""
PROGRAMS = 64
"""Of a part."""
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
DRAW = "mutants"
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
    """The points of a design, with tiles of 2 x 2 if no machine is
    given; points of one structure are one netlist.
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
    """Of a design, or of fuzzed programs."""
    return of_programs(FUZZED[case]) if case in FUZZED else of_design(DESIGNS[case])


def draw() -> list[dict]:
    """The mutants of the record."""
    found: set[Mutant] = set()
    for case in DRAWN_OF:
        for config, points, _ in netlists(case):
            found |= candidates(detection.annotated(points[0].graph, config).rtlil)
        say(case)(f"{len(found)} mutants")
    groups = {(mutant.file, mutant.kind) for mutant in found}
    told = {"of": len(found), "groups": len(groups)}
    chosen = drawn(found, COUNT, SEED)
    return [
        {"number": n, **vars(mutant), "line": line_of(mutant.place), **told}
        for n, mutant in enumerate(chosen, 1)
    ]


def mutants() -> dict[Mutant, int]:
    """The stored ones."""
    if not (rows := stored(DRAW)):
        raise PenstockError(
            "no mutants have been drawn", "detection", remedy=f"run detection/{DRAW} first"
        )
    fields = ("place", "kind", "cell", "form")
    return {Mutant(*(row[name] for name in fields)): row["number"] for row in rows}


def stored(case: str) -> list[dict]:
    """The rows of a case; none where it has not been run."""
    return current(case).get("rows", [])


def current(case: str) -> dict:
    """What is stored of a case; empty where it has not been run, or
    with the mutants of another draw.
    """
    found = _entry(case)
    return found if drawing_of(found) == drawing_of(_entry(DRAW)) else {}


def _entry(case: str) -> dict:
    return next((e for e in RECORD.entries(case) if e["case"] == case), {})


def drawing_of(entry: dict) -> str:
    """The draw of which a case has its numbers; of older ones, the
    commit of all.
    """
    return entry.get("drawing") or entry.get("commit", "")


def before(case: str) -> Iterable[str]:
    """The cases whose finds count for a case's own kind, and ran before
    it.
    """
    alike = list(FUZZED if case in FUZZED else DESIGNS)
    return alike[: alike.index(case)]


def run(case: str) -> dict:
    """The draw; or the mutants that are in a case's netlists, and which
    of them it finds.
    """
    if case == DRAW:
        mine = draw()
        return {"drawing": digest(json.dumps(mine)), "rows": mine}
    done = {row["number"] for earlier in before(case) for row in stored(earlier) if row["found"]}
    rows: dict[int, dict] = {}
    for made in netlists(case):
        rows |= tried(case, made, done)
        done |= {n for n, row in rows.items() if row["found"]}
    drawing = drawing_of(_entry(DRAW))
    return {"drawing": drawing, "rows": [rows[n] for n in sorted(rows)]}


def tried(case: str, made: Netlist, done: set[int]) -> dict[int, dict]:
    """A row for each mutant of a netlist that is not done."""
    config, points, names = made
    numbers = mutants()
    source = detection.annotated(points[0].graph, config)
    here = {m: numbers[m] for m in numbers.keys() & candidates(source.rtlil)}
    left = {m: n for m, n in here.items() if n not in done}
    rows = {n: {"number": n, "found": False} for n in left.values()}
    if not left:
        return rows
    cases = [
        Case(name, point, modelled(point, config))
        for name, point in zip(names, points, strict=True)
    ]
    found = detection.found(detection.netlist(source, left), cases, config, sorted(rows), say(case))
    for n, how in found.items():
        rows[n] |= {"found": True, **vars(how)}
    return rows


def say(case: str):
    """Prints where a case is."""
    return lambda line: print(f"  {case}: {line}", flush=True)


def modelled(point: Stimulus, config: Config):
    return model.run(
        point.graph, config, point.tensors, trace=True, sources=point.sources, sinks=point.sinks
    )


def sources(case: str):
    """Of the draw: all; of a case: its programs."""
    fuzz = ("fuzz/*.py",) if case not in DESIGNS else ()
    shared = ("bench/made/detection.py", "tb/mutants.py", "tb/detection.py", "runs/regress.py")
    return on_rtl(*shared, "workloads/*.py", f"sim_configs/{PRESET}.toml", *fuzz)


RECORD = Record("detection", cases=lambda: [DRAW, *DESIGNS, *FUZZED], run=run, sources=sources)
