"""Experts, recognised by what they compute: one operation for the region between a choice of
experts (``topk``) and the weighted sum of their results.

Four ways to write it are known: rows sorted by expert and products of groups, weights gathered for
each row, a loop over experts that gathers rows, and one in which all experts work on all rows. How
a row finds its expert and the sum its row is not followed: the region and its replacement are
evaluated on drawn choices, and must agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from ..frontend.symbols import count_symbol
from .checking import DRAWS, agrees, choices, computation, sizes_for
from .form import Argument, Body, Layer, Operation, Ref, Size, Value
from .interpret import Evaluation
from .meaning import ELEMENTS
from .simplify import collapse, collapsed, read_by, renamed, without_unread
from .translation import is_float

ROWS = count_symbol("rows")
"""Rows of an expert."""
_MOVES = ("reshape", "expand", "cast", "index")
"""Operations that move rows and weights of a routing, and do not change them."""


class _UnlikeError(Exception):
    """A value that is not made as an expert's."""


@dataclass
class _Expert:
    """One expert, as its region is walked from its result back to its rows.

    Attributes
    ----------
    count
        Rows of the values in its region.
    source
        Value that its rows are gathered from.
    stacks, shared
        Weights of which each expert has its part, and others, in the order in which they are met.
    operations
        As of a :class:`~.form.Body`.
    """

    count: Size
    source: str | None = None
    stacks: dict[str, None] = field(default_factory=dict)
    shared: dict[str, None] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def body(self, layer: Layer, weights: dict[str, Ref | tuple[Ref, ...]]) -> Body:
        assert self.source is not None
        source = layer.values[self.source]
        rows = Value("rows", (ROWS, *source.shape[1:]), source.dtype)
        shapes = {rows.name: rows.shape} | {op.out.name: op.out.shape for op in self.operations}
        operations, names = collapse(self.operations, shapes)
        last = self.operations[-1].out.name
        return Body(rows, weights, read_by(operations, [names.get(last, last)]))


def with_experts(layer: Layer) -> Layer:
    """The layer with its experts as operations ``experts``.

    Raises
    ------
    ProgramError
        A region looks like experts, and computes something else.
    """
    for choice in [op.outputs[1].name for op in layer.operations if op.op == "topk"][::-1]:
        search = _Search(layer, choice)
        for end in layer.operations:
            found = search.at(end)
            if found:
                layer = _replaced(layer, end, found)
                break
    return layer


def _replaced(layer: Layer, end: Operation, found: list[Operation]) -> Layer:
    operations: list[Operation] = []
    for op in layer.operations:
        operations += found if op is end else [op]
    return without_unread(collapsed(replace(layer, operations=tuple(operations))))


