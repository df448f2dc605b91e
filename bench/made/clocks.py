"""Clock rates of units on Lattice ECP5, placed and routed between
registers: with short pipelines and with deep ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from amaranth.lib import wiring
from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.synthesis import look_at_parts
from penstock.machine.config import PIPELINES, Config, load
from records import UNITS as COMPONENTS
from records import Record, Sources, preset
from routed import routed
from units import ALONE, part_of

MACHINE = "small_board"
LEAN = "lean_fpga"
SEEDS = (1,)
FABRIC_SEEDS = (1, 2)
"""Of a fabric, whose fastest placement counts: a bitstream has one. That
of a unit is one of many, and the slowest counts.
"""
SLOW, FAST = SPEEDS[0], SPEEDS[-1]
ARITHMETIC = ("map mul", "accum add", "matmul", "map silu")
OTHERS = ("channel of 2", "broadcast", "scratchpad", "store", "load")
"""Units without arithmetic: they have one form."""
FABRIC = "fabric"
PROGRAM = "swiglu"
ROUTED = ("store", "load", FABRIC)
"""Of `PROGRAM` on `LEAN`, at `SLOW` and at `FAST`."""
ATTENTION = {"most": 8}
"""A cache that `LEAN` counts."""
SOFTMAX = {"dynamic": "published", "interleaved": "online"}
KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("swiglu", ""): (
        *("map mul", "map silu", "map cast_bf16", "matmul", "accum add", "scratchpad"),
        *("broadcast", "repeat", "reshape", "interconnect"),
    ),
    ("simple_moe", ""): (
        *("flatten", "partition", "reassemble", "row_pack", "row_unpack", "signal"),
        "scratchpad columns0.bands",
    ),
    ("operators", "routing"): (
        *("promote", "eager_merge", "zip", "row_reduce add", "map exp", "map cast_fp32"),
    ),
    ("operators", "memory"): (
        *("address", "generate address", "generate expert", "generate last"),
        *("row_append", "row_offset", "random_store", "load RandomOffChipLoad"),
        "scratchpad Bufferize_1",
    ),
    ("attention", "dynamic"): ("map div",),
    ("attention", "interleaved"): (
        *("map add", "map sub", "row_reduce max", "accum max", "source", "sink"),
    ),
}
"""Program and what it is told -> the kinds of unit that it has, the name
of the unit behind some; on `LEAN`.
"""
DEALT = ("split", "merge")
"""Units of `PROGRAM` where it has `DEAL` of a kind."""
DEAL = 2


@dataclass(frozen=True)
class Case:
    """What is placed and routed: a unit of a program, or its fabric.

    Attributes
    ----------
    name
        Of the unit as :func:`~penstock.hw.parts.parts` has it, with the
        name of one behind it where it is not the first; or `FABRIC`.
    machine, pipelines
        A preset, and the pipelines that it has in place of its own.
    program
        Whose unit it is; empty for a unit that is made by itself.
    speed
        Grade of the part.
    part
        Of `operators`, or of `attention` how it is parallel.
    units
        Products, and maps, that the program has in place of one.
    bare
        Whether the machine has no counters and no run-time registers.

    """

    name: str
    machine: str = MACHINE
    pipelines: str = PIPELINES[0]
    program: str = PROGRAM
    speed: str = SLOW
    part: str = ""
    units: int = 1
    bare: bool = False

    @property
    def config(self) -> Config:
        """The machine."""
        config = load(self.machine)
        machine = replace(config.machine, pipelines=self.pipelines)
        if self.units > 1:
            machine = replace(machine, units=dict.fromkeys(("matmul", "map"), self.units))
        if self.bare:
            machine = replace(machine, counters=False, registers=False)
        return replace(config, machine=machine)

    @property
    def params(self) -> dict[str, object]:
        """Of the program."""
        if self.program == "attention":
            return {**ATTENTION, "parallel": self.part, "softmax": SOFTMAX[self.part]}
        return {"part": self.part} if self.part else {}


def _cases() -> dict[str, Case]:
    deep = PIPELINES[1]
    found = {f"{name}, {how}": Case(name, MACHINE, how) for name in ARITHMETIC for how in PIPELINES}
    found |= {name: Case(name) for name in OTHERS}
    found |= {f"{name}, lean": Case(name, LEAN, deep) for name in ROUTED}
    kinds = {
        f"{name}, {program} on {LEAN}": Case(name, LEAN, deep, program, part=part)
        for (program, part), names in KINDS.items()
        for name in names
    }
    kinds |= {
        f"{name}, {PROGRAM} x{DEAL} on {LEAN}": Case(name, LEAN, deep, units=DEAL) for name in DEALT
    }
    kinds |= {f"{name} on {LEAN}": Case(name, LEAN, deep, "") for name in ALONE}
    fast = {
        f"{title}, grade {FAST}": replace(case, speed=FAST)
        for title, case in (found | kinds).items()
        if case.pipelines == deep
    }
    bare = {
        f"{FABRIC}, lean, bare{told}": Case(FABRIC, LEAN, deep, speed=speed, bare=True)
        for told, speed in (("", SLOW), (f", grade {FAST}", FAST))
    }
    return found | kinds | fast | bare


CASES = _cases()


def run(case: str) -> dict:
    """One unit of the program, or its whole fabric, placed and routed."""
    look_at_parts()
    asked = CASES[case]
    found = fastest(asked) if asked.name == FABRIC else placed(asked, SEEDS)
    return routed([asdict(asked) | found])


def placed(asked: Case, seeds: tuple[int, ...]) -> dict:
    """What :func:`~penstock.hw.nextpnr.rates` says of it."""
    return rates(lambda: made(asked), seeds=seeds, speed=asked.speed)


def fastest(asked: Case) -> dict:
    """The fastest of a fabric's placements, with the rates of all."""
    together = placed(asked, FABRIC_SEEDS)
    apart = [placed(asked, (seed,)) for seed in FABRIC_SEEDS]  # from the cache
    return max(apart, key=lambda row: row["mhz"]) | {"seeds": together["seeds"]}


def made(asked: Case) -> wiring.Component:
    """A unit, or the fabric of a program."""
    config = asked.config
    if not asked.program:
        return ALONE[asked.name](config.machine)
    graph = lower(build(asked.program, asked.params, config).graph, config)
    fabric = Fabric(graph, config)
    return fabric if asked.name == FABRIC else part_of(fabric, asked.name)


def sources(case: str) -> Sources:
    """The units, and the program that they are of."""
    roots = ("bench/made/clocks.py", "hw/nextpnr.py", *COMPONENTS)
    asked = CASES[case]
    without = ("tb", "cli", "runs", "model")
    if not asked.program:
        return Sources((*roots, preset(asked.machine)), (*without, "frontend", "workloads"))
    program = f"workloads/{asked.program}.py"
    return Sources((*roots, program, preset(asked.machine)), without)


RECORD = Record("clocks", cases=lambda: CASES, run=run, sources=sources)
