"""Which of many small faults of the RTL regression and fuzzer find, at t = 2: `nox -s detection`.

The mutants are drawn once, of the designs `DRAWN_OF`. Then each design of the regression runs those
that no design before it found, and so do the fuzzed programs: what either finds is told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock import model
from penstock.fuzz.campaign import Campaign, batches, rounds_of, side_by_side
from penstock.machine.config import Config, check
from penstock.machine.errors import PenstockError
from penstock.machine.stimulus import Point as Stimulus
from penstock.runs import regress
from penstock.runs.point import Point
from penstock.tb import detection
from penstock.tb.detection import Case
from penstock.tb.mutants import Mutant, candidates, drawn
from records import Record, on_rtl

EDGE = 2
COUNT = 240
SEED = 20261122
FUZZ_SEED = 1
PROGRAMS = (64, 512)
PRESET = "small_fpga"
DESIGNS = {f"regress {d.name}": d for d in regress.DESIGNS if d.config == PRESET and not d.deep}
DRAWN_OF = [
    f"regress {name}"
    for name in (
        "operators routing",
        "operators memory",
        "operators compute",
        "attention dynamic",
        "swiglu small_fpga",
    )
]
"""Designs that have all operators, the widest merges, and several tile sizes."""
FUZZED = {f"fuzz {count}": count for count in PROGRAMS}
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


def of_design(design: regress.Design) -> Iterator[Netlist]:
    """The points of a design; points of one structure are one netlist."""
    config = machine(design)
    found: dict[str, tuple[list[Stimulus], list[str]]] = {}
    for params in design.points:
        for seed in range(design.seeds):
            point = Point(design.program, config, params, seed=seed)
            points, names = found.setdefault(str(point.graph.structure().to_dict()), ([], []))
            points.append(point.stimulus())
            names.append(f"{point.label} seed={seed}")
    for points, names in found.values():
        yield config, points, names


def of_programs(count: int) -> Iterator[Netlist]:
    """Fuzzed programs, side by side."""
    for number, (config, structures) in enumerate(batches(Campaign(), count, FUZZ_SEED, edge=EDGE)):
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
        print(f"{case}: {len(found)} mutants to draw from", flush=True)
    groups = {(mutant.file, mutant.kind) for mutant in found}
    return [
        {"number": number, **vars(mutant), "of": len(found), "groups": len(groups)}
        for number, mutant in enumerate(drawn(found, COUNT, SEED), 1)
    ]


def mutants() -> dict[Mutant, int]:
    """The stored ones."""
    if not (rows := stored(DRAW)):
        raise PenstockError(
            "no mutants have been drawn", "detection", remedy=f"run detection/{DRAW} first"
        )
    return {Mutant(r["place"], r["kind"], r["cell"], r["form"]): r["number"] for r in rows}


def stored(case: str) -> list[dict]:
    """The rows of a case; none where it has not been run."""
    return next((e["rows"] for e in RECORD.entries(case) if e["case"] == case), [])


def before(case: str) -> Iterable[str]:
    """The cases whose finds count for a case's own kind, and ran before it."""
    alike = list(FUZZED if case in FUZZED else DESIGNS)
    return alike[: alike.index(case)]


def run(case: str) -> dict:
    """The draw; or the mutants that are in a case's netlists, and which of them it finds."""
    if case == DRAW:
        return {"rows": draw()}
    numbers = mutants()
    done = {r["number"] for b in before(case) for r in stored(b) if r["found"]}
    rows: dict[int, dict] = {}
    for config, points, names in netlists(case):
        source = detection.annotated(points[0].graph, config)
        here = {m: numbers[m] for m in numbers.keys() & candidates(source.rtlil)}
        left = {m: n for m, n in here.items() if n not in done}
        for n in sorted(set(here.values()) & done):
            rows.setdefault(n, {"number": n, "found": False, "skipped": True})
        if not left:
            continue
        design = detection.netlist(source, left)
        cases = [Case(name, p, _modelled(p, config)) for name, p in zip(names, points, strict=True)]
        found = detection.found(design, cases, config, sorted(left.values()), say(case))
        for n in sorted(left.values()):
            rows[n] = {"number": n, "found": n in found} | (vars(found[n]) if n in found else {})
        done |= found.keys()
    return {"rows": [rows[n] for n in sorted(rows)]}


def say(case: str):
    """Prints where a case is."""
    return lambda line: print(f"  {case}: {line}", flush=True)


def _modelled(point: Stimulus, config: Config):
    return model.run(
        point.graph, config, point.tensors, trace=True, sources=point.sources, sinks=point.sinks
    )


def sources(case: str):
    """Of the draw: all; of a case: its programs."""
    fuzz = ("fuzz/*.py",) if case not in DESIGNS else ()
    shared = ("bench/made/detection.py", "tb/mutants.py", "tb/detection.py", "runs/regress.py")
    return on_rtl(*shared, "workloads/*.py", f"sim_configs/{PRESET}.toml", *fuzz)


RECORD = Record("detection", cases=lambda: [DRAW, *DESIGNS, *FUZZED], run=run, sources=sources)
