"""Image that is loaded into an overlay: plain data, the only hand-over from placement and schedule
to model and RTL (docs/overlay.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...machine.errors import ConfigError
from .config import READY_WORD, Memory, Overlay, Sizes, memories, needs, registers
from .ops import Op


@dataclass
class Image:
    """A graph placed on an overlay.

    Arrays over PEs are indexed by PE (y * cols + x); arrays over local addresses are laid one PE
    after the other: those of PE p are ``base[p] .. base[p + 1] - 1``.
    """

    # overlay, sizes: the machine, and what the fullest PE needs
    overlay: Overlay
    sizes: Sizes
    # node_pe, node_address: int32 [graph nodes]: where each node's value lives (source: loaded
    # there; operation: read back there)
    node_pe: np.ndarray
    node_address: np.ndarray
    base: np.ndarray  # int64 [PEs + 1]: offsets of the local addresses
    value: np.ndarray  # uint64 [local addresses]: bits at the start: a source's value, else 0

    def memories(self) -> dict[str, Memory]:
        """Formats and depths of a PE's memories; raises ConfigError where a fixed size is too
        small.
        """
        out = memories(self.overlay, self.sizes)
        for name, words in needs(self.overlay, self.sizes).items():
            if words > out[name].depth:
                raise ConfigError(
                    f"needs {words} words, but has {out[name].depth}",
                    f"memory {name} of PE {self.fullest(name)}",
                    rule="every PE's share of the graph fits into its memories",
                    remedy="use a larger mesh, or larger memories",
                )
        return out

    def with_inputs(self, nodes: np.ndarray, bits: np.ndarray) -> Image:
        """The image with new values of the given sources: ``nodes`` (indices in the graph) and
        their uint64 ``bits``; nothing else changes.
        """
        value = self.value.copy()
        value[self.base[self.node_pe[nodes]] + self.node_address[nodes]] = bits
        return replace(self, value=value)

    def fullest(self, memory: str) -> int:
        """The PE that needs most words of a memory."""
        return int(np.argmax(np.diff(self.base)))

    def columns(self, memory: str, pe: int) -> dict[str, np.ndarray]:
        """Fields of one PE's loaded memory."""
        raise NotImplementedError

    def words(self, memory: str, pe: int) -> list[int]:
        """Words of one PE's loaded memory, from address 0."""
        return self.memories()[memory].layout.pack(self.columns(memory, pe))

    def load(self) -> Iterator[tuple[int, str, int, int]]:
        """Every word to load: PE, memory, address, data."""
        for m in self.memories().values():
            if m.loaded:
                for pe in range(self.overlay.pes):
                    for address, word in enumerate(m.layout.pack(self.columns(m.name, pe))):
                        yield pe, m.name, address, word

    @property
    def bits(self) -> int:
        """Memory bits of all PEs and switches, copies included."""
        return self.overlay.pes * sum(m.bits for m in self.memories().values())


CONSUMERS = np.dtype(
    [
        ("pe", np.int32),
        ("node", np.int32),
        ("slot", np.uint8),
        ("node2", np.int32),
        ("slot2", np.uint8),
        ("last", np.uint8),
        ("rest", np.int32),
    ]
)
"""A word of a fan-out memory: PE (y * cols + x), address and slot of a value's consumer and of a
second one, in the other bank (node -1: none); whether no word follows it, and where in ``rest`` the
others begin.
"""


def no_consumers(count: int) -> np.ndarray:
    """:data:`CONSUMERS` [count] of nobody."""
    out = np.zeros(count, CONSUMERS)
    out["node"] = out["node2"] = -1
    return out


