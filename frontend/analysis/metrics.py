"""Symbolic analysis: off-chip traffic, on-chip requirement, FLOPs, operational intensity (paper
section 4.2).

On-chip rules by name: ``paper`` is the text's equations, in bytes; ``published`` is what the
published figures counted (one tile per off-chip operator, results at 4 B per element); ``machine``
is the pages that a configuration's scratchpads take at most (frontend/analysis/onchip.py): no run
takes more. Users add rules and cost functions with :func:`register_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import sympy

from ...machine.config import Config
from ...machine.errors import ProgramError, nearest
from ...machine.unitgraph import UnitGraph
from ..graph import Graph, Operator
from ..lowering import lower
from . import onchip

Cost = Callable[[Operator], "sympy.Expr | int"]

RULES: dict[str, Cost] = {
    "paper": lambda node: node.onchip("paper"),
    "published": lambda node: node.onchip("published"),
}


def register_rule(name: str, cost: Cost) -> None:
    """Add a cost function: operator -> bytes (or whatever it counts), summed over the program."""
    if name in (*RULES, onchip.RULE):
        raise ProgramError(
            f"a cost function named {name!r} is already registered", remedy="choose another name"
        )
    RULES[name] = cost


@dataclass(frozen=True)
class Metric:
    """A sum over operators.

    Attributes
    ----------
    name, per_node
        What is counted; the share of each operator (zero shares left out).
    """

    name: str
    per_node: Mapping[str, sympy.Expr]

    @cached_property
    def total(self) -> sympy.Expr:
        # All at once: a sum of thousands of shares, one by one, takes time in their square.
        return sympy.Add(*self.per_node.values())

    @property
    def value(self) -> int | None:
        """The total as a number, or None while symbols stay."""
        total = self.total
        return int(total) if not total.free_symbols else None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols that stay."""
        return tuple(sorted(str(s) for s in self.total.free_symbols))

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Operators whose share only a run can tell."""
        return tuple(n for n, e in self.per_node.items() if e.free_symbols)

    def subs(self, values: Mapping, own: Mapping[str, Mapping] | None = None) -> Metric:
        """Metric with numbers or expressions in place of symbols (by name); ``own``: by operator,
        what comes before ``values`` in its share.
        """
        return replace(
            self,
            per_node={
                n: substitute(e, {**values, **(own or {}).get(n, {})}) if e.free_symbols else e
                for n, e in self.per_node.items()
            },
        )

    def of(self, nodes: Container[str]) -> Metric:
        """Entries of some of the operators."""
        return replace(self, per_node={n: e for n, e in self.per_node.items() if n in nodes})

    def merge(self, measured: Mapping[str, int]) -> Metric:
        """Metric with measured shares of operators in place of symbolic ones."""
        wrong = [n for n in measured if n not in self.per_node]
        if wrong:
            raise ProgramError(
                f"{self.name}: no operator {wrong[0]!r} has a share",
                remedy=f"measured operators are {', '.join(self.unresolved) or 'none'}",
            )
        return replace(
            self,
            per_node={
                n: sympy.Integer(int(measured[n])) if n in measured and e.free_symbols else e
                for n, e in self.per_node.items()
            },
        )


def substitute(expr: sympy.Expr, values: Mapping) -> sympy.Expr:
    """An expression with symbols, by name, replaced by numbers or expressions."""
    symbols = expr.free_symbols
    if not symbols:
        return expr
    by_name = {str(k): v for k, v in values.items()}
    # In one pass: `subs` works out every condition of a sum again for each symbol in turn.
    return expr.xreplace({s: sympy.sympify(by_name[str(s)]) for s in symbols if str(s) in by_name})


def metric(graph: Graph, name: str, cost: Cost) -> Metric:
    """Sum a cost function over a program."""
    shares = {node.name: sympy.sympify(cost(node)) for node in graph.nodes}
    return Metric(name, {n: e for n, e in shares.items() if e != 0})


@dataclass(frozen=True)
class Analysis:
    """The metrics of a program: exact numbers, or expressions over its symbols.

    Attributes
    ----------
    offchip, onchip, flops_metric
        Bytes of off-chip traffic and on-chip requirement, FLOP.
    onchip_rule
        Of the on-chip requirement.
    lines
        Off-chip lines; None without a configuration, which gives their size, ``line_bytes``.
    """

    offchip: Metric
    onchip: Metric
    flops_metric: Metric
    onchip_rule: str
    lines: Metric | None = None
    line_bytes: int = 0

    @property
    def offchip_bytes(self) -> int | None:
        """Off-chip traffic in bytes; None while it is a formula, `offchip.total`."""
        return self.offchip.value

    @property
    def onchip_bytes(self) -> int | None:
        """Requirement on chip in bytes, by `onchip_rule`; None while it is a formula."""
        return self.onchip.value

    @property
    def flops(self) -> int | None:
        """Operations; None while their number is a formula."""
        return self.flops_metric.value

    @property
    def intensity(self) -> sympy.Expr:
        """Operational intensity: FLOP per byte of off-chip traffic."""
        return self.flops_metric.total / self.offchip.total if self.offchip.total != 0 else sympy.oo

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols that any metric still contains: the run measures the operators in
        ``unresolved``.
        """
        return tuple(
            sorted(
                set(self.offchip.symbols)
                | set(self.onchip.symbols)
                | set(self.flops_metric.symbols)
            )
        )

    @property
    def unresolved(self) -> dict[str, tuple[str, ...]]:
        """Metric -> operators to be measured."""
        return {
            m.name: m.unresolved
            for m in (self.offchip, self.onchip, self.flops_metric)
            if m.unresolved
        }

    def subs(
        self,
        values: Mapping,
        largest: Mapping | None = None,
        own: Mapping[str, Mapping] | None = None,
    ) -> Analysis:
        """Metrics with symbols (by name) replaced; ``largest``: their values in the on-chip
        requirement, where a ragged dimension takes its largest size; ``own``: by operator, in its
        traffic and FLOP.
        """
        return replace(
            self,
            offchip=self.offchip.subs(values, own),
            onchip=self.onchip.subs(values if largest is None else {**values, **largest}),
            flops_metric=self.flops_metric.subs(values, own),
            lines=self.lines and self.lines.subs(values, own),
        )

    def of(self, nodes: Container[str]) -> Analysis:
        """Entries of some of the operators for each metric."""
        return replace(
            self,
            offchip=self.offchip.of(nodes),
            onchip=self.onchip.of(nodes),
            flops_metric=self.flops_metric.of(nodes),
            lines=self.lines and self.lines.of(nodes),
        )

    def merge(self, measured: Mapping[str, Mapping[str, int]]) -> Analysis:
        """Metrics with a run's measurements: metric name ("offchip", "onchip", "flops") -> operator
        -> number.
        """
        got = {
            m.name: m.merge(measured.get(m.name, {}))
            for m in (self.offchip, self.onchip, self.flops_metric)
        }
        return replace(
            self, offchip=got["offchip"], onchip=got["onchip"], flops_metric=got["flops"]
        )

    def text(self) -> str:
        rows = [
            ("off-chip traffic", self.offchip.total, "B"),
            *(
                [(f"off-chip lines of {self.line_bytes} B", self.lines.total, "")]
                if self.lines
                else []
            ),
            (f"on-chip requirement (rule {self.onchip_rule})", self.onchip.total, "B"),
            ("operations", self.flops_metric.total, "FLOP"),
            ("operational intensity", _show(self.intensity), "FLOP/B"),
        ]
        lines = [f"{label + ':':42s} {value} {unit}".rstrip() for label, value, unit in rows]
        for name, nodes in self.unresolved.items():
            lines.append(f"measured by the run ({name}): {', '.join(nodes)}")
        return "\n".join(lines)


