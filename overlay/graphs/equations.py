"""Device equations in SymPy, with the derivatives a Newton solver needs, as dataflow graphs.

A device is written as a list of intermediate results, each a small SymPy expression of earlier
ones, and of outputs. Derivatives follow the chain rule from one intermediate result to the next
(forward mode), so they stay as small as those in hand-written simulators.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from functools import cache, reduce

import numpy as np
import sympy as sy
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or

from ...machine.errors import ProgramError
from ..core.dataflow import DataflowGraph
from ..core.ops import Op
from .builder import Builder, Depth, Value, absolute, exp, log, maximum, minimum, power, where

EXP_LIMIT = 80.0
"""Argument from which :class:`LimExp` is continued by its tangent: e**80 fits in fp32."""


class LimExp(sy.Function):
    """e**x, continued by its tangent from EXP_LIMIT on."""

    nargs = 1

    def fdiff(self, argindex=1):
        return LimExpSlope(self.args[0])


class LimExpSlope(sy.Function):
    """Derivative of LimExp."""

    nargs = 1


class SoftPlus(sy.Function):
    """log(1 + e**x), without loss of accuracy for small e**x and without overflow."""

    nargs = 1

    def fdiff(self, argindex=1):
        return 1 / (1 + sy.exp(-self.args[0]))


# SymPy prints and sorts functions by the names of their classes.
LimExp.__name__ = "limexp"
LimExpSlope.__name__ = "limexp_slope"
SoftPlus.__name__ = "softplus"
limexp = LimExp
softplus = SoftPlus


def _lower_limexp(x: Value) -> Value:
    return where(
        EXP_LIMIT < x,
        exp(minimum(x, EXP_LIMIT)) * (x - (EXP_LIMIT - 1)),
        exp(minimum(x, EXP_LIMIT)),
    )


def _lower_softplus(x: Value) -> Value:
    small = exp(x)
    u = 1.0 + small
    return where(x > 15.0, x, where(u == 1.0, small, log(u) * small / (u - 1.0)))


_BINARY = {
    sy.Max: maximum,
    sy.Min: minimum,
    sy.Lt: operator.lt,
    sy.Le: operator.le,
    sy.Gt: operator.gt,
    sy.Ge: operator.ge,
    sy.Eq: operator.eq,
    sy.Ne: operator.ne,
}
"""Functions of two operands, or of several from left to right, as operations of the ALU."""

_UNARY = {
    Not: operator.invert,
    sy.exp: exp,
    sy.log: log,
    sy.Abs: absolute,
    LimExp: _lower_limexp,
    LimExpSlope: lambda x: exp(minimum(x, EXP_LIMIT)),
    SoftPlus: _lower_softplus,
}
"""Functions of one operand as operations of the ALU."""


@cache
def _compiled(e: sy.Expr, args: tuple):
    return sy.lambdify(args, e, modules=[_NUMPY, "numpy"])


def _limexp_np(x):
    m = np.minimum(x, EXP_LIMIT)
    return np.exp(m) * (1 + x - m)


_NUMPY = {
    "limexp": _limexp_np,
    "LimExpSlope": lambda x: np.exp(np.minimum(x, EXP_LIMIT)),
    "softplus": lambda x: np.logaddexp(0, x),
}


@dataclass
class Equations:
    """One device model."""

    # name, about: name in ``device:NAME``, and what is modelled, after which publication
    name: str
    about: str
    # independent variables: symbol -> (default, lowest, highest sensible value). Outputs are
    # differentiated with respect to these.
    biases: dict = field(default_factory=dict)
    # parameters: symbol -> default. Inputs of the graph, like the biases.
    params: dict = field(default_factory=dict)
    lets: dict = field(default_factory=dict)  # intermediate results, in order: symbol -> expression
    outputs: dict = field(default_factory=dict)  # name -> expression (currents in A, charges in C)

    def bias(self, name: str, low: float, high: float, default: float) -> sy.Symbol:
        return self._add(self.biases, name, (default, low, high))

    def param(self, **values: float) -> list[sy.Symbol]:
        return [self._add(self.params, name, float(v)) for name, v in values.items()]

    def fixed(self, name: str, expr) -> sy.Symbol:
        """A parameter worked out on the host from other parameters: one input of the graph instead
        of its operations.
        """
        return self._add(self.params, name, float(sy.sympify(expr).subs(self.params)))

    def let(self, name: str, expr) -> sy.Symbol:
        """An intermediate result.

        A Piecewise within a larger expression becomes one of its own, so that derivatives stay case
        by case.
        """
        expr = sy.sympify(expr)
        if not isinstance(expr, sy.Piecewise):
            for i, case in enumerate(sorted(expr.atoms(sy.Piecewise), key=str)):
                expr = expr.xreplace({case: self._add(self.lets, f"{name}_case{i}", case)})
        return self._add(self.lets, name, expr)

    def out(self, name: str, expr) -> sy.Symbol:
        s = expr if isinstance(expr, sy.Symbol) and expr in self.lets else self.let(name, expr)
        self.outputs[name] = s
        return s

    def _add(self, table, name, what):
        s = sy.Symbol(name, real=True)
        if any(s in t for t in (self.biases, self.params, self.lets)):
            raise ProgramError(f"{name} is defined twice", f"device {self.name}")
        table[s] = what
        return s

    def derivatives(self) -> tuple[dict[sy.Symbol, sy.Expr], dict[str, sy.Expr]]:
        """Intermediate derivatives (symbol -> expression, to follow the lets) and those of the
        outputs: d<output>_d<bias>, where not zero.
        """
        total: dict[sy.Symbol, dict[sy.Symbol, sy.Expr]] = {
            v: {v: sy.Integer(1)} for v in self.biases
        }
        chain: dict[sy.Symbol, sy.Expr] = {}
        for s, e in self.lets.items():
            total[s] = {}
            for v in self.biases:
                if isinstance(
                    e, sy.Piecewise
                ):  # case by case: a case not taken may be a NaN, which must not be multiplied by 0
                    d = sy.Piecewise(*((self._slope(x, v, total), c) for x, c in e.args))
                else:
                    d = self._slope(e, v, total)
                if d == 0:
                    continue
                if d.is_Symbol or d.is_number:
                    total[s][v] = d
                else:
                    total[s][v] = name = sy.Symbol(f"{s}__{v}", real=True)
                    chain[name] = d
        return chain, {
            f"d{name}_d{v}": total[s][v]
            for name, s in self.outputs.items()
            for v in self.biases
            if v in total[s]
        }

    @staticmethod
    def _slope(e: sy.Expr, v: sy.Symbol, total: dict) -> sy.Expr:
        """de/dv, with those of earlier results known."""
        inner = [x for x in sorted(e.free_symbols, key=str) if v in total.get(x, ())]
        return sum((sy.diff(e, x) * total[x][v] for x in inner), sy.Integer(0))

    def graph(self) -> DataflowGraph:
        """Currents, charges and all their derivatives; inputs are biases and parameters."""
        chain, slopes = self.derivatives()
        g = _Lowering(self.name)
        for s, default in [(v, d[0]) for v, d in self.biases.items()] + list(self.params.items()):
            g.values[s] = g.builder.input(str(s), default)
        steps = {**self.lets, **chain}
        replaced, reduced = sy.cse(
            list(steps.values()),
            symbols=(sy.Symbol(f"_{i}", real=True) for i in range(1 << 30)),
            order="none",
        )
        g.pending = dict(replaced) | dict(zip(steps, reduced, strict=True))
        for name, s in self.outputs.items():
            g.builder.output(name, g.lower(s))
        for name, e in slopes.items():
            g.builder.output(name, g.lower(e))
        return g.builder.graph()

    def reference(self, inputs: dict[str, np.ndarray], dtype=np.float64) -> dict[str, np.ndarray]:
        """Outputs (not derivatives) in float64, or a wider NumPy type, through SymPy's lambdify."""
        known = {v: d[0] for v, d in self.biases.items()} | self.params
        known |= {s: np.asarray(inputs[str(s)], dtype) for s in known if str(s) in inputs}
        with np.errstate(all="ignore"):
            for s, e in self.lets.items():
                args = sorted(e.free_symbols, key=str)
                known[s] = _compiled(e, tuple(args))(*(np.asarray(known[a], dtype) for a in args))
        return {name: known[s] for name, s in self.outputs.items()}

    def random_biases(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """``n`` points, even over the ranges, rounded to fp32."""
        return {
            str(v): rng.uniform(low, high, n).astype(np.float32)
            for v, (_, low, high) in self.biases.items()
        }


class _Lowering:
    """SymPy expressions to nodes."""

    def __init__(self, title: str):
        self.builder = Builder(title)
        self.values: dict[sy.Symbol, Value] = {}
        self.pending: dict[sy.Symbol, sy.Expr] = {}
        self.depth = Depth(self.builder)
        self._done: dict[sy.Basic, Value] = {}

    def lower(self, e: sy.Basic) -> Value:
        """The node of an expression; equal expressions are one node."""
        if e.is_Symbol:
            if e not in self.values:
                self.values[e] = self.lower(self.pending.pop(e))
            return self.values[e]
        if e not in self._done:
            self._done[e] = self._lower(e)
        return self._done[e]

    def _lower(self, e) -> Value:
        if e.is_Number or e.is_NumberSymbol:
            return self.builder.constant(float(e))
        if e.is_Add:
            return self._sum(e.args)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            base, n = e.args
            if n.is_Number and float(2 * n).is_integer():
                return power(self.lower(base), float(n))
            return exp(self.lower(n) * log(self.lower(base)))
        if isinstance(e, sy.Piecewise):
            return self._piecewise(e.args)
        if isinstance(e, (And, Or)):
            terms = [self.lower(x) for x in sorted(e.args, key=str)]
            return reduce(operator.and_ if isinstance(e, And) else operator.or_, terms)
        if e.func in _BINARY:
            return reduce(_BINARY[e.func], [self.lower(x) for x in e.args])
        if e.func in _UNARY:
            return _UNARY[e.func](self.lower(e.args[0]))
        raise ProgramError(
            f"{e.func.__name__} has no meaning on the ALU", f"device {self.builder.title}"
        )

    def _sum(self, terms) -> Value:
        plus = []
        minus = []
        for t in terms:
            (minus if t.could_extract_minus_sign() else plus).append(t)
        less = [self.lower(-t) for t in minus]
        if not plus:
            return -self.depth.join(Op.ADD, less)
        more = self.depth.join(Op.ADD, [self.lower(t) for t in plus])
        return more - self.depth.join(Op.ADD, less) if less else more

    def _product(self, e) -> Value:
        if e.args[0] == -1:
            return -self.lower(sy.Mul(*e.args[1:]))
        over = []
        under = []
        for x in e.args:
            if x.is_Pow and x.args[1].could_extract_minus_sign():
                under.append(1 / x)
            elif x.is_Rational and x.p in (1, -1) and x.q & (x.q - 1) and not x.is_Integer:
                under.append(sy.Integer(x.q) * x.p)
            else:
                over.append(x)
        top = (
            self.depth.join(Op.MUL, [self.lower(x) for x in over])
            if over
            else self.builder.constant(1.0)
        )
        return top / self.depth.join(Op.MUL, [self.lower(x) for x in under]) if under else top

    def _piecewise(self, cases) -> Value:
        (value, condition), *rest = cases
        if isinstance(condition, BooleanTrue):
            return self.lower(value)
        if isinstance(condition, BooleanFalse):
            return self._piecewise(rest)
        if not rest:
            raise ProgramError(
                f"a case of {condition} has no alternative", f"device {self.builder.title}"
            )
        last = isinstance(rest[0][1], BooleanTrue)
        other = self._case(rest[0][0]) if last else self._piecewise(rest)
        return where(self.lower(condition), self._case(value), other)

    def _case(self, value: sy.Expr) -> Value | float:
        """Value of a case; a number stays one, for `where` leaves out a zero."""
        return float(value) if value.is_Number else self.lower(value)
