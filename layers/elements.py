"""Lines of element-wise operations, and of those along rows."""

from __future__ import annotations

import sympy

from .form import Argument, Operation, Ref
from .lines import Data, Lines, Off
from .translation import is_float

ELEMENTS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "maximum": "max",
    "minimum": "min",
    **{n: n for n in ("lt", "le", "gt", "ge", "eq")},
}
"""Functions of a Map by operations of two operands."""
UNARY = ("abs", "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu")
COMMUTATIVE = ("add", "mul", "maximum", "minimum", "eq")
LEAST = -3.4028234663852886e38
"""Least number of fp32."""
ROWS = {"sum": "row_sum()", "amax": "row_max()"}


class Elements(Lines):
    """Operations of which each stream keeps its tiles."""

    def do_elements(self, op: Operation) -> Data:
        a, b = op.args["x"], op.args["y"]
        fn, shape = ELEMENTS[op.op], op.out.shape
        if not isinstance(b, Ref):
            x = self.data(op, a)
            return self.assign(op.out.name, self.map(*self._number(op, fn, b, x.name)), x)
        if not isinstance(a, Ref):
            return self._number_first(op, fn, a, self.data(op, b))
        off = [isinstance(self.found[r.name], Off) for r in (a, b)]
        if all(off):
            x = self.data(op, a)
            off[0] = False
        if any(off):
            if off[0] and op.op not in COMMUTATIVE:
                x = self.data(op, b)
                other = self.beside(op, self.found[a.name], x, shape)  # type: ignore[arg-type]
                return self.assign(op.out.name, self.map(f'"{fn}"', other, x.name), x)
            a, b = (b, a) if off[0] else (a, b)
            x = self.data(op, a)
            other = self.beside(op, self.found[b.name], x, shape)  # type: ignore[arg-type]
            return self.assign(op.out.name, self.map(f'"{fn}"', x.name, other), x)
        x, y = self.same_tiles(op, self.data(op, a), self.data(op, b))
        if x.width == 1 and y.width != 1 and op.op in COMMUTATIVE:
            x, y = y, x
        text = self.map(f'"{fn}"', *self.join(x, y))
        return self.assign(op.out.name, text, x, y)

    def _number(self, op: Operation, fn: str, number: Argument, x: str) -> tuple[str, str]:
        value = self._constant(op, number)
        if fn == "mul":
            return f"scale({value})", x
        if fn == "sub":
            return f'immediate("add", {-value})', x
        return f'immediate("{fn}", {value})', x

    def _constant(self, op: Operation, number: Argument) -> float:
        if isinstance(number, sympy.Expr) and number.is_number:
            number = float(number)
        if not isinstance(number, (int, float)):
            raise self.refuse(op, "takes a number that the sizes of a run decide")
        return float(number)

    def _number_first(self, op: Operation, fn: str, number: Argument, x: Data) -> Data:
        value = self._constant(op, number)
        if op.op in COMMUTATIVE:
            text = self.map(*self._number(op, fn, value, x.name))
        elif fn == "sub":
            text = self.map(f'immediate("add", {value})', self.map("scale(-1.0)", x.name))
        elif fn == "div":
            text = self.map(f"scale({value})", self.map('"recip"', x.name))
        else:
            raise self.refuse(op, "has a number as its first operand")
        return self.assign(op.out.name, text, x)

    def do_unary(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        return self.assign(op.out.name, self.map(f'"{op.op}"', x.name), x)

    def do_neg(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        return self.assign(op.out.name, self.map("scale(-1.0)", x.name), x)

    def do_where(self, op: Operation) -> Data:
        """Both sides, of which a number is spread over the condition's tiles."""
        condition = self.data(op, op.args["x"])
        sides = {k: op.args[k] for k in ("y", "z")}
        for k, side in sides.items():
            if not isinstance(side, Ref):
                continue
            off = self.found[side.name]
            if isinstance(off, Off):
                sides[k] = self.beside(op, off, condition, op.out.shape)
                continue
            condition, other = self.same_tiles(op, condition, self.data(op, side))
            waiting, sides[k] = self.join(condition, other)
            if waiting != condition.name:
                condition = self.assign(f"{condition.name}_held", waiting, condition, other)
        for k, side in sides.items():
            if not isinstance(side, str):  # the least number of fp32 for -inf
                zero = self.map("scale(0.0)", condition.name)
                number = max(self._constant(op, side), LEAST)
                sides[k] = self.map(f'immediate("add", {number})', zero)
        text = self.call("where", condition.name, *sides.values())
        return self.assign(op.out.name, text, condition)

    def do_expm1(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        inner = self.map('"exp"', x.name)
        return self.assign(op.out.name, self.map('immediate("add", -1.0)', inner), x)

    def do_gelu(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        fn = '"gelu_tanh"' if op.args["approximate"] == "tanh" else '"gelu"'
        return self.assign(op.out.name, self.map(fn, x.name), x)

    def do_cast(self, op: Operation) -> object:
        """Numbers stay fp32 between products."""
        (x,) = op.reads()
        made = self.layer.maker(op.args["x"], "reshape", "expand")
        mark = op.out.dtype == "bool" and made is not None and made.op == "scatter"
        old = self.layer.values[x].dtype
        if old not in ("bool", op.out.dtype) and not is_float(op.out.dtype) and not mark:
            raise self.refuse(op, f"makes {op.out.dtype} of numbers that the run makes")
        return self.found[x]

    def _last(self, op: Operation, x: Data) -> None:
        dims = op.args["dims"] if "dims" in op.args else (op.args["dim"],)
        if dims != (len(op.out.shape) - 1,) or (x.roles and x.roles[-1] != "c"):
            raise self.refuse(op, "goes along another dimension than the last", "permute it last")

    def do_mean(self, op: Operation) -> Data:
        x, dims = self.data(op, op.args["x"]), op.args["dims"]
        if x.roles and len(dims) == 1 and x.roles[dims[0]] == "h":
            text = self.call("mean_of_heads", x.name)
            return self.assign(op.out.name, text, x, roles=(), heads=1, regrouped=x.regrouped + 1)
        self._last(op, x)
        return self.assign(op.out.name, self.call("mean", x.name), x, width=1)

    def do_sum(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        self._last(op, x)
        return self.assign(op.out.name, self.map(ROWS[op.op], x.name), x, width=1)

    do_amax = do_sum

    def do_softmax(self, op: Operation) -> Data:
        x = self.data(op, op.args["x"])
        self._last(op, x)
        return self.assign(op.out.name, self.call("softmax", x.name), x)

    def made_rms_norm(self, op: Operation, x: Ref, epsilon: float) -> Data:
        d = self.data(op, x)
        return self.assign(op.out.name, self.call("rms_norm", d.name, repr(epsilon)), d)

    def made_rotate(self, op: Operation, x: Ref, form: str) -> Data:
        d = self.data(op, x)
        return self.assign(op.out.name, self.map(f'rotate("{form}")', d.name), d)

    def made_rotary(self, op: Operation, x: Ref, cos: Ref, sin: Ref, form: str) -> Data:
        d = self.data(op, x)
        tables = [
            self.beside(op, self.found[t.name], d, op.out.shape)  # type: ignore[arg-type]
            for t in (cos, sin)
        ]
        more = [] if form == "halves" else [f'"{form}"']
        return self.assign(op.out.name, self.call("rotary", d.name, *tables, *more), d)
