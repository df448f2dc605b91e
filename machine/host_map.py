"""Host map of a design on a board: one map of addresses, from which hardware, C header, page and
host program take theirs.

Addresses count bytes. A word has 32 bits and lies at a multiple of 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from .faults import Fault
from .limits import REGISTER_BITS, UNIT_BITS

WORD_BYTES = 4
REGISTERS_BITS = 22
"""Bits of an address, in bytes, of registers, counters and configuration together."""
STREAM_BITS = 16
"""Bits of an address, in bytes, within the memory of a stream; its last word has the number of
beats.
"""
DELIVERY_BITS = 18
"""Bits of an address, in bytes, within each of the two records of deliveries, which are like
memories of streams.
"""
MAP_ID = 0x50534B31
"""What register ``ID`` holds: "PSK", and the version of this map."""


@dataclass(frozen=True)
class Field:
    """Bits of a register, from ``low`` on."""

    name: str
    low: int
    bits: int
    meaning: str

    def of(self, word: int) -> int:
        """The field's value in a word of the register."""
        return word >> self.low & (1 << self.bits) - 1


@dataclass(frozen=True)
class HostRegister:
    """A word: ``access`` is ``ro`` or ``rw``."""

    name: str
    address: int
    access: str
    meaning: str
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Window:
    """Words from ``base`` on, ``bits`` bits of address in bytes."""

    name: str
    base: int
    bits: int
    access: str
    meaning: str

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.base + (1 << self.bits)


REGISTERS = (
    HostRegister("ID", 0x00, "ro", f"{MAP_ID:#x}: a design with this map"),
    HostRegister("DESIGN", 0x04, "ro", "digest of the design"),
    HostRegister("SESSION", 0x08, "rw", "the host's; 0 after a reset of the board"),
    HostRegister(
        "CONTROL",
        0x0C,
        "rw",
        "what the design does",
        (Field("run", 0, 1, "0: it is held in reset; 1: it runs, from cycle 0"),),
    ),
    HostRegister(
        "STATUS",
        0x10,
        "ro",
        "how a run stands",
        (
            Field("done", 0, 1, "it has ended"),
            Field("running", 1, 1, "it has begun and not ended"),
            Field("error", 8, 8, "the faults of the design, a bit each"),
        ),
    ),
    HostRegister("CYCLES", 0x14, "ro", "of the run that has ended; 0 while the design is held"),
    HostRegister("MEMORY_BYTES", 0x18, "ro", "size of the memory"),
    HostRegister("STREAM_BEATS", 0x1C, "ro", "beats that the memory of each stream has room for"),
    HostRegister("RECORDED_LINES", 0x20, "ro", "lines that the record of deliveries has room for"),
)
"""In the order of their addresses."""

WINDOWS = (
    Window(
        "COUNTERS",
        0x100000,
        UNIT_BITS + 4,
        "ro",
        "word 4 * unit + k: busy, blocked, starved, peak pages",
    ),
    Window(
        "CONFIGURATION",
        0x180000,
        REGISTER_BITS + 2,
        "wo",
        "run-time registers, by number; while the design is held",
    ),
    Window(
        "STREAMS",
        0x400000,
        22,
        "rw",
        "memories of the streams from and to outside; while the design is held",
    ),
    Window(
        "IMAGE",
        0x800000,
        22,
        "wo",
        "words of an overlay's port `load`, in parts of 32 bits; the last part loads",
    ),
    Window(
        "DELIVERIES",
        0xC00000,
        DELIVERY_BITS + 1,
        "ro",
        "lines of the last run: cycle and address of each request, odd for a write; then cycle of "
        "each answer",
    ),
    Window("VALUES", 0x40000000, 30, "ro", "values of an overlay, by PE and address"),
    Window("MEMORY", 0x80000000, 31, "rw", "the memory of the tensors; while the design is held"),
)
"""In the order of their addresses."""


def register(name: str) -> HostRegister:
    """The register of a name."""
    return next(r for r in REGISTERS if r.name == name)


def window(name: str) -> Window:
    """The window of a name."""
    return next(w for w in WINDOWS if w.name == name)


def field(name: str, part: str) -> Field:
    """A field of a register."""
    return next(f for f in register(name).fields if f.name == part)


def c_header() -> str:
    """The map as macros of C."""
    lines = [
        "/* What a host sees of a Penstock design: docs/board.md. Addresses count bytes. */",
        "#ifndef PENSTOCK_HOST_H",
        "#define PENSTOCK_HOST_H",
        "",
        f"#define PENSTOCK_MAP_ID {MAP_ID:#010x}u",
        "",
    ]
    for r in REGISTERS:
        lines.append(f"#define PENSTOCK_{r.name} {r.address:#010x}u /* {r.access}: {r.meaning} */")
        for f in r.fields:
            name = f"PENSTOCK_{r.name}_{f.name.upper()}"
            mask = (1 << f.bits) - 1 << f.low
            lines.append(f"#define {name}_MASK {mask:#010x}u /* {f.meaning} */")
            lines.append(f"#define {name}_SHIFT {f.low}")
    lines += ["", "/* Faults of a fabric: the bits of STATUS's field `error`, once shifted. */"]
    for fault in Fault:
        if fault < field("STATUS", "error").bits:
            bit = f"{1 << fault:#010x}u"
            lines.append(f"#define PENSTOCK_FAULT_{fault.name} {bit} /* {fault.what} */")
    lines.append("")
    for w in WINDOWS:
        lines.append(
            f"#define PENSTOCK_{w.name}_BASE {w.base:#010x}u /* {w.access}: {w.meaning} */"
        )
        lines.append(f"#define PENSTOCK_{w.name}_SIZE {1 << w.bits:#010x}u")
    return "\n".join([*lines, "", "#endif", ""])