class _Search:
    """The region of one choice of experts.

    Attributes
    ----------
    choice
        The chosen indices.
    routing
        Values that these alone decide, and control.
    views
        Weights, and views of them.
    dependent
        Values that the choice has a part in.
    """

    def __init__(self, layer: Layer, choice: str):
        self.layer = layer
        self.choice = choice
        self.routing = {choice} | {v.name for op in layer.control for v in op.outputs}
        self.views = set(layer.weights)
        self.dependent = {choice}
        chosen = {choice}
        for op in layer.operations:
            reads = set(op.reads())
            names = {v.name for v in op.outputs}
            if reads & self.dependent:
                self.dependent |= names
            if reads and reads <= self.views:
                self.views |= names
            elif reads & chosen and reads <= self.routing:
                self.routing |= names
                chosen |= names

    def at(self, end: Operation) -> list[Operation]:
        """Operations for ``end``, if it is the weighted sum of this choice."""
        ways = []
        if end.op == "sum" and end.args["dims"] == (1,) and len(end.out.shape) == 3:
            ways = [self._pairs]
        elif end.op == "index_rows" and end.args["add"]:
            ways = [self._loop, self._pairs]
        elif end.op == "add":
            ways = [self._dense]
        for way in ways:
            with contextlib.suppress(_UnlikeError):
                return way(end)
        return []

    def _maker(self, name: str, *through: str) -> Operation:
        """The operation that makes a value; operations ``through`` are passed by."""
        op = self.layer.maker(Ref(name), *through)
        if op is None:
            raise _UnlikeError
        return op

    def _shape(self, name: str) -> tuple[Size, ...]:
        return self.layer.values[name].shape

    def _weighted(self, product: Operation) -> tuple[str, str]:
        """The results and the routing's weights of their product."""
        if product.op == "mul":
            for y, w in (("x", "y"), ("y", "x")):
                weights = self._weights(product.args[w])
                if weights is not None and isinstance(product.args[y], Ref):
                    return product.args[y].name, weights
        raise _UnlikeError

    def _weights(self, x: Argument) -> str | None:
        """The value with one weight for each index of the choice, that ``x`` has weights of."""
        name = x.name if isinstance(x, Ref) else ""
        found: str | None = None
        while name:
            v = self.layer.values[name]
            if v.shape == self._shape(self.choice) and is_float(v.dtype):
                found = name  # with one expert a row, sorted weights have the same shape
            op = self.layer.makers.get(name)
            if op is None or op.op not in _MOVES:
                break
            name = op.args["x"].name
        return found

    def _pairs(self, end: Operation) -> list[Operation]:
        """Experts where each pair of a row and an expert is a row of its own, sorted or not."""
        summed = end.args["x" if end.op == "sum" else "value"].name
        result, weights = self._weighted(self._maker(summed, *_MOVES))
        expert = _Expert(self._shape(result)[0])
        self._walk(result, expert)
        counts = {self._shape(name)[0] for name in expert.stacks}
        if len(counts) != 1:
            raise _UnlikeError
        (count,) = counts
        if not isinstance(count, int):
            raise _UnlikeError
        given: dict[str, Ref | tuple[Ref, ...]] = {n: Ref(n) for n in expert.stacks}
        given |= {n: (Ref(n),) * count for n in expert.shared}
        return self._checked(end, weights, expert, expert.body(self.layer, given), count)

    def _loop(self, end: Operation) -> list[Operation]:
        """Experts one after the other, each adding to rows that it has gathered."""
        if any(
            op.op == "index_rows" and op.args["x"] == Ref(end.out.name)
            for op in self.layer.operations
        ):
            return []
        steps = [end]
        while (op := self._maker(steps[-1].args["x"].name, "cast")).op == "index_rows":
            steps.append(op)
        if op.op != "full" or op.args["value"] != 0 or any(s.args["dim"] for s in steps):
            raise _UnlikeError
        found: dict[int, _Expert] = {}
        weights = ""
        order = self._numbers([s.args["index"].name for s in steps])
        for number, step in zip(order, steps, strict=True):
            product = self._maker(step.args["value"].name, "cast")
            result, weights = self._weighted(product)
            found[number] = _Expert(self._shape(result)[0])
            self._walk(result, found[number])
        return self._alike(end, weights, found)

    def _dense(self, end: Operation) -> list[Operation]:
        """Experts that all work on all rows, each times its share: 0 where it is not chosen."""
        count = self._maker(self.choice).args["x"].name
        experts = self._shape(count)[-1]
        terms = [self._weighted_by_share(name) for name in self._terms(end.out.name)]
        if len(terms) != experts or len(end.out.shape) != 2:
            raise _UnlikeError
        weights = self._source_of_share(terms[0][1])
        common = [set(self._needed(result)) for result, _ in terms]
        shared = [n for n in self._needed(terms[0][0]) if all(n in c for c in common)]
        sources = [n for n in shared if self._shape(n)[:1] == end.out.shape[:1]]
        if not sources:
            raise _UnlikeError
        found: dict[int, _Expert] = {}
        for number, (result, _) in zip(self._shares(terms, weights), terms, strict=True):
            found[number] = _Expert(end.out.shape[0], sources[-1], names={sources[-1]: "rows"})
            self._walk(result, found[number])
        return self._alike(end, weights, found)

    def _terms(self, name: str) -> list[str]:
        """Terms of a chain of additions, but for zeros."""
        op = self._maker(name)
        if op.op == "add" and all(isinstance(op.args[k], Ref) for k in ("x", "y")):
            return [n for k in ("x", "y") for n in self._terms(op.args[k].name)]
        return [] if op.op == "full" and op.args["value"] == 0 else [name]

    def _weighted_by_share(self, name: str) -> tuple[str, str]:
        """An expert's results and its shares [rows, 1], of their product."""
        product = self._maker(name, "cast")
        if product.op == "mul" and all(isinstance(product.args[k], Ref) for k in ("x", "y")):
            for y, w in (("x", "y"), ("y", "x")):
                share = product.args[w].name
                if self._shape(share)[1:] == (1,) and self.choice in self._needed(share):
                    return product.args[y].name, share
        raise _UnlikeError

    def _needed(self, name: str) -> list[str]:
        """Values that one is made of, in order."""
        steps = read_by(self.layer.control + self.layer.operations, [name])
        made = [v.name for op in steps for v in op.outputs if v.name != name]
        return [v.name for v in self.layer.inputs] + made

    def _source_of_share(self, share: str) -> str:
        """The routing's weights, of which shares are made."""
        shape = self._shape(self.choice)
        steps = read_by(self.layer.operations, [share])
        beside = {n for op in steps if self.routing & set(op.reads()) for n in op.reads()}
        for name in [n for op in reversed(steps) for n in op.reads()]:
            v = self.layer.values[name]
            if v.shape == shape and is_float(v.dtype) and name in beside and name != share:
                if name not in self.routing and not self.routing & set(self._maker(name).reads()):
                    return name
        raise _UnlikeError

    def _shares(self, terms: list[tuple[str, str]], weights: str) -> list[int]:
        """The expert of each term: the one whose weights its shares are on drawn choices."""
        run, chosen = self._draw(len(terms))
        drawn = np.random.default_rng(1).random(chosen.shape)
        run.values[weights] = drawn
        names = [share for _, share in terms]
        self._run(run, computation(self.layer, names, [self.choice, weights]))
        wanted = [(drawn * (chosen == e)).sum(-1) for e in range(len(terms))]
        return _matched([run.values[n][:, 0] for n in names], wanted)

    def _draw(self, experts: int) -> tuple[Evaluation, np.ndarray]:
        """An evaluation of drawn choices, and these."""
        run = Evaluation({}, sizes_for(self.layer, 3 + DRAWS), wide=True)
        shape = run.result(self.layer.values[self.choice]).shape
        if shape[-1] > experts:
            raise _UnlikeError
        chosen = choices(shape, experts, np.random.default_rng(0), -1)
        run.values[self.choice] = chosen
        return run, chosen

    def _run(self, run: Evaluation, steps: Iterable[Operation]) -> None:
        try:
            run.run(steps)
        except (KeyError, ValueError, IndexError, TypeError):
            raise _UnlikeError from None

    def _alike(self, end: Operation, weights: str, found: dict[int, _Expert]) -> list[Operation]:
        """The replacement of experts that are walked one by one, if they compute the same."""
        first = found[0]
        if any(_form(e) != _form(first) for e in found.values()):
            raise _UnlikeError
        columns = [[*found[e].stacks, *found[e].shared] for e in range(len(found))]
        given = {names[0]: self._stack(names) for names in zip(*columns, strict=True)}
        return self._checked(end, weights, first, first.body(self.layer, given), len(found))

    def _stack(self, names: tuple[str, ...]) -> Ref | tuple[Ref, ...]:
        """Weights of experts, one for each: the stack whose parts they are in order, if any."""
        parts = [self.layer.makers.get(n) for n in names]
        cuts = [self.layer.makers.get(p.args["x"].name) if p else None for p in parts]
        bases = {c.args["x"].name for c in cuts if c is not None and c.op == "slice"}
        places = [(c.args["dim"], c.args["start"]) if c else None for c in cuts]
        if len(bases) == 1 and places == [(0, e) for e in range(len(names))]:
            (base,) = bases
            whole, part = self._shape(base), self._shape(names[0])
            if whole == (len(names), *part) and base in self.views:
                return Ref(base)
        return tuple(map(Ref, names))

    def _numbers(self, indices: list[str]) -> list[int]:
        """The expert of each step of a loop: the one whose rows it gathers on drawn choices."""
        if not set(indices) <= self.routing:
            raise _UnlikeError
        run, chosen = self._draw(len(indices))
        self._run(run, computation(self.layer, indices, [self.choice]))
        flat = chosen.reshape(-1, chosen.shape[-1])
        wanted = [np.nonzero(flat == e)[0] for e in range(len(indices))]
        return _matched([np.sort(run.values[name]) for name in indices], wanted)

    def _walk(self, name: str, expert: _Expert) -> str:
        """Take a value's computation into the expert's body; its name there."""
        if name not in expert.names:
            expert.names[name] = self._taken(name, expert)
        return expert.names[name]

    def _taken(self, name: str, expert: _Expert) -> str:
        if name not in self.layer.makers and self._is_source(name, expert):
            expert.source = name
            return "rows"
        op = self._maker(name)
        stack = self._gathered(op, self.views)
        if stack is not None:
            expert.stacks[stack] = None
            return stack
        if op.out.shape[0] != expert.count or len(op.outputs) > 1:
            raise _UnlikeError
        source = self._gathered(op, None) or self._repeated(op)
        if source is None and self._is_source(name, expert):
            source = name
        if source is not None:
            if expert.source not in (None, source):
                raise _UnlikeError
            expert.source = source
            return "rows"
        if op.op == "grouped_mm":
            x, stack = self._walk(op.args["x"].name, expert), op.args["weight"].name
            if op.args["ends"].name not in self.routing or stack not in self.views:
                raise _UnlikeError
            return self._product(op, x, stack, expert, columns=False)
        if op.op == "matmul" and len(op.out.shape) == 3:
            x, y = (op.args[k].name for k in ("x", "y"))
            stacks = [self._gathered(self._maker(n), self.views) for n in (x, y)]
            if stacks[0] and self._shape(y)[2] == 1:
                return self._product(op, self._walk(y, expert), stacks[0], expert, columns=True)
            if stacks[1] and self._shape(x)[1] == 1:
                return self._product(op, self._walk(x, expert), stacks[1], expert, columns=False)
        if _mixes_rows(op):
            raise _UnlikeError
        op = replace(op, args={k: self._inner(a, op, expert) for k, a in op.args.items()})
        out = replace(op.out, shape=(ROWS, *op.out.shape[1:]))
        expert.operations.append(replace(op, outputs=(out,)))
        return name

    def _is_source(self, name: str, expert: _Expert) -> bool:
        """True for rows that the choice has no part in: those of one expert a row, not repeated."""
        shape = self._shape(name)
        new = expert.source in (None, name) and name not in self.dependent
        return new and len(shape) == 2 and shape[0] == expert.count

    def _product(self, op: Operation, x: str, stack: str, expert: _Expert, *, columns: bool) -> str:
        """Rows times each expert's matrix, which is [out, in] if ``columns``, else [in, out]."""
        view = self.layer.makers.get(stack)
        if view is not None and view.op == "permute" and view.args["dims"] == (0, 2, 1):
            stack, columns = view.args["x"].name, not columns
        expert.stacks[stack] = None
        n, m = self._shape(stack)[1:]
        outs, ins = (n, m) if columns else (m, n)
        rows, made = (replace(op.out, shape=(ROWS, s)) for s in (ins, outs))
        rows = replace(rows, name=f"{op.out.name}__in")
        made = replace(made, name=f"{op.out.name}__out")
        args = {"x": Ref(rows.name), "weight": Ref(stack), "bias": None}
        if not columns:
            args = {"x": Ref(rows.name), "y": Ref(stack)}
        last = replace(op.out, shape=(ROWS, *op.out.shape[1:]))
        expert.operations += [
            replace(op, op="reshape", args={"x": Ref(x)}, outputs=(rows,)),
            replace(op, op="linear" if columns else "matmul", args=args, outputs=(made,)),
            replace(op, op="reshape", args={"x": Ref(made.name)}, outputs=(last,)),
        ]
        return last.name

    def _inner(self, a: Argument, op: Operation, expert: _Expert) -> Argument:
        if isinstance(a, tuple):
            return tuple(self._inner(x, op, expert) for x in a)
        if not isinstance(a, Ref):
            return a
        if a.name in self.views or a.name in self.routing:
            if op.op in ELEMENTS and len(self._shape(a.name)) >= len(op.out.shape):
                raise _UnlikeError
            expert.shared[a.name] = None
            return a
        return Ref(self._walk(a.name, expert))

    def _gathered(self, op: Operation, views: set[str] | None) -> str | None:
        """The value that rows are gathered from by the choice: one of ``views``, or no weight."""
        if op.op != "index" or len(op.args["indices"]) != 1:
            return None
        x, (at,) = op.args["x"].name, op.args["indices"]
        fits = x in views if views is not None else x not in self.views
        return x if fits and isinstance(at, Ref) and at.name in self.routing else None

    def _repeated(self, op: Operation) -> str | None:
        """The value whose rows are repeated, once for each choice."""
        if op.op != "reshape":
            return None
        wide = self.layer.makers.get(op.args["x"].name)
        if wide is None or wide.op != "expand":
            return None
        one = self.layer.makers.get(wide.args["x"].name)
        if one is None or one.op != "reshape" or 1 not in one.out.shape[:2]:
            return None
        return one.args["x"].name

    def _checked(
        self, end: Operation, weights: str, expert: _Expert, body: Body, count: int
    ) -> list[Operation]:
        """The replacement of a region, once it is found to be equal."""
        if expert.source is None or len(self._shape(expert.source)) != 2:
            raise _UnlikeError
        tokens, features = self._shape(expert.source)[0], body.out.shape[1:]
        found: list[Operation] = []
        flat: list[Ref] = []
        for name in (self.choice, weights):
            v = self.layer.values[name]
            if len(v.shape) != 2:
                v = replace(v, name=f"{name}__rows", shape=(tokens, v.shape[-1]))
                found.append(replace(end, op="reshape", args={"x": Ref(name)}, outputs=(v,)))
            flat.append(Ref(v.name))
        made = Value(f"{end.out.name}__experts", (tokens, *features), end.out.dtype)
        args = {"x": Ref(expert.source), "indices": flat[0], "weights": flat[1], "count": count}
        found += [
            replace(end, op="experts", args=args | {"body": body}, outputs=(made,)),
            replace(end, op="reshape", args={"x": Ref(made.name)}),
        ]
        if not agrees(self.layer, end, found, (expert.source, self.choice, weights), count):
            raise _UnlikeError
        return found


def _matched(found: list[np.ndarray], wanted: list[np.ndarray]) -> list[int]:
    """The place of each array among those that are wanted, each taken once."""
    places = [
        next((e for e, w in enumerate(wanted) if f.shape == w.shape and np.allclose(f, w)), -1)
        for f in found
    ]
    if sorted(places) != list(range(len(wanted))):
        raise _UnlikeError
    return places


def _mixes_rows(op: Operation) -> bool:
    """True for an operation that works across the first dimension."""
    dims = op.args.get("dims", op.args.get("dim", ()))
    if op.op == "permute":
        return dims[0] != 0
    return 0 in (dims if isinstance(dims, tuple) else (dims,))


def _form(e: _Expert) -> object:
    """Computation of an expert, whatever its values are called."""
    names = {n: f"w{i}" for i, n in enumerate([*e.stacks, *e.shared])}
    names |= {op.out.name: f"v{i}" for i, op in enumerate(e.operations)}
    shapes = [op.out.shape for op in e.operations]
    calls = [(op.op, {k: renamed(a, names) for k, a in op.args.items()}) for op in e.operations]
    return e.source, calls, shapes
