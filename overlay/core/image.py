"""Image that is loaded into an overlay: plain data, the only hand-over from placement and schedule
to model and RTL (docs/overlay.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...machine.errors import ConfigError
from .config import READY_WORD, Memory, Overlay, Sizes, memories, needs, registers


@dataclass
class Image:
    """A graph placed on an overlay.

    Arrays over PEs are indexed by PE (y * cols + x); arrays over local addresses are laid one PE
    after the other: those of PE p are ``base[p] .. base[p + 1] - 1``.

    Attributes
    ----------
    overlay, sizes
        The machine, and what the fullest PE needs.
    node_pe, node_address
        int32 [graph nodes]: where each node's value lives (source: loaded there; operation: read
        back there).
    base
        int64 [PEs + 1]: offsets of the local addresses.
    value
        uint64 [local addresses]: bits at the start: a source's value, else 0.
    """

    overlay: Overlay
    sizes: Sizes
    node_pe: np.ndarray
    node_address: np.ndarray
    base: np.ndarray
    value: np.ndarray

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


@dataclass
class DynamicImage(Image):
    """An image of dynamic PEs (docs/overlay.md section 3).

    Attributes
    ----------
    op
        uint8 [local addresses]: operation code (sources: theirs, never read).
    senders, sources, fires
        int32 [PEs]: the registers.
    first_*, rest_*
        Fields of the fan-out memories; PE p's entries start at ``first_base[p]`` and
        ``rest_base[p]``; ``first_rest`` is relative to the latter. ``*_pe`` is y * cols + x.
    chain_*
        [2 * local addresses], at 2 * (base[p] + node) + (slot == RIGHT); with local = forward.
    *_node2, *_slot2
        local = forward: the second consumer of an entry, in the other bank; node -1: none.
    seed
        bool [senders of all PEs]: ready at the start (local = forward).
    nears
        int32 [PEs], local = forward: the register; addresses with a word in ``near_*``, whose PE
        p's start at ``near_base[p]``.
    near_*
        local = forward: consumers at a node's own PE (``near_node`` -1: none), and what is in the
        near set at the start.
    copy_node, copy_pe, copy_address
        int32 [copies]: nodes whose values are copied, and where.
    """

    op: np.ndarray
    senders: np.ndarray
    sources: np.ndarray
    fires: np.ndarray
    first_base: np.ndarray
    first_pe: np.ndarray
    first_node: np.ndarray
    first_slot: np.ndarray
    first_node2: np.ndarray
    first_slot2: np.ndarray
    first_last: np.ndarray
    first_rest: np.ndarray
    rest_base: np.ndarray
    rest_pe: np.ndarray
    rest_node: np.ndarray
    rest_slot: np.ndarray
    rest_node2: np.ndarray
    rest_slot2: np.ndarray
    rest_last: np.ndarray
    chain_valid: np.ndarray
    chain_node: np.ndarray
    chain_slot: np.ndarray
    seed: np.ndarray
    nears: np.ndarray
    near_base: np.ndarray
    near_node: np.ndarray
    near_slot: np.ndarray
    near_node2: np.ndarray
    near_slot2: np.ndarray
    near_seed: np.ndarray
    copy_node: np.ndarray
    copy_pe: np.ndarray
    copy_address: np.ndarray

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
        local = slice(self.base[pe], self.base[pe + 1])
        cols = self.overlay.cols
        if memory == "control":
            return {"word": np.array([getattr(self, n)[pe] for n in registers(self.overlay)])}
        if memory == "op":
            return {"op": self.op[local]}
        if memory == "value":
            return {"value": self.value[local]}
        if memory == "first":
            at = slice(self.first_base[pe], self.first_base[pe + 1])
            return self._second("first", at) | {
                "x": self.first_pe[at] % cols,
                "y": self.first_pe[at] // cols,
                "node": self.first_node[at],
                "slot": self.first_slot[at],
                "last": self.first_last[at],
                "rest": self.first_rest[at],
            }
        if memory == "rest":
            at = slice(self.rest_base[pe], self.rest_base[pe + 1])
            return self._second("rest", at) | {
                "x": self.rest_pe[at] % cols,
                "y": self.rest_pe[at] // cols,
                "node": self.rest_node[at],
                "slot": self.rest_slot[at],
                "last": self.rest_last[at],
            }
        if memory == "chain":
            at = slice(2 * self.base[pe], 2 * self.base[pe + 1])
            return {
                "valid": self.chain_valid[at],
                "node": self.chain_node[at],
                "slot": self.chain_slot[at],
            }
        if memory == "seed":
            return _ready_words(self.seed[self.first_base[pe] : self.first_base[pe + 1]])
        near = slice(self.near_base[pe], self.near_base[pe + 1])
        if memory == "near":
            node = self.near_node[near]
            return self._second("near", near) | {
                "valid": node >= 0,
                "node": np.maximum(node, 0),
                "slot": self.near_slot[near],
            }
        if memory == "near_seed":
            return _ready_words(self.near_seed[near])
        raise KeyError(memory)

    def _second(self, memory: str, at: slice) -> dict[str, np.ndarray]:
        node = getattr(self, f"{memory}_node2")[at]
        slot = getattr(self, f"{memory}_slot2")[at]
        return {"pair": node >= 0, "node2": np.maximum(node, 0), "slot2": slot}


def _ready_words(bits: np.ndarray) -> dict[str, np.ndarray]:
    """Words of ready bits."""
    padded = np.zeros(-(-len(bits) // READY_WORD) * READY_WORD, np.uint64)
    padded[: len(bits)] = bits
    shifted = padded.reshape(-1, READY_WORD) << np.arange(READY_WORD, dtype=np.uint64)
    return {"bits": shifted.sum(axis=1, dtype=np.uint64)}


@dataclass
class StaticImage(Image):
    """An image of static PEs and time-multiplexed switches (docs/overlay.md sections 6 and 7).

    Attributes
    ----------
    length
        Contexts, and cycles of a run.
    context
        int32 [PEs, length] by field of the context word: ``op``, ``a``, ``b``, ``send``, ``write``,
        ``address``.
    switch
        uint8 [PEs, length] by output: ``w``, ``e``, ``n``, ``s``, ``p``.
    """

    length: int
    context: dict[str, np.ndarray] = field(default_factory=dict)
    switch: dict[str, np.ndarray] = field(default_factory=dict)

    def columns(self, memory: str, pe: int) -> dict[str, np.ndarray]:
        if memory == "control":
            return {"word": np.array([self.length])}
        if memory == "value":
            return {"value": self.value[self.base[pe] : self.base[pe + 1]]}
        if memory in ("context", "switch"):
            return {n: a[pe] for n, a in getattr(self, memory).items()}
        raise KeyError(memory)