def _show(x: sympy.Expr) -> str:
    return f"{float(x):.2f}" if x.is_number else str(x)


def analyse(
    graph: Graph,
    rule: str = "published",
    config: Config | None = None,
    units: UnitGraph | None = None,
) -> Analysis:
    """The metrics of a program, on-chip bytes by the named rule.

    ``config`` is for the rule ``machine``; ``units``: the program lowered for it, where that is at
    hand. Raises ProgramError for an unknown rule, for ``machine`` without a configuration or with
    another timing's units, and LoweringError where the machine has no form for the program.
    """
    if rule == onchip.RULE:
        pages = _pages(graph, config, units)
        held = metric(graph, "onchip", lambda n: pages.get(n.name, 0))
    elif rule in RULES:
        held = metric(graph, "onchip", RULES[rule])
    else:
        raise ProgramError(
            f"no on-chip rule {rule!r}",
            remedy=f"{nearest(rule, (*RULES, onchip.RULE))}; add one with register_rule",
        )
    return Analysis(
        metric(graph, "offchip", lambda n: n.offchip()),
        held,
        metric(graph, "flops", lambda n: n.flops()),
        rule,
        lines=config and lines(graph, config),
        line_bytes=config.machine.dram.line_bytes if config else 0,
    )


def lines(graph: Graph, config: Config) -> Metric:
    """Off-chip lines of a program on a machine."""
    line_bytes = config.machine.dram.line_bytes
    return metric(graph, "lines", lambda n: n.offchip_lines(line_bytes))


def by_tensor(graph: Graph, whole: Metric) -> dict[str, Metric]:
    """A metric's share of each off-chip tensor."""
    return {t.name: whole.of({n.name for n in graph.users(t)}) for t in graph.tensors.values()}


def _pages(graph: Graph, config: Config | None, units: UnitGraph | None) -> dict[str, sympy.Expr]:
    """Shares of the rule ``machine`` by operator."""
    if config is None:
        raise ProgramError(
            f"on-chip rule `{onchip.RULE}` needs a configuration: it counts the pages of a machine",
            remedy="pass config, or use the rule `paper` or `published`",
        )
    return onchip.requirement(lower(graph, config) if units is None else units, config.machine)
