"""Products of integers, in a deep pipeline over several stages."""

from types import SimpleNamespace
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Value

from .lane import Stages, Through, joined, let

BITS = 17
"""Width of a factor of one multiplier: a Lattice ECP5's takes 18, the sign among them."""
TERMS = 3
"""Terms that are summed in a stage."""


class _Term(NamedTuple):
    """A signed or unsigned number times 2**shift."""

    value: Value
    shift: int

    @property
    def end(self) -> int:
        return self.shift + len(self.value)


def products(
    m: Module, stages: Stages | Through, s: SimpleNamespace, **factors: tuple[Value, Value]
) -> SimpleNamespace:
    """The values of stage ``s``, and by name the product of each pair of factors, which in a deep
    pipeline are best registers.

    In a deep pipeline the stage ends behind multipliers of at most :data:`BITS` x :data:`BITS`
    bits, and behind all but the last of the sums of :data:`TERMS` terms each. Else there is no
    stage.
    """
    if not stages.deep:
        return joined(s, **{name: x * y for name, (x, y) in factors.items()})
    terms = {name: _rows(x, y) for name, (x, y) in factors.items()}
    widths = {name: (x * y).shape() for name, (x, y) in factors.items()}
    while True:
        s, terms = _cut(stages, s, terms)
        terms = {name: _summed(m, name, stages.count, rows) for name, rows in terms.items()}
        if all(len(rows) == 1 for rows in terms.values()):
            break
    whole = {}
    for name, (term,) in terms.items():
        value = let(m, f"{name}_product", (term.value << term.shift)[: widths[name].width])
        whole[name] = value.as_signed() if widths[name].signed else value
    return joined(s, **whole)


def _pieces(x: Value) -> list[_Term]:
    """The terms of a factor, the uppermost with its sign."""
    cuts = range(0, len(x), BITS)
    found = [_Term(x[at : at + BITS], at) for at in cuts]
    if x.shape().signed:
        top = found[-1]
        found[-1] = _Term(top.value.as_signed(), top.shift)
    return found


def _rows(x: Value, y: Value) -> list[_Term]:
    """Terms whose sum is the product; those that do not overlap are one."""
    partial = [_Term(a.value * b.value, a.shift + b.shift) for a in _pieces(x) for b in _pieces(y)]
    rows: list[_Term] = []
    for term in sorted(partial, key=lambda term: term.shift):
        for k, row in enumerate(rows):
            if row.end == term.shift and not row.value.shape().signed:
                joined = Cat(row.value, term.value)
                signed = term.value.shape().signed
                rows[k] = _Term(joined.as_signed() if signed else joined, row.shift)
                break
        else:
            rows.append(term)
    return rows


def _cut(
    stages: Stages | Through, s: SimpleNamespace, terms: dict[str, list[_Term]]
) -> tuple[SimpleNamespace, dict[str, list[_Term]]]:
    """The values of a stage, and all terms, in registers."""
    flat = {f"{name}{k}": row.value for name, rows in terms.items() for k, row in enumerate(rows)}
    s = stages.cut(s, **flat)
    return s, {
        name: [_Term(vars(s).pop(f"{name}{k}"), row.shift) for k, row in enumerate(rows)]
        for name, rows in terms.items()
    }


def _summed(m: Module, name: str, stage: int, rows: list[_Term]) -> list[_Term]:
    """Sums of up to :data:`TERMS` terms."""
    found = []
    for first in range(0, len(rows), TERMS):
        group = rows[first : first + TERMS]
        low = min(term.shift for term in group)
        total = sum(
            (term.value << (term.shift - low) for term in group[1:]),
            group[0].value << (group[0].shift - low),
        )
        found.append(_Term(let(m, f"{name}_sum{stage}_{first}", total), low))
    return found
