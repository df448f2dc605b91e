"""The memories of exported Verilog: their bits, counted from its text."""

import re
from collections import Counter
from dataclasses import dataclass

from ...machine.kinds.uses import ACCUMULATORS, BANDS, CHANNELS, KEPT, QUEUES, RINGS, TILES, USES

MODULE = re.compile(r"^module (\S+?)\s*\(.*?^endmodule", re.M | re.S)
MEMORY = re.compile(r"^  reg +(?:\[(\d+):0\] )?(\S+) \[(\d+):0\];", re.M)
INSTANCE = re.compile(r"^  (\\?[A-Za-z_][\w.\\$]*) +(\\?[\w.$\\]+) +\($", re.M)


@dataclass(frozen=True)
class MemoryBits:
    """A memory of a design."""

    # module, name: where it is declared, and its name there
    module: str
    name: str
    # width, depth: bits of a word, and words
    width: int
    depth: int
    count: int  # how often its module is in the design

    @property
    def bits(self) -> int:
        """Sum of the bits of all memories."""
        return self.width * self.depth * self.count


def memories(verilog: str, top: str) -> list[MemoryBits]:
    """All memories below a module."""
    bodies = {found[1]: found[0] for found in MODULE.finditer(verilog)}
    counts: Counter[str] = Counter()

    def walk(module: str, times: int) -> None:
        counts[module] += times
        inside = Counter(
            found[1] for found in INSTANCE.finditer(bodies[module]) if found[1] in bodies
        )
        for name, n in inside.items():
            walk(name, times * n)

    walk(top, 1)
    return [
        MemoryBits(module, found[2], int(found[1] or 0) + 1, int(found[3]) + 1, count)
        for module, count in counts.items()
        for found in MEMORY.finditer(bodies[module])
    ]


CLASSES = (*USES, "others")
"""Uses of memories; others are tables of functions."""
OF_KINDS = {
    "accum": ACCUMULATORS,
    "row_pack": ACCUMULATORS,
    "row_unpack": ACCUMULATORS,
    "ring": RINGS,
    "load": BANDS,
    "random_load": BANDS,
    "random_store": BANDS,
    "store": BANDS,
    "fifo": CHANNELS,
}


def class_of(memory: MemoryBits, kinds: dict[str, str]) -> str:
    """Purpose of a memory; ``kinds``: of modules, as the sidecar has it."""
    path = memory.module.removeprefix("\\").split(".")
    kind = kinds.get(path[0], "")
    if path[-1] == "queue":
        return QUEUES
    if kind == "scratchpad":
        whole = len(path) == 1 and memory.name == "memory"
        return TILES if whole else KEPT
    return OF_KINDS.get(kind, "others")


def by_class(verilog: str, sidecar: dict) -> dict[str, int]:
    """Bits of an export's memories by what they are for."""
    kinds = {m["name"]: m["kind"] for m in sidecar["modules"]}
    kinds.setdefault(sidecar["top"], "")
    found = dict.fromkeys(CLASSES, 0)
    for memory in memories(verilog, sidecar["top"]):
        found[class_of(memory, kinds)] += memory.bits
    return found
