"""Values of tiles: their copies, their padding, kernels on them."""

from __future__ import annotations

from ..records import call_kernel, fast, singles


@fast
def copy_values(net, start, to, count):
    if net.has_values:
        values = singles(net.values)
        for i in range(count):
            values[to + i] = values[start + i]


@fast
def fill_values(net, to, count, bits):
    if net.has_values:
        values = singles(net.values)
        for i in range(count):
            values[to + i] = bits


@fast
def transpose(net, start, to, rows):
    """The first columns of a tile, as rows."""
    if net.has_values:
        t = net.t
        values = singles(net.values)
        for r in range(rows):
            for k in range(t):
                values[to + r * t + k] = values[start + k * t + r]


@fast
def pad_tile(net, value, rows, cols, bits):
    """Give the elements outside of the valid rows and columns a value."""
    t = net.t
    if net.has_values and (rows < t or cols < t):
        values = singles(net.values)
        for r in range(t):
            for k in range(cols if r < rows else 0, t):
                values[value + r * t + k] = bits


@fast
def compute(net, kernel, a, b, out):
    """Apply a tile kernel to values."""
    call_kernel(kernel, net.values + 4 * a, net.values + 4 * b, net.values + 4 * out, net.t)
