"""The token-dataflow overlay: its configuration, latencies, memories and word formats
(docs/overlay.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from ...machine.errors import ConfigError, nearest
from ...machine.limits import CHANNEL_DEPTHS, SIDES, WORDS, within
from .ops import OP_CLASS, Op, format_of

LEFT, RIGHT, ONLY, EITHER = range(4)
"""Slot of a token: first or second operand of a binary operation, the one of a unary operation or
first of a merge, second of a merge. Those from ONLY on trigger alone; the odd ones are second
operands.
"""

OP_BITS = 5
"""Width of an operation code (`core.ops.Op`); the static context's 0 is no operation."""

READY_WORD = 32
"""Ready bits per word of the `seed` memory."""

PIPELINED = {
    "fp32": {"add": 4, "mul": 3, "div": 6, "sqrt": 8, "exp": 5, "log": 6, "compare": 2},
    "fp64": {"add": 4, "mul": 3, "div": 15, "compare": 2},
}
"""Latency in cycles by format and class of operation of the pipelined ALU (the stages of
docs/arithmetic.md section 2; at least 2 each); the unit ALU has 1 throughout.
"""

DEEP = {
    "fp32": {"add": 7, "mul": 5, "div": 17, "sqrt": 15, "exp": 17, "log": 17, "compare": 3},
    "fp64": {"add": 7, "mul": 6, "div": 58, "compare": 3},
}
"""The same of the deep ALU, whose stages are shorter. The registered ALU is the deep one behind a
register of its operands: each has one more.
"""

WAITING = 16
"""Triggers that stage A holds with local = forward; S consumes while there is room for two more at
the start of the cycle.
"""

CHAINED = 8
"""Chained consumers that may wait in a bank: with so many, no token enters the bank."""

SPECIALISED = {
    "add": "add",
    "compare": "add",
    "switch": "add",
    "mul": "mul",
    "div": "div",
    "sqrt": "div",
    "exp": "exp",
    "log": "exp",
}
"""Class of operation -> kind of specialised PE that does it."""

CHOICES = {
    "pe": ("dynamic", "static", "hybrid"),
    "network": ("mesh", "hoplite"),
    "local": ("token", "forward"),
    "alu": ("unit", "pipelined", "deep", "registered"),
    "format": ("fp32", "fp64"),
    "kinds": ("homogeneous", "specialised"),
}

FOREIGN = {
    "dynamic": (),
    "static": ("network", "local", "fifo_depth"),
    "hybrid": ("network", "local"),
}
"""Fields that do not matter to a kind of PE."""


