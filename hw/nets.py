"""Wide modules in Amaranth, which numbers a module's inputs, and an
instance's outputs, with 16 bits: an interconnect of many lanes or ports
has more. Here they have 24.
"""

from amaranth.hdl import _nir

__all__ = ["widen"]

BITS = 24


def _from_cell(cls, cell: int, bit: int) -> _nir.Net:
    assert bit in range(1 << BITS)
    assert cell >= 0
    assert cell > 0 or bit >= 2
    return cls((cell << BITS) | bit)


def _cell(net: _nir.Net) -> int:
    assert net >= 2
    return net >> BITS


def _bit(net: _nir.Net) -> int:
    assert net >= 2
    return net & ((1 << BITS) - 1)


def widen() -> None:
    """Give nets their wider numbers, for all conversions that begin from now on."""
    _nir.Net.from_cell = classmethod(_from_cell)
    _nir.Net.cell = property(_cell)
    _nir.Net.bit = property(_bit)
