"""Operations of a layer that one block computes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .form import Operation, Ref, Size


@dataclass(frozen=True)
class Found:
    """A block in the place of an operation; kind ``skip``: another one's takes it in."""

    kind: str
    args: tuple[Any, ...] = ()


class _Search:
    def __init__(
        self,
        operations: Sequence[Operation],
        results: Sequence[str],
        off: Mapping[str, Sequence[Size]],
    ):
        self.results = results
        self.off = off
        self.makers = {v.name: op for op in operations for v in op.outputs}
        self.readers: dict[str, list[Operation]] = {}
        for op in operations:
            for name in set(op.reads()):
                self.readers.setdefault(name, []).append(op)
        self.found: dict[str, Found] = {}

    def maker(self, argument: Any, *kinds: str) -> Operation | None:
        """The operation of one of these kinds that makes an argument; casts are passed."""
        while isinstance(argument, Ref):
            op = self.makers.get(argument.name)
            if op is None:
                return None
            if op.op in kinds:
                return op
            if op.op != "cast":
                return None
            argument = op.args["x"]
        return None

    def root(self, argument: Any) -> Any:
        """The argument without casts."""
        while isinstance(argument, Ref) and (op := self.maker(argument, "cast")):
            argument = op.args["x"]
        return argument

    def rms_norm(self, op: Operation) -> None:
        """x times the inverse root of the mean of its squares and a number."""
        for x, r in ((op.args["x"], op.args["y"]), (op.args["y"], op.args["x"])):
            root = self.maker(r, "rsqrt")
            plus = root and self.maker(root.args["x"], "add")
            mean = plus and self.maker(plus.args["x"], "mean")
            square = mean and self.maker(mean.args["x"], "mul")
            if not (plus and mean and square) or not isinstance(plus.args["y"], (int, float)):
                continue
            of = square.args["x"]
            last = mean.args["dims"] == (len(mean.out.shape) - 1,)
            if square.args["y"] == of and last and self.root(of) == self.root(x):
                self.found[op.out.name] = Found("rms_norm", (x, float(plus.args["y"])))

    def rotate(self, op: Operation) -> None:
        """The second half of the columns, negative, beside the first."""
        parts = op.args["tensors"]
        if len(parts) != 2 or op.args["dim"] != len(op.out.shape) - 1:
            return
        minus = self.maker(parts[0], "neg")
        second = minus and self.maker(minus.args["x"], "slice")
        first = self.maker(parts[1], "slice")
        if not second or not first or second.args["x"] != first.args["x"]:
            return
        width = op.out.shape[-1]
        want = [(width // 2, width), (0, width // 2)]
        cuts = [(o.args["start"], o.args["end"]) for o in (second, first)]
        if cuts == want and all(o.args["dim"] == op.args["dim"] for o in (second, first)):
            self.found[op.out.name] = Found("rotate", (first.args["x"], "halves"))

    def pairs(self, op: Operation) -> None:
        """Every second column, negative, in front of the one before it."""
        both = self.maker(op.args["x"], "cat")
        parts = both.args["tensors"] if both else ()
        shapes = [self.maker(p, "reshape") for p in parts]
        if len(parts) != 2 or not all(shapes):
            return
        minus = self.maker(shapes[0].args["x"], "neg")  # type: ignore[union-attr]
        second = minus and self.maker(minus.args["x"], "slice")
        first = self.maker(shapes[1].args["x"], "slice")  # type: ignore[union-attr]
        if not second or not first or second.args["x"] != first.args["x"]:
            return
        last = len(op.out.shape) - 1
        cuts = [(o.args["start"], o.args["step"], o.args["dim"]) for o in (second, first)]
        source = self.makers[first.args["x"].name].out.shape
        if cuts == [(1, 2, last), (0, 2, last)] and source == op.out.shape:
            self.found[op.out.name] = Found("rotate", (first.args["x"], "pairs"))

    def marked(self, op: Operation) -> None:
        """1 where a top-k has chosen, 0 elsewhere, each column several times."""
        wide = self.maker(op.args["x"], "expand")
        one = wide and self.maker(wide.args["x"], "reshape")
        scatter = one and self.maker(one.args["x"], "scatter")
        if scatter and one and wide:
            shape, again = scatter.out.shape, wide.out.shape[-1]
            whole = (*shape[:-1], shape[-1] * again)
            if (one.out.shape, wide.out.shape, op.out.shape) == (
                (*shape, 1),
                (*shape, again),
                whole,
            ):
                args = (scatter, again, scatter.args["index"])
                self.found[op.out.name] = Found("marked", args)

    def rotary(self, op: Operation) -> None:
        """x cos + rotate(x) sin."""
        for a, b in ((op.args["x"], op.args["y"]), (op.args["y"], op.args["x"])):
            plain, turned = self.maker(a, "mul"), self.maker(b, "mul")
            if not plain or not turned:
                continue
            for t, sin in (("x", "y"), ("y", "x")):
                rotated = turned.args[t]
                found = isinstance(rotated, Ref) and self.found.get(rotated.name)
                if not found or found.kind != "rotate":
                    continue
                for x, cos in (("x", "y"), ("y", "x")):
                    tables = plain.args[cos], turned.args[sin]
                    off = [isinstance(r, Ref) and r.name not in self.makers for r in tables]
                    if plain.args[x] == found.args[0] and all(off):
                        args = (found.args[0], *tables, found.args[1])
                        self.found[op.out.name] = Found("rotary", args)

    def parts(self, op: Operation) -> None:
        """A product with a weight, of which only columns are taken, behind its bias or before."""
        weight = op.args["weight" if op.op == "linear" else "y"].name
        if len(self.off.get(weight, ())) != 2:
            return
        last, bias, made = len(op.out.shape) - 1, op.args.get("bias"), op.out.name
        readers = self.readers.get(made, [])
        if len(readers) == 1 and readers[0].op == "add" and bias is None:
            others = [a for a in readers[0].args.values() if a != Ref(made)]
            if others and isinstance(others[0], Ref) and len(self.off.get(others[0].name, ())) == 1:
                bias, made = others[0], readers[0].out.name
        readers = [] if op.out.name in self.results else self.readers.get(made, [])
        if made in self.results or not readers:
            return
        if all(r.op == "slice" and r.args["dim"] == last for r in readers):
            self.found[op.out.name] = self.found[made] = Found("skip")
            for r in readers:
                cut = (r.args["start"], r.args["end"], r.args["step"])
                self.found[r.out.name] = Found("part", (op, bias, cut))


def search(
    operations: Sequence[Operation], results: Sequence[str], off: Mapping[str, Sequence[Size]]
) -> dict[str, Found]:
    """Blocks by the names of the values that they make; what only they need is skipped. ``off``:
    shapes of weights and of what is known before the start.
    """
    s = _Search(operations, results, off)
    for op in operations:
        if op.op == "mul":
            s.rms_norm(op)
        elif op.op == "cat":
            s.rotate(op)
        elif op.op == "reshape":
            s.pairs(op)
            s.marked(op)
        elif op.op == "scatter":
            s.found[op.out.name] = Found("marked", (op, 1, op.args["index"]))
        elif op.op in ("linear", "matmul"):
            s.parts(op)
    for op in operations:
        if op.op == "add":
            s.rotary(op)
    needed = Counter(results)
    for op in reversed(operations):
        names = [v.name for v in op.outputs]
        found = s.found.get(names[0])
        if not any(needed[n] for n in names):
            s.found[names[0]] = Found("skip")
        elif found is None:
            needed.update(op.reads())
        elif found.kind == "part":
            needed.update(found.args[0].reads())
        else:
            needed.update(a.name for a in found.args if isinstance(a, Ref))
    return s.found
