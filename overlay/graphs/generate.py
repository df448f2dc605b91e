"""Seeded circuit matrices, so that nothing has to be downloaded: nodal conductance matrices with
linearised transistors.

Each is diagonally dominant by rows, so every pivot order is stable. Values spread over a few
decades, as conductances and C/h terms do.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

from ...machine.errors import ProgramError, nearest
from ...machine.limits import SEEDS, within

MOST_ELEMENTS = 10_000
"""Most elements of a generated circuit."""


class _Stamps:
    def __init__(self, rng):
        self.rng = rng
        self.rows = []
        self.cols = []
        self.values = []
        self.n = 0

    def node(self) -> int:
        self.n += 1
        return self.n - 1

    def size(self) -> float:
        """A conductance, log-uniform over three decades."""
        return float(10 ** self.rng.uniform(-2, 1))

    def put(self, i: int, j: int, value: float) -> None:
        self.rows.append(i)
        self.cols.append(j)
        self.values.append(value)

    def between(self, i: int, j: int) -> None:
        """A resistor or capacitor between two nodes."""
        g = self.size()
        for p, q, s in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            self.put(p, q, s * g)

    def transistor(self, gate: int, drain: int, source: int | None) -> None:
        """Linearised: a current out of the drain that the gate controls, output conductance,
        gate-drain and gate-source capacitance.
        """
        gm = self.size()
        self.put(drain, gate, gm)
        self.between(gate, drain)
        if source is not None:
            self.put(source, gate, -gm)
            self.between(drain, source)
            self.between(gate, source)

    def matrix(self) -> sp.csc_array:
        a = sp.coo_array((self.values, (self.rows, self.cols)), shape=(self.n, self.n)).tocsc()
        off = abs(a).sum(axis=1) - abs(a.diagonal())
        ground = (
            np.maximum(off - a.diagonal(), 0) + 0.1 * off + 10 ** self.rng.uniform(-2, 0, self.n)
        )  # to ground
        return sp.csc_array(a + sp.diags_array(ground))


def _ladder(s: _Stamps, n: int) -> None:
    nodes = [s.node() for _ in range(n)]
    for i, j in itertools.pairwise(nodes):
        s.between(i, j)


def _ring(s: _Stamps, n: int) -> None:
    drive = [s.node() for _ in range(n)]
    wire = [s.node() for _ in range(n)]
    for k in range(n):
        s.transistor(wire[k - 1], drive[k], None)
        s.between(drive[k], wire[k])


def _gates(s: _Stamps, n: int) -> None:
    nets = [s.node() for _ in range(max(2, n // 8))]
    for _ in range(n):
        k = int(s.rng.integers(1, 4))
        back = np.where(
            s.rng.random(k) < 0.03,
            s.rng.integers(0, len(nets), k),
            np.minimum(s.rng.geometric(0.3, k), len(nets) - 1),
        )
        inputs = [nets[-1 - int(i)] for i in np.unique(back)]
        out = s.node()
        drains = [out, *(s.node() for _ in inputs[1:])]
        for gate, drain, source in zip(inputs, drains, [*drains[1:], None], strict=True):
            s.transistor(gate, drain, source)  # in series, down to ground
            s.transistor(gate, out, None)  # in parallel, up to the supply
        nets.append(out)


KINDS = {"ladder": _ladder, "ring": _ring, "gates": _gates}
"""ladder: N nodes in a row; ring: an oscillator of N stages, two nodes each; gates: N static gates
of one to three inputs, with wiring of mostly short reach.
"""


def circuit_matrix(kind: str, n: int, seed: int = 0) -> sp.csc_array:
    """The matrix of a generated circuit; the same seed gives the same matrix.

    ProgramError for an unknown kind or fewer than 3 elements.
    """
    if kind not in KINDS:
        raise ProgramError(
            f"unknown kind of circuit {kind!r}",
            f"gen:{kind}:{n}",
            remedy=nearest(kind, KINDS, "use"),
        )
    if not 3 <= n <= MOST_ELEMENTS:
        raise ProgramError(f"needs from 3 to {MOST_ELEMENTS} elements, not {n}", f"gen:{kind}:{n}")
    within("the seed", seed, SEEDS, f"gen:{kind}:{n}")
    stamps = _Stamps(np.random.default_rng(seed))
    KINDS[kind](stamps, n)
    return stamps.matrix()
