"""Layouts between the stages of a PE, and of what the host loads."""

from collections.abc import Mapping

from amaranth.hdl import Shape, unsigned
from amaranth.lib import data

from ....overlay.core.config import MEMORIES, OP_BITS, Memory, Overlay, Sizes, bits_for, memories
from ....overlay.core.ops import OP_CLASS, Op


def host_layout(overlay: Overlay, sizes: Sizes) -> data.StructLayout:
    """``valid``, ``memory`` (its number in
    :data:`~penstock.overlay.core.config.MEMORIES`), ``address`` and
    ``data``, wide enough for every loaded memory.
    """
    loaded = [memory for memory in memories(overlay, sizes).values() if memory.loaded]
    return data.StructLayout(
        {
            "valid": 1,
            "memory": bits_for(len(MEMORIES[overlay.pe])),
            "address": max(bits_for(memory.depth) for memory in loaded),
            "data": max(memory.layout.width for memory in loaded),
        }
    )


def put_layout(spec: Memory) -> data.StructLayout:
    """A word that the host loads into a memory: ``valid``, ``address`` and ``data``."""
    return data.StructLayout(
        {"valid": 1, "address": bits_for(spec.depth), "data": spec.layout.width}
    )


def consumer_layout(node: Shape, width: int) -> data.StructLayout:
    """Layout from consuming to matching: an operation (``node``), which of its operands comes
    (``slot``), and the ``value``.
    """
    return data.StructLayout({"valid": 1, "node": node, "slot": unsigned(2), "value": width})


def trigger_layout(node: Shape, width: int, *, timed: int = 0) -> data.StructLayout:
    """Layout from the match of operands (S) to the operation (A): one that has its operands;
    ``fires`` if one will have them in the next cycle, and ``next_node``, which. ``when`` has
    ``timed`` bits: which of the ALU's latencies is the operation's, shortest first.
    """
    return data.StructLayout(
        {
            "valid": 1,
            "node": node,
            "op": OP_BITS,
            "left": width,
            "right": width,
            "fires": 1,
            "next_node": node,
            **({"when": timed} if timed else {}),
        }
    )


def latency_of(latencies: Mapping[str, int], op: Op) -> int:
    """Number of an operation's latency among those of an ALU, shortest first."""
    return sorted(set(latencies.values())).index(latencies[OP_CLASS[op]])


def due_layout(node: Shape) -> data.StructLayout:
    """Layout from the operation (A) to what is ready (R): a node whose result comes."""
    return data.StructLayout({"valid": 1, "node": node})


def result_layout(node: Shape, width: int) -> data.StructLayout:
    """A result that is written: ``valid``, ``node`` and ``value``; ``shut`` if it is not sent."""
    return data.StructLayout({"valid": 1, "node": node, "value": width, "shut": 1})
