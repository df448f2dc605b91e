"""Tables of cubic polynomials on 256 equal segments, behind rsqrt, tanh and both forms of GELU.

Computed with :mod:`decimal` as those of :mod:`penstock.machine.approximation`: each polynomial
meets its function at the four Chebyshev nodes of its segment. Coefficients are of the place in
the segment, 0 to 1, the constant first, all of as many fraction bits as the result.
"""

import functools
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

Row = tuple[int, int, int, int]
Table = tuple[Row, ...]

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
STEP = 16
"""Segments of a unit of the operand's magnitude, below 16 (tanh and GELU)."""


def _fit(nodes: list[Decimal], values: list[Decimal]) -> list[Decimal]:
    """Coefficients of the cubic through four points."""
    rows = list(values)
    for level in range(1, 4):
        for k in range(3, level - 1, -1):
            rows[k] = (rows[k] - rows[k - 1]) / (nodes[k] - nodes[k - level])
    found = [rows[3]]
    for k in (2, 1, 0):  # times (x - node), plus the next difference
        shifted = [Decimal(0), *found]
        found = [a - nodes[k] * b for a, b in zip(shifted, [*found, Decimal(0)], strict=True)]
        found[0] += rows[k]
    return found


def _table(nodes: list[Decimal], bits: int, value: Callable[[int, int], Decimal]) -> Table:
    """Coefficients of each segment; ``value`` of the number of a segment and of a node."""
    scale = Decimal(1 << bits)
    rows: list[Row] = []
    for i in range(256):
        fitted = _fit(nodes, [value(i, k) for k in range(4)])
        whole = [int((c * scale).to_integral_value(ROUND_HALF_EVEN)) for c in fitted]
        rows.append((whole[0], whole[1], whole[2], whole[3]))
    return tuple(rows)


def _mills(nodes: list[Decimal]) -> dict[tuple[int, int], Decimal]:
    """(1 - F(x)) / f(x) of the normal distribution F and its density f at each segment's nodes.

    From a continued fraction at 16 on downwards, by the Taylor series of r' = x r - 1.
    """
    r = Decimal(0)
    for k in range(80, 0, -1):
        r = k / (16 + r)
    r = 1 / (16 + r)
    found: dict[tuple[int, int], Decimal] = {}
    for i in reversed(range(256)):
        x = Decimal(i + 1) / STEP
        series = [r, x * r - 1]
        for n in range(1, 20):
            series.append((x * series[n] + series[n - 1]) / (n + 1))
        for k, node in enumerate([*nodes, Decimal(0)]):
            away = (node - 1) / STEP
            total = Decimal(0)
            for term in reversed(series):
                total = total * away + term
            found[i, k] = total
        r = found[i, 4]
    return found


def _table_of(make: Callable[[], Table]) -> Callable[[], Table]:
    """A table that is computed when it is first asked for."""

    @functools.cache
    @functools.wraps(make)
    def table() -> Table:
        with localcontext() as context:
            context.prec = 28
            return make()

    return table


def _nodes() -> list[Decimal]:
    """Chebyshev nodes of 0 to 1."""
    tilt = (2 + Decimal(2).sqrt()).sqrt() / 2  # cos(pi / 8)
    flat = (2 - Decimal(2).sqrt()).sqrt() / 2
    return [(1 + c) / 2 for c in (tilt, flat, -flat, -tilt)]


@_table_of
def rsqrt() -> Table:
    """2 / sqrt(m) on 1 <= m < 2, then on 2 <= m < 4; 32 fraction bits, below 2."""
    nodes = _nodes()
    half = 1 / Decimal(2).sqrt()

    def value(i: int, k: int) -> Decimal:
        return 2 * half ** (i >> 7) / (1 + (i % 128 + nodes[k]) / 128).sqrt()

    most = (1 << 33) - 1
    return tuple((min(c0, most), c1, c2, c3) for c0, c1, c2, c3 in _table(nodes, 32, value))


@_table_of
def tanh() -> Table:
    """tanh(x) / x on 0 <= x < 16, 34 fraction bits."""
    nodes = _nodes()
    powers = [(2 * node / STEP).exp() for node in nodes]
    edges = [(Decimal(2) * i / STEP).exp() for i in range(256)]

    def value(i: int, k: int) -> Decimal:
        return (1 - 2 / (edges[i] * powers[k] + 1)) / ((i + nodes[k]) / STEP)

    return _table(nodes, 34, value)


@_table_of
def gelu() -> Table:
    """log2(F(x) / (1 - F(x))) of the normal distribution F on 0 <= x < 16, 32 fraction bits."""
    nodes = _nodes()
    mills = _mills(nodes)
    root = (2 * PI).sqrt()
    log2e = 1 / Decimal(2).ln()

    def value(i: int, k: int) -> Decimal:
        x = (i + nodes[k]) / STEP
        # 1 / (1 - F(x)) = root * e**(x * x / 2) / mills
        return (root * (x * x / 2).exp() / mills[i, k] - 1).ln() * log2e

    return _table(nodes, 32, value)


@_table_of
def gelu_tanh() -> Table:
    """2 sqrt(2 / pi) log2(e) (x + 0.044715 x**3) on 0 <= x < 16, 32 fraction bits."""
    nodes = _nodes()
    slope = 2 * (2 / PI).sqrt() * (1 / Decimal(2).ln())

    def value(i: int, k: int) -> Decimal:
        x = (i + nodes[k]) / STEP
        return slope * (x + Decimal("0.044715") * x * x * x)

    return _table(nodes, 32, value)
