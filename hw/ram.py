"""Memories as block RAM, and ports with names of their own.

Amaranth names a port after the assignment around its request. In loops and expressions there is
none, or the same one again, so the name is said here.
"""

from collections.abc import Iterable

from amaranth.hdl import Shape
from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.utils import ceil_log2

BLOCK_WORDS = 64
BLOCK_BITS = 4096
"""Words, and bits, from which a memory is worth block RAM; below it is LUT RAM."""


def in_block_ram(memory: Memory) -> bool:
    """True if a memory is worth block RAM, which is read synchronously."""
    depth = memory.depth
    return depth >= BLOCK_WORDS and depth * Shape.cast(memory.shape).width >= BLOCK_BITS


def read_port(
    memory: Memory, name: str, *, domain: str = "sync", transparent_for: Iterable[WritePort] = ()
) -> ReadPort:
    """``memory.read_port``; its signals are ``<name>__addr``, ``<name>__data``, ``<name>__en``."""
    signature = ReadPort.Signature(shape=memory.shape, addr_width=ceil_log2(memory.depth))
    return ReadPort(
        signature, memory=memory, domain=domain, transparent_for=transparent_for, path=(name,)
    )


def write_port(memory: Memory, name: str, *, granularity: int | None = None) -> WritePort:
    """``memory.write_port``; its signals are ``<name>__addr``, ``<name>__data``, ``<name>__en``."""
    signature = WritePort.Signature(
        shape=memory.shape, addr_width=ceil_log2(memory.depth), granularity=granularity
    )
    return WritePort(signature, memory=memory, domain="sync", path=(name,))
