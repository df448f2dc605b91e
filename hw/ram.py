"""Ports of memories with names of their own.

Amaranth names a port after the assignment around its request. In loops and expressions there is
none, or the same one again, so the name is said here.
"""

from collections.abc import Iterable

from amaranth.lib.memory import Memory, ReadPort, WritePort
from amaranth.utils import ceil_log2

__all__ = ["read_port", "write_port"]


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
