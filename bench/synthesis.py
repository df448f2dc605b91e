"""Synthesises units, memory sides and fabrics for docs/synthesis.md, on Lattice ECP5.

    python bench/synthesis.py [--only TEXT] [--json OUT]

`--json docs/results/synthesis.json` stores the record that the page shows, after every part; the
rows of parts that are not synthesised stay as they are. What was synthesised before comes from the
cache. From an empty cache it takes an hour or two.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from clock import now
from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.ring import Ring
from penstock.hw.parts import parts
from penstock.hw.synthesis import synthesise
from penstock.hw.yosys import VERSION
from penstock.machine.config import Config, Dram, load
from penstock.machine.errors import PenstockError
from penstock.runs import regress
from penstock.runs.provenance import commit, versions
from penstock.system.output import writable, write_text

FAMILY = "ecp5"
REPORTED = ("LUT4", "CCU2C", "TRELLIS_DPR16X4")
"""Cells that a row has besides the cost: what its LUTs are."""
EDGES = (2, 4)
RESPONSES = (1, 2, 4, 8)
RINGS = ((64, 1, 1), (64, 4, 8), (512, 4, 1), (512, 4, 8))
"""Groups, lanes and lines of a cycle: `small_fpga`, `paper_hdl`, and 2,048 lines with one and with
eight channels.
"""
LARGE = ("matmul", "load", "store", "random_store", "swiglu")
"""Synthesised last: minutes each."""
SMALLEST = "swiglu small_fpga"
PROGRAMS = ("operators", "simple_moe", "moe", "attention")
"""Designs of `penstock regress` from which units are taken: the first that has a kind stands for
it.
"""


@dataclass(frozen=True)
class Part:
    """One thing to synthesise.

    Attributes
    ----------
    group, name
        ``unit``, ``memory`` or ``fabric``; what it is.
    t
        Edge of a tile, where it matters.
    of
        The design that it is taken from, or its sizes.
    make
        The component.
    memories
        Whether its memories alone are mapped, not its logic.

    """

    group: str
    name: str
    t: int | None
    of: str
    make: Callable
    memories: bool = False

    @property
    def key(self) -> tuple:
        return self.group, self.name, self.t, self.of


def machine(t: int) -> Config:
    """`small_fpga` with tiles of t x t."""
    config = load("small_fpga")
    lanes = {name: min(n, t * t) for name, n in config.machine.lanes.items()}
    return replace(config, machine=replace(config.machine, t=t, rows_per_cycle=t, lanes=lanes))


def fabric(design: regress.Design, t: int) -> Fabric:
    config = machine(t)
    config = replace(config, machine=replace(config.machine, **design.fields))
    return Fabric(lower(build(design.program, design.points[0], config).graph, config), config)


def units() -> Iterator[Part]:
    """Every kind, and every function of those that have one, at each t: as the first design has
    it.
    """
    chosen = [d for d in regress.DESIGNS if d.name in (SMALLEST, f"{SMALLEST} x2")]
    chosen += [d for d in regress.DESIGNS if d.program in PROGRAMS and not d.deep]
    for t in EDGES:
        seen = {"source", "sink", "interconnect"}
        for design in chosen:
            for part in found(design, t):
                if part.name not in seen and not part.name.startswith("channel"):
                    seen.add(part.name)
                    yield Part("unit", part.name, t, design.name, part.make)


def found(design: regress.Design, t: int) -> list:
    """Parts of a design; none where it does not lower at this t."""
    try:
        return parts(fabric(design, t))
    except PenstockError:
        return []


def memories() -> Iterator[Part]:
    """Interconnects of a load and a store by lines of a cycle, and rings."""
    base = replace(load("small_fpga").machine, port_lanes=2, load_lines=128)
    for n in RESPONSES:
        config = replace(base, dram=Dram(kind="pipe", channels=n))
        yield Part(
            "memory",
            "interconnect of a load and a store",
            None,
            f"2 lanes, 64 groups, {n} channels",
            lambda c=config: Interconnect(ports=["read", "write"], config=c),
        )
    for groups, lanes, n in RINGS:
        yield Part(
            "memory",
            "ring of a load",
            None,
            f"{lanes} lanes, {groups} groups, {n} channels",
            lambda g=groups, w=lanes, n=n: Ring(groups=g, lanes=w, responses=n),
            memories=True,
        )


def fabrics() -> Iterator[Part]:
    (design,) = [d for d in regress.DESIGNS if d.name == SMALLEST]
    for t in EDGES:
        yield Part("fabric", "swiglu", t, design.name, lambda t=t: fabric(design, t))


def row(part: Part) -> dict:
    """The record of one part."""
    done = synthesise(part.make(), FAMILY, memories=part.memories)
    cells = {name: done.cells.get(name, 0) for name in REPORTED}
    if part.memories:
        cost = {"lut_ram": 4 * cells["TRELLIS_DPR16X4"], "bram": done.cells.get("DP16KD", 0)}
    else:
        cost = {**vars(done.cost(FAMILY)), "cells": cells}
    about = {"group": part.group, "name": part.name, "t": part.t, "of": part.of}
    return about | cost | {"digest": done.digest, "commit": commit()}


def key_of(row: dict) -> tuple:
    return row["group"], row["name"], row["t"], row["of"]


def save(path: Path, rows: dict[tuple, dict]) -> None:
    """Write the record, its rows in the order of the parts."""
    order = [part.key for part in every()]
    record = {
        "family": FAMILY,
        "yosys": VERSION,
        "versions": versions(),
        "parts": [rows[key] for key in order if key in rows],
    }
    write_text(path, json.dumps(record, indent=1) + "\n")


@functools.cache
def every() -> list[Part]:
    return [*memories(), *units(), *fabrics()]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--only", default="", help="parts whose group, name or t contain this")
    p.add_argument("--json", type=Path, metavar="OUT", help="write the record")
    args = p.parse_args()
    rows = {}
    if args.json:
        writable(args.json)
        if args.json.exists():
            old = json.loads(args.json.read_text(encoding="utf-8"))
            rows = {key_of(r): r for r in old["parts"]}
    last = [part for part in every() if part.name in LARGE]
    for part in [*(part for part in every() if part.name not in LARGE), *last]:
        if args.only not in f"{part.group} {part.name} t={part.t}":
            continue
        since = now()
        rows[part.key] = row(part)
        print(f"{now()[0] - since[0]:.0f} s: {rows[part.key]}", file=sys.stderr, flush=True)
        if args.json:
            save(args.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
