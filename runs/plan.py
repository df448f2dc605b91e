"""A sweep as a file: program, machine, and the points as a grid, a list or a random sample."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..frontend import build
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError, nearest
from ..machine.limits import SEEDS, within
from ..machine.record import Record
from ..system.reading import check_fields, is_list, is_table, read_text

MOST_POINTS = range(1, 10**6 + 1)
KNOWN = ("program", "config", "seeds", "objectives", "fixed", "grid", "points", "sample", "run")
RUN = ("on", "on_array", "timing", "values", "onchip_rule", "tolerance")
SAMPLE = ("count", "seed", "from")


@dataclass(frozen=True)
class Plan:
    """A sweep."""

    # program, config: as of `penstock.run`
    program: str
    config: Config
    # points, seeds: the parameters and the seed of each run: every point at every seed
    points: list[dict]
    seeds: list[int]
    # fields of a record that are to be small; the Pareto front is of these
    objectives: tuple[str, ...] = ()
    # of :class:`~penstock.runs.options.Options`
    options: dict[str, Any] = field(default_factory=dict)


def grid_points(grid: Mapping[str, Any], fixed: dict | None = None) -> list[dict]:
    """Every combination of ``grid`` (name -> values), the last name fastest; each has ``fixed``."""
    return [
        dict(fixed or {}) | dict(zip(grid, p, strict=True))
        for p in itertools.product(*map(list, grid.values()))
    ]


def load(path: str | Path) -> Plan:
    """Read a sweep; program and machine are named from the file's own folder, or are known.

    Raises
    ------
    PenstockError
        What the file has wrong, and a parameter that the program has not, with the nearest.
    """
    where = str(path)
    try:
        data = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as e:
        raise PenstockError(f"not valid TOML: {e}", where) from None
    check_fields(data, KNOWN, where, ("program",))
    program = _beside(path, data["program"], ".py", "program", where)
    config = load_config(_beside(path, data.get("config", "fig8"), ".toml", "config", where))
    fixed = _table(data, "fixed", where)
    points = [fixed | one for one in _points(data, where)]
    within("the number of points", len(points), MOST_POINTS, where)
    seeds = data.get("seeds", [0])
    if not is_list(seeds) or not seeds:
        raise PenstockError("seeds must be a list of integers", where)
    for seed in seeds:
        within("seeds", seed, SEEDS, where)
    run = _table(data, "run", where)
    check_fields(run, RUN, f"{where}: run")
    for names in {tuple(sorted(one)) for one in points}:
        example = next(one for one in points if tuple(sorted(one)) == names)
        _known_parameters(program, example, config)
    return Plan(
        program,
        config,
        [one for one in points for _ in seeds],
        [seed for _ in points for seed in seeds],
        _objectives(data, where),
        run,
    )


def _beside(path: str | Path, name: Any, suffix: str, what: str, where: str) -> str:
    """A name as it is; a file by its place beside the sweep's."""
    if not isinstance(name, str):
        raise PenstockError(f"{what} must be a text, not {name!r}", where)
    return str(Path(path).parent / name) if name.endswith(suffix) else name


def _table(data: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = data.get(name, {})
    if not is_table(found):
        raise PenstockError(f"{name} must be a table, not {found!r}"[:120], where)
    return found


def _points(data: Mapping[str, Any], where: str) -> list[dict]:
    """The points that a file gives, in its one of three ways."""
    given = [name for name in ("grid", "points", "sample") if name in data]
    if len(given) > 1:
        raise PenstockError(
            f"has {given[0]} and {given[1]}", where, remedy="give a grid, points, or a sample"
        )
    if "points" in data:
        if not is_list(data["points"]) or not all(map(is_table, data["points"])):
            raise PenstockError("points must be a list of tables", where)
        return data["points"]
    if "sample" in data:
        return _sample(_table(data, "sample", where), f"{where}: sample")
    grid = _table(data, "grid", where)
    for name, values in grid.items():
        if not is_list(values) or not values:
            raise PenstockError(f"{name} must be a list of values", f"{where}: grid")
    return grid_points(grid)


def _sample(sample: dict[str, Any], where: str) -> list[dict]:
    """Distinct points of a grid, drawn by its seed: all of it where it has no more."""
    check_fields(sample, SAMPLE, where, ("count", "from"))
    count = within("count", sample["count"], MOST_POINTS, where)
    ranges = {
        name: _values(spec, f"{where}.from.{name}")
        for name, spec in _table(sample, "from", where).items()
    }
    sizes = [len(values) for values in ranges.values()]
    whole = int(np.prod(sizes, dtype=object)) if sizes else 1
    rng = np.random.default_rng(within("seed", sample.get("seed", 0), SEEDS, where))
    drawn: dict[int, None] = {}
    while len(drawn) < min(count, whole):
        drawn.setdefault(int(rng.integers(min(whole, SEEDS.stop**2))))
    return [_at(ranges, number) for number in drawn]


def _at(ranges: dict[str, Any], number: int) -> dict:
    """A point of a grid by its number."""
    point = {}
    for name, values in ranges.items():
        number, at = divmod(number, len(values))
        point[name] = values[at]
    return point


def _values(spec: Any, where: str) -> Any:
    """A list of values, or the integers from a first to a last one."""
    if is_list(spec) and spec:
        return spec
    if not is_table(spec):
        raise PenstockError("must be a list, or a table of first, last and step", where)
    check_fields(spec, ("first", "last", "step"), where, ("first", "last"))
    numbers = [spec["first"], spec["last"], spec.get("step", 1)]
    if not all(type(n) is int for n in numbers) or numbers[2] < 1 or numbers[0] > numbers[1]:
        raise PenstockError("first <= last and step >= 1 must be integers", where)
    return range(numbers[0], numbers[1] + 1, numbers[2])


def _objectives(data: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Numbers of a record."""
    given = data.get("objectives", [])
    if not is_list(given):
        raise PenstockError("objectives must be a list of fields of a record", where)
    return check_numbers(given, where)


def check_numbers(names: list[str], where: str | None = None) -> tuple[str, ...]:
    """Names of a record's numbers; for another a PenstockError with the nearest."""
    numbers = [n for n, f in Record.__dataclass_fields__.items() if _is_number(str(f.type))]
    for name in names:
        if name not in numbers:
            raise PenstockError(
                f"no number {name!r} in a record", where, remedy=nearest(name, numbers, "one of")
            )
    return tuple(names)


def _is_number(annotation: str) -> bool:
    return annotation.partition(" ")[0] in ("int", "float")


def _known_parameters(program: str, params: dict, config: Config) -> None:
    """Raise a program's error for unknown parameters; sizes are checked at each point."""
    try:
        build(program, params, config)
    except PenstockError as e:
        if "parameter" in e.what or "no program" in e.what or "no such file" in e.what:
            raise