@dataclass(frozen=True)
class Overlay:
    """One overlay (fields and meaning: docs/overlay.md section 1).

    Raises ConfigError naming the field and the constraint. ``memories`` maps names of memories to
    fixed depths in words (those not named are sized per graph).
    """

    rows: int = 4
    cols: int = 4
    pe: str = "dynamic"
    network: str = "mesh"
    local: str = "token"
    fifo_depth: int = 4
    alu: str = "unit"
    format: str = "fp32"
    kinds: str = "homogeneous"
    memories: tuple[tuple[str, int], ...] = ()

    def __post_init__(self):
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}",
                    "overlay",
                )
        for name in ("rows", "cols"):
            within(name, getattr(self, name), SIDES, "overlay", ConfigError)
        within("fifo_depth", self.fifo_depth, CHANNEL_DEPTHS[1:], "overlay", ConfigError)
        if isinstance(self.memories, Mapping):
            given = cast("Mapping[str, int]", self.memories)
            object.__setattr__(self, "memories", tuple(sorted(given.items())))
        for name, depth in self.memories:
            if name not in MEMORIES[self.pe]:
                raise ConfigError(
                    f"a {self.pe} PE has no memory {name!r}",
                    "overlay",
                    remedy=nearest(name, MEMORIES[self.pe]),
                )
            within(f"words of memory {name}", depth, WORDS, "overlay", ConfigError)

    @property
    def pes(self) -> int:
        return self.rows * self.cols

    @property
    def banks(self) -> int:
        """Banks of a dynamic PE: consumers that it serves in a cycle."""
        return 2 if self.forwards else 1

    @property
    def forwards(self) -> bool:
        """True if results reach consumers at their own PE without a token."""
        return self.pe == "dynamic" and self.local == "forward"

    @property
    def ends(self) -> list[int]:
        """Latencies of its operations, each once, shortest first."""
        return sorted(set(self.latencies().tolist()) - {0})

    def links(self) -> list[int]:
        """Numbers of the links to neighbours, see :data:`LINKS`."""
        out: list[int] = []
        for pe in range(self.pes):
            y, x = divmod(pe, self.cols)
            there = {
                "w": not self.torus and x > 0,
                "e": self.torus or x < self.cols - 1,
                "n": not self.torus and y > 0,
                "s": self.torus or y < self.rows - 1,
            }
            out += [len(LINKS) * pe + k for k, side in enumerate(LINKS) if there[side]]
        return out

    @property
    def torus(self) -> bool:
        """True if its links go round: the deflection torus of dynamic PEs."""
        return self.pe == "dynamic" and self.network == "hoplite"

    @property
    def width(self) -> int:
        """Bits of a value."""
        return 32 if self.format == "fp32" else 64

    @property
    def deep(self) -> bool:
        """True if the units of its ALUs have deep pipelines."""
        return self.alu in ("deep", "registered")

    def latency(self, op_class: str) -> int:
        """Cycles of an operation of this class ('add', 'mul', 'div', 'sqrt', 'exp', 'log',
        'compare', 'switch').
        """
        if self.alu == "unit":
            return 1
        table = DEEP if self.deep else PIPELINED
        op_class = "compare" if op_class == "switch" else op_class
        return table[self.format][op_class] + (self.alu == "registered")

    def latencies(self) -> np.ndarray:
        """int32 by operation code: cycles, 0 for sources and for what the format does not have."""
        ops = format_of(self.format).ops
        return np.array(
            [self.latency(OP_CLASS[op]) if op in OP_CLASS and op in ops else 0 for op in Op],
            np.int32,
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields that matter for this kind of PE, plain."""
        fields = {k: v for k, v in asdict(self).items() if k not in FOREIGN[self.pe]}
        return fields | {"memories": dict(self.memories)}

    def name(self) -> str:
        """Short name of the variant, without the mesh."""
        return self.pe + (" forward" if self.forwards else "") + (" hoplite" if self.torus else "")


@dataclass(frozen=True)
class Layout:
    """Fields of one memory word, LSB first: names and widths in bits."""

    fields: tuple[tuple[str, int], ...]

    @property
    def width(self) -> int:
        return sum(w for _, w in self.fields)

    def pack(self, columns: Mapping[str, Iterable[int]]) -> list[int]:
        """Words of equally long columns of non-negative integers; raises ValueError for a value
        that does not fit.
        """
        words: list[int] | None = None
        at = 0
        for name, width in self.fields:
            column = [int(v) for v in columns[name]]
            if any(v >> width for v in column):
                raise ValueError(f"{name} must fit in {width} bits, not {max(column)}")
            words = (
                [v << at for v in column]
                if words is None
                else [a | v << at for a, v in zip(words, column, strict=True)]
            )
            at += width
        return words or []

    def unpack(self, word: int) -> dict[str, int]:
        """The fields of one word."""
        out: dict[str, int] = {}
        for name, width in self.fields:
            out[name] = word & ((1 << width) - 1)
            word >>= width
        return out


@dataclass(frozen=True)
class Memory:
    """One memory of every PE (or switch): word format, depth in words, copies that its read ports
    need, loaded by the host or not.
    """

    name: str
    layout: Layout
    depth: int
    copies: int = 1
    loaded: bool = True

    @property
    def bits(self) -> int:
        """Bits of all copies."""
        return self.layout.width * self.depth * self.copies


DECISION = 6
"""Cycles from the one in which a hybrid overlay's context sends a condition to the first context of
a segment that it decides.
"""

DECISIONS = 3
"""Conditions that choose a segment together, at most."""

MEMORIES = {
    "dynamic": (
        "control",
        "op",
        "value",
        "first",
        "rest",
        "chain",
        "seed",
        "token",
        "present",
        "ready",
        "near",
        "near_seed",
        "near_ready",
    ),
    "static": ("control", "value", "context", "switch"),
    "hybrid": (
        "control",
        "op",
        "value",
        "first",
        "rest",
        "context",
        "switch",
        "segment",
        "token",
        "present",
        "ready",
    ),
}
"""Memories by kind of PE; the index is the `memory` number of a load word."""

CONTROL = {
    "dynamic": ("senders", "sources"),
    "static": ("length",),
    "hybrid": ("senders", "sources"),
}


def registers(overlay: Overlay) -> tuple[str, ...]:
    """Registers of a PE, by address in the memory `control` (32-bit words)."""
    return CONTROL[overlay.pe] + (("nears",) if overlay.forwards else ())


@dataclass(frozen=True)
class Sizes:
    """Needs of the fullest PE, in words, before fixed sizes are applied.

    ``nodes``: local addresses (static: values); ``senders``; ``queue``: operations that send;
    ``rest``: entries beyond the first; ``near``: addresses up to the last forwarded one;
    ``contexts``: static schedule length, of hybrid PEs that of all segments; ``matched``: of those
    the addresses up to the last dynamic node; ``segments``: words of them, with the end.
    """

    nodes: int = 1
    senders: int = 1
    queue: int = 1
    rest: int = 1
    near: int = 1
    contexts: int = 1
    matched: int = 1
    segments: int = 2


def bits_for(depth: int) -> int:
    """Address bits of a memory of ``depth`` words, at least 1."""
    return max(1, (depth - 1).bit_length())


def _one(name: str, width: int) -> Layout:
    return Layout(((name, width),))


def _contexts(overlay: Overlay, sizes: Sizes, a: int) -> list[Memory]:
    """Contexts of a PE, with local addresses of ``a`` bits, and of its switch."""
    fields = (("op", OP_BITS), ("a", a), ("b", a), ("send", a), ("write", 2), ("address", a))
    if overlay.pe == "hybrid":
        fields = (*fields, ("decide", bits_for(DECISIONS + 1)), ("free", len(overlay.ends)))
    fixed = dict(overlay.memories)
    return [
        Memory("context", Layout(fields), fixed.get("context", sizes.contexts)),
        Memory("switch", switch_layout(overlay), fixed.get("switch", sizes.contexts)),
    ]


def _segment(fixed: Mapping[str, int], sizes: Sizes) -> Layout:
    """A word of the sequencer: a segment's contexts, and the words of those that may follow."""
    contexts = fixed.get("context", sizes.contexts)
    following = bits_for(fixed.get("segment", sizes.segments))
    return Layout(
        (("first", bits_for(contexts)), ("length", bits_for(contexts + 1)), ("next", following))
    )


def memories(overlay: Overlay, sizes: Sizes) -> dict[str, Memory]:
    """The memories of one PE with its switch, in load order, by name."""
    fixed = dict(overlay.memories)
    x = bits_for(overlay.cols)
    y = bits_for(overlay.rows)
    w = overlay.width
    if overlay.pe == "static":
        depth = fixed.get("value", sizes.nodes)
        a = bits_for(depth)
        out = [
            Memory("control", _one("word", 32), len(registers(overlay))),
            Memory("value", _one("value", w), depth, copies=3),
            *_contexts(overlay, sizes, a),
        ]
        return {m.name: m for m in out}
    nodes = max(fixed.get(n, sizes.nodes) for n in ("op", "value", "token", "present"))
    a = bits_for(nodes)
    first = fixed.get("first", sizes.senders)
    rest = fixed.get("rest", sizes.rest)
    matched = sizes.matched if overlay.pe == "hybrid" else sizes.nodes
    second = (("pair", 1), ("node2", a), ("slot2", 2)) if overlay.forwards else ()
    token = (("x", x), ("y", y), ("node", a), ("slot", 2), ("last", 1), *second)
    out = [
        Memory("control", _one("word", 32), len(registers(overlay))),
        Memory("op", _one("op", OP_BITS), fixed.get("op", matched)),
        Memory(
            "value",
            _one("value", w),
            fixed.get("value", sizes.nodes),
            copies=4 if overlay.pe == "hybrid" else 2 if overlay.forwards else 1,
        ),
        Memory("first", Layout((*token, ("rest", bits_for(rest)))), first),
        Memory("rest", Layout(token), rest),
    ]
    if overlay.pe == "hybrid":
        out += _contexts(overlay, sizes, a)
        out.append(Memory("segment", _segment(fixed, sizes), fixed.get("segment", sizes.segments)))
    near = fixed.get("near", sizes.near)
    if overlay.forwards:
        consumers = (("valid", 1), ("node", a), ("slot", 2), *second)
        seeds = fixed.get("near_seed", -(-near // READY_WORD))
        out += [
            Memory(
                "chain",
                Layout((("valid", 1), ("node", a), ("slot", 2))),
                fixed.get("chain", 2 * sizes.nodes),
            ),
            Memory("seed", _one("bits", READY_WORD), fixed.get("seed", -(-first // READY_WORD))),
            Memory("near", Layout(consumers), near),
            Memory("near_seed", _one("bits", READY_WORD), seeds),
            Memory("near_ready", _one("bit", 1), fixed.get("near_ready", near), loaded=False),
        ]
    out += [
        Memory("token", _one("value", w), fixed.get("token", matched), loaded=False),
        Memory("present", _one("bit", 1), fixed.get("present", matched), loaded=False),
    ]
    queued = ("node", bits_for(first)), sizes.queue
    word, depth = (("bit", 1), first) if overlay.forwards else queued
    out.append(Memory("ready", _one(*word), fixed.get("ready", depth), loaded=False))
    return {m.name: m for m in out}


def needs(overlay: Overlay, sizes: Sizes) -> dict[str, int]:
    """Words that the graph needs of each memory, whatever its fixed size."""
    return {n: m.depth for n, m in memories(replace(overlay, memories=()), sizes).items()}


def packet(overlay: Overlay, sizes: Sizes) -> Layout:
    """A token on the network."""
    entry = dict(memories(overlay, sizes)["first"].layout.fields)
    names = ("x", "y", "node", "slot") + (("pair", "node2", "slot2") if overlay.forwards else ())
    return Layout((*tuple((n, entry[n]) for n in names), ("value", overlay.width)))


WRITE_NONE, WRITE_ALU, WRITE_NET = range(3)
"""Codes of a static context's `write`."""

SWITCH = Layout((("w", 1), ("e", 1), ("n", 2), ("s", 2), ("p", 2)))
"""A switch's context."""


def switch_layout(overlay: Overlay) -> Layout:
    """A switch's context; that of a hybrid PE also says which links it holds, by :data:`LINKS`."""
    held = (("held", len(LINKS)),) if overlay.pe == "hybrid" else ()
    return Layout((*SWITCH.fields, *held))


SWITCH_CODES = {
    "w": {"P": 0, "E": 1},
    "e": {"P": 0, "W": 1},
    "n": {"P": 0, "W": 1, "E": 2, "S": 3},
    "s": {"P": 0, "W": 1, "E": 2, "N": 3},
    "p": {"W": 0, "E": 1, "N": 2, "S": 3},
}
"""Per output of the switch, the code of each input (docs/overlay.md section 7)."""

PORTS = ("P", "W", "E", "N", "S")
"""Ports of the buffered router, in round-robin order."""

LINKS = "".join(PORTS[1:]).lower()
"""Sides of a PE to which a link leads: the ports but P. Link number 4 * PE + place in this order is
the one that leaves the PE on that side.
"""


def link_name(link: int, cols: int) -> str:
    """A link by number, in words.

    >>> link_name(4 * 5 + 1, 4)
    'link of PE 5 (1, 1) to the East'
    """
    pe, side = divmod(link, len(LINKS))
    where = {"w": "West", "e": "East", "n": "North", "s": "South"}[LINKS[side]]
    return f"link of PE {pe} ({pe % cols}, {pe // cols}) to the {where}"
