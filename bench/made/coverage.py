"""Which branches and statements of ``hw/`` regression and fuzzer reach:
`nox -s records -- coverage`.

Designs and programs are those of `bench/made/detection.py`, at t = 2;
the two designs that have no form with it are run as they are, and one
array beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.machine.errors import RunError
from penstock.runs import array as arrays
from penstock.runs import array_rtl, regress
from penstock.system.sources import PACKAGE
from penstock.tb import api, check, coverage
from penstock.tb.coverage import Reached
from records import Record, Sources, on_rtl, preset

from made import detection
from made.detection import Netlist, modelled, of_design, of_programs
from made.reached import rows_of

FUZZED = f"fuzz {detection.PROGRAMS}"
AS_IT_IS = {
    f"regress {d.name}": replace(d, seeds=1) for d in regress.DESIGNS if d.name in detection.REFUSED
}
TOTAL = "sources"
"""The case that says what there is."""
ARRAYS: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {"array_tiny": (("swiglu", {}),)}
"""Array -> programs that run on it, and their parameters."""
REGRESSION = (*detection.DESIGNS, *AS_IT_IS, *ARRAYS)
CASES = (TOTAL, *REGRESSION, FUZZED)


def netlists(case: str) -> Iterator[Netlist]:
    """Of a design, or of fuzzed programs."""
    if case == FUZZED:
        yield from of_programs(detection.FUZZ_SEED)
    elif case in AS_IT_IS:
        yield from of_design(AS_IT_IS[case], AS_IT_IS[case].machine())
    else:
        yield from of_design(detection.DESIGNS[case])


def total() -> list[dict]:
    """What there is to reach, a row for each file."""
    found = Reached()
    for path in sorted((PACKAGE / "hw").rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        own = coverage.branches_of(path.read_text(encoding="utf-8"))
        found.there |= {f"{file}:{way}" for way in own.ways}
        found.statements |= {f"{file}:{line}" for line in own.statements}
    return rows_of(found)


def run(case: str) -> dict:
    """What a case reaches, a row for each file."""
    if case == TOTAL:
        return {"rows": total()}
    if case in ARRAYS:
        return {"rows": rows_of(on_array(case))}
    found = Reached()
    for config, points, names in netlists(case):
        design = coverage.design(points[0].graph, config)
        runs = api.simulate(design, points, config)
        for name, point, ran in zip(names, points, runs, strict=True):
            if not check.compare(modelled(point, config), ran, point.graph).ok:
                raise RunError("RTL and model differ", name)
        found.add(design.reached())
        print(f"  {case}: {len(found.entered)} of {len(found.there)} branches", flush=True)
    return {"rows": rows_of(found)}


def on_array(name: str) -> Reached:
    """What the programs of an array reach."""
    points = [arrays.place(program, name, params).on_array() for program, params in ARRAYS[name]]
    config = points[0].config
    design = coverage.array(config)
    for point, ran in zip(
        points, api.simulate(design, [p.stimulus() for p in points], config), strict=True
    ):
        array_rtl.compared(point, ran, values=False)
    return design.reached()


def sources(case: str):
    """Those of a design's programs, or of the fuzzer."""
    if case == TOTAL:
        return Sources(("hw/**/*.py", "bench/made/coverage.py", "tb/coverage.py"))
    fuzz = ("fuzz/*.py",) if case == FUZZED else ()
    shared = ("bench/made/coverage.py", "bench/made/detection.py", "tb/coverage.py")
    rooms = ("hw/covers.py", "runs/regress.py", "workloads/*.py")
    machine = preset(case if case in ARRAYS else detection.PRESET)
    return on_rtl(*shared, *rooms, machine, *fuzz)


RECORD = Record("coverage", cases=lambda: list(CASES), run=run, sources=sources)
