"""Sizes that the symbols of a program take in a run, and the shapes that its streams state."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import sympy

from ...machine.errors import RunError
from ..graph import Graph, Stream
from ..types import Dim, TileType
from .elements import START


class Sizes:
    """Sizes in a run, from its streams.

    Attributes
    ----------
    symbols
        Size by symbol's name; of a ragged dimension the mean.
    largest
        Largest size that each symbol took (0: it never occurred), which is what has to fit on chip.
    means
        Means of ragged sizes in each (operator, output); their product is the number of its
        elements.
    """

    def __init__(self):
        self.symbols: dict[str, Fraction] = {}
        self.largest: dict[str, int] = {}
        self.means: dict[tuple[str, int], dict[str, Fraction]] = {}

    def check(self, stream: Stream, items: list) -> None:
        """Compare the sizes that a stream's stops give with its type; learn the symbols in it."""

        def where() -> str:
            at = f" at {stream.node.line}" if stream.node.line else ""
            return f"stream {stream.name} {stream.type}{at}"

        asserted = stream.port in stream.node.asserted
        rule = "asserted by the program" if asserted else "the shape rule of the operator"
        sizes: list[list[int]] = [[] for _ in stream.shape]
        open_ = [0] * len(stream.shape)
        last = START
        rank = stream.rank
        for value, stop in items:
            if stop > rank:
                raise RunError(f"has a stop of level {stop}, its rank is {rank}", where(), rule)
            begin = 0
            if value is not None:
                open_[0] += 1
            elif last:
                begin = min(last, stop)
                sizes[begin - 1].append(0)
                open_[begin] += 1
            for level in range(begin, stop):
                sizes[level].append(open_[level])
                open_[level] = 0
                open_[level + 1] += 1
            last = stop
        if any(open_[:-1]):
            raise RunError("ends within a dimension", where(), rule)
        sizes[-1].append(open_[-1])
        means = self.means[stream.node.name, stream.port] = {}
        for level, (d, seen) in enumerate(zip(reversed(stream.shape), sizes, strict=True)):
            self.learn(
                d,
                seen,
                f"dimension {level}",
                where,
                rule,
                "correct the assertion" if asserted else None,
                stream.graph,
            )
            self.mean(means, d, seen)
        if isinstance(stream.element, TileType):
            tiles = [v.shape for v, _ in items if v is not None]
            for axis, d in enumerate((stream.element.rows, stream.element.cols)):
                if d.value is None:
                    self.learn(
                        d,
                        [t[axis] for t in tiles],
                        ("rows", "columns")[axis] + " of a tile",
                        where,
                        rule,
                        None,
                        stream.graph,
                    )
                    rows = (
                        [t[0] for t in tiles] if axis and stream.element.rows.value is None else []
                    )
                    self.mean(means, d, [t[axis] for t in tiles], rows if any(rows) else None)

    @staticmethod
    def mean(
        means: dict[str, Fraction], d: Dim, seen: list[int], weights: list[int] | None = None
    ) -> None:
        """Note the mean of a ragged size in one stream: of the columns of tiles by their rows, for
        an element stands for so many.
        """
        if seen and d.size.is_Symbol and d.kind.ragged:
            weights = weights or [1] * len(seen)
            means.setdefault(
                str(d.size),
                Fraction(sum(n * w for n, w in zip(seen, weights, strict=True)), sum(weights)),
            )

    def shares(self, graph: Graph) -> dict[str, dict[str, Fraction]]:
        """Means of ragged sizes for each operator, in its own streams, those of the stream with
        most of them where they differ: its traffic and FLOP are exact with them, but for a product
        whose M, K and N are all ragged.
        """
        found = {}
        for node in graph.nodes:
            streams = [(s.node.name, s.port) for s in (*node.inputs, *node)]
            found[node.name] = {
                k: v
                for means in sorted((self.means.get(at, {}) for at in streams), key=len)
                for k, v in means.items()
            }
        return found

    def learn(
        self,
        d: Dim,
        seen: list[int],
        what: str,
        where: Callable[[], str],
        rule: str,
        remedy: str | None,
        graph: Graph,
    ) -> None:
        """Give a symbol the size that the run has, and check what is known: a number, or the
        ``most`` and ``least`` that it can be.
        """
        if d.value is not None and all(n == d.value for n in seen):
            return
        if not seen:
            if d.size.is_Symbol:
                self.largest.setdefault(str(d.size), 0)
            return
        most = graph.most(d)
        if d.value is None and most is not None and max(seen) > most:
            raise RunError(
                f"{what} is {max(seen)} in the run, {d} is at most {most}",
                where(),
                "the program guarantees the bounds of its symbols (most)",
                "raise the bound",
            )
        if min(seen) < graph.leasts.get(str(d.size), 0):
            raise RunError(
                f"{what} is {min(seen)} in the run, {d} is at least {graph.leasts[str(d.size)]}",
                where(),
                "the program guarantees the bounds of its symbols (least)",
                "lower the bound",
            )
        if d.size.is_Symbol:
            self.largest[str(d.size)] = max(max(seen), self.largest.get(str(d.size), 0))
        if d.size.is_Symbol and str(d.size) not in self.symbols:
            self.symbols[str(d.size)] = (
                Fraction(sum(seen), len(seen)) if d.kind.ragged else Fraction(seen[0])
            )
        # In one pass: `subs` works out every condition of a sum again for each symbol in turn.
        want = d.size.xreplace(
            {
                s: sympy.sympify(self.symbols[str(s)])
                for s in d.size.free_symbols
                if str(s) in self.symbols
            }
        )
        if not d.kind.ragged and want.is_number:
            known = int(want) if want.is_Integer else want
            wrong = [n for n in seen if n != known]
            if wrong:
                raise RunError(
                    f"{what} is {wrong[0]} in the run, not {want}", where(), rule, remedy
                )
