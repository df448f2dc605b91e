"""Clock rates of units on Lattice ECP5, placed and routed between
registers: with short pipelines and with deep ones.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from penstock.frontend import build, lower
from penstock.hw.fabric import Fabric
from penstock.hw.nextpnr import SPEEDS, rates
from penstock.hw.parts import Part, parts
from penstock.hw.synthesis import look_at_parts
from penstock.machine.config import PIPELINES, load
from records import UNITS as COMPONENTS
from records import Record, Sources, preset

MACHINE = "small_board"
LEAN = "lean_fpga"
SEEDS = (1,)
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
    ("attention", "interleaved"): ("map add", "map sub", "row_reduce max", "accum max"),
}
"""Program and what it is told -> the kinds of unit that it has, the name
of the unit behind some; on `LEAN`.
"""


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
        Whose unit it is.
    speed
        Grade of the part.
    part
        Of `operators`, or of `attention` how it is parallel.

    """

    name: str
    machine: str = MACHINE
    pipelines: str = PIPELINES[0]
    program: str = PROGRAM
    speed: str = SLOW
    part: str = ""

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
    fast = {
        f"{title}, grade {FAST}": replace(case, speed=FAST)
        for title, case in found.items()
        if case.pipelines == deep
    }
    moe = Case(FABRIC, LEAN, deep, "simple_moe")
    kinds = {
        f"{name}, {program} on {LEAN}": Case(name, LEAN, deep, program, part=part)
        for (program, part), names in KINDS.items()
        for name in names
    }
    return found | fast | {"fabric of simple_moe, lean": moe} | kinds


CASES = _cases()


def run(case: str) -> dict:
    """One unit of the program, or its whole fabric, placed and routed."""
    look_at_parts()
    asked = CASES[case]
    config = load(asked.machine)
    config = replace(config, machine=replace(config.machine, pipelines=asked.pipelines))
    graph = lower(build(asked.program, asked.params, config).graph, config)

    def make():
        fabric = Fabric(graph, config)
        if asked.name == FABRIC:
            return fabric
        return next(part for part in parts(fabric) if _called(part, asked.name)).make()

    return {"rows": [asdict(asked) | rates(make, seeds=SEEDS, speed=asked.speed)]}


def sources(case: str) -> Sources:
    """The units, and the program that they are of."""
    roots = ("bench/made/clocks.py", "hw/nextpnr.py", *COMPONENTS)
    more = (f"workloads/{CASES[case].program}.py", preset(CASES[case].machine))
    return Sources((*roots, *more), ("tb", "cli", "runs", "model"))


def _called(part: Part, name: str) -> bool:
    """Whether a part, or a unit of it, has a name."""
    return name == part.name or name in (f"{part.name} {unit}" for unit in part.units)


RECORD = Record("clocks", cases=lambda: CASES, run=run, sources=sources)