@dataclass
class DynamicImage(Image):
    """An image of dynamic PEs (docs/overlay.md section 3).

    Attributes
    ----------
    op
        uint8 [local addresses]: operation code (sources: theirs, never read).
    senders, sources
        int32 [PEs]: the registers.
    first, rest
        :data:`CONSUMERS`: the fan-out memories; PE p's words start at ``first_base[p]`` and
        ``rest_base[p]``, and the field ``rest`` counts from the latter.
    chain
        :data:`CONSUMERS` [2 * local addresses], at 2 * (base[p] + node) + (slot & 1); with
        local = forward.
    seed
        bool [senders of all PEs]: ready at the start (local = forward).
    nears
        int32 [PEs], local = forward: the register; addresses with a word in ``near``, whose PE p's
        start at ``near_base[p]``.
    near, near_seed
        local = forward: consumers at a node's own PE, and what is in the near set at the start.
    copy_node, copy_pe, copy_address
        int32 [copies]: nodes whose values are copied, and where.
    """

    op: np.ndarray
    senders: np.ndarray
    sources: np.ndarray
    first_base: np.ndarray
    first: np.ndarray
    rest_base: np.ndarray
    rest: np.ndarray
    chain: np.ndarray
    seed: np.ndarray
    nears: np.ndarray
    near_base: np.ndarray
    near: np.ndarray
    near_seed: np.ndarray
    copy_node: np.ndarray
    copy_pe: np.ndarray
    copy_address: np.ndarray

    @property
    def conditional(self) -> bool:
        """True if some operations may not fire."""
        return bool((self.op >= Op.THEN).any())

    def fullest(self, memory: str) -> int:
        by = {
            "first": self.senders,
            "seed": self.senders,
            "rest": np.diff(self.rest_base),
            "near": self.nears,
            "near_seed": self.nears,
            "near_ready": self.nears,
            "ready": self.senders - self.sources,
        }
        return int(np.argmax(by.get(memory, np.diff(self.base))))

    def columns(self, memory: str, pe: int) -> dict[str, np.ndarray]:
        if memory == "control":
            return {"word": np.array([getattr(self, n)[pe] for n in registers(self.overlay)])}
        base = {
            "op": self.base,
            "value": self.base,
            "first": self.first_base,
            "rest": self.rest_base,
            "chain": 2 * self.base,
            "seed": self.first_base,
            "near": self.near_base,
            "near_seed": self.near_base,
        }[memory]
        words = getattr(self, memory)[base[pe] : base[pe + 1]]
        if memory in ("op", "value"):
            return {memory: words}
        if memory in ("seed", "near_seed"):
            return _ready_words(words)
        y, x = np.divmod(words["pe"], self.overlay.cols)
        node, node2 = (words[name] for name in ("node", "node2"))
        nodes = {"valid": node >= 0, "node": node, "pair": node2 >= 0, "node2": node2}
        columns = {"x": x, "y": y, **{name: np.maximum(n, 0) for name, n in nodes.items()}}
        return columns | {name: words[name] for name in ("slot", "slot2", "last", "rest")}


def _ready_words(bits: np.ndarray) -> dict[str, np.ndarray]:
    """Words of ready bits."""
    padded = np.zeros(-(-len(bits) // READY_WORD) * READY_WORD, np.uint64)
    padded[: len(bits)] = bits
    shifted = padded.reshape(-1, READY_WORD) << np.arange(READY_WORD, dtype=np.uint64)
    return {"bits": shifted.sum(axis=1, dtype=np.uint64)}


@dataclass
class StaticImage(Image):
    """An image of static PEs and time-multiplexed switches (docs/overlay.md sections 6 and 7)."""

    length: int  # contexts, and cycles of a run
    # int32 [PEs, length] by field of the context word: ``op``, ``a``, ``b``, ``send``, ``write``,
    # ``address``
    context: dict[str, np.ndarray] = field(default_factory=dict)
    # uint8 [PEs, length] by output: ``w``, ``e``, ``n``, ``s``, ``p``
    switch: dict[str, np.ndarray] = field(default_factory=dict)

    def columns(self, memory: str, pe: int) -> dict[str, np.ndarray]:
        if memory == "control":
            return {"word": np.array([self.length])}
        if memory == "value":
            return {"value": self.value[self.base[pe] : self.base[pe + 1]]}
        if memory in ("context", "switch"):
            return {n: a[pe] for n, a in getattr(self, memory).items()}
        raise KeyError(memory)


@dataclass
class HybridImage(DynamicImage):
    """An image of hybrid PEs (docs/overlay.md section 7.1): its copies are received values.

    Attributes
    ----------
    length
        Contexts of all segments.
    context, switch
        Of every PE and switch, as a :class:`StaticImage` has them, the segments one after the
        other; with ``decide``, ``free`` and ``held``.
    segment
        Words of the sequencer, by field: ``first``, ``length``, ``next``.
    """

    length: int
    context: dict[str, np.ndarray]
    switch: dict[str, np.ndarray]
    segment: dict[str, np.ndarray]

    def columns(self, memory: str, pe: int) -> dict[str, np.ndarray]:
        if memory in ("context", "switch"):
            return {n: a[pe] for n, a in getattr(self, memory).items()}
        if memory == "segment":  # the overlay has one; its words are loaded as those of PE 0
            return self.segment if pe == 0 else {n: a[:0] for n, a in self.segment.items()}
        columns = super().columns(memory, pe)
        if memory == "op":
            columns["op"] = columns["op"][: self.memories()["op"].depth]
        return columns

    @property
    def decides(self) -> bool:
        """True if its segments depend on conditions."""
        return bool(self.context["decide"].any())

    def taken(self, contexts: np.ndarray) -> HybridImage:
        """The image whose only segment are these contexts, one after the other."""
        context, switch = (
            {n: words[:, contexts] for n, words in memory.items()}
            for memory in (self.context, self.switch)
        )
        return replace(self, length=len(contexts), context=context, switch=switch)
