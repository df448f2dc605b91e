"""Archive, schedule and values of runs, to which the program of an imported layer refers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np
import sympy

from ..frontend import Graph, Source, Stream, TensorRef, TileType
from ..machine.errors import ProgramError
from . import schedule
from .archive import Archive
from .blocks import Cache, Lengths
from .form import Body, Layer, Operation, Value, Weight
from .interpret import control_values, evaluate
from .reader import read
from .translation import is_float

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Given:
    """Arrays of a run.

    Attributes
    ----------
    inputs, expected
        By the names of the signature, and ``out0``, ``out1``, ..; None: they are drawn, computed.
    choices
        Experts of each token, [tokens, k], where no values are computed.
    """

    inputs: Arrays | None = None
    expected: Arrays | None = None
    choices: np.ndarray | None = None


NOTHING = Given()
GIVEN: dict[str, Given] = {}
"""Arrays of the run to come, by the path of the program."""


def size_names(layer: Layer) -> dict[str, str]:
    """Names of a program's parameters for the layer's symbols: batch, tokens, or those of the input
    and dimension.
    """
    found: dict[str, str] = {}
    for v in layer.inputs:
        for i, s in enumerate(own_symbols(v)):
            if s and s not in found:
                name = f"{v.name}_{i}"
                if len(v.shape) == 3 and i < 2:
                    name = ("batch", "tokens")[i]
                elif len(v.shape) == 2 and not i:
                    name = "tokens"
                found[s] = f"{v.name}_{i}" if name in found.values() else name
    return found


def turned_by(layer: Layer, name: str) -> bool:
    """True for rows of the run whose two outer dimensions are exchanged."""
    op = layer.makers.get(name)
    early = {v.name for o in early_operations(layer) for v in o.outputs}
    return (
        op is not None and op.op == "permute" and op.args["dims"] == (1, 0, 2) and name not in early
    )


def own_symbols(v: Value) -> list[str]:
    """The symbol that each size of a value is; "" where it is none."""
    return [str(s) if isinstance(s, sympy.Symbol) else "" for s in v.shape]


class LayerFile:
    """The archive of a program, which is to have the digest that it had at import."""

    def __init__(self, program: str, archive: str, digest: str):
        self.program = str(Path(program).resolve())
        self.archive = Path(self.program).parent / archive
        self.digest = digest
        self.schedule = schedule.read(Path(self.program).with_suffix(".toml"))
        self._made: dict[tuple, Tensors] = {}
        self._drawn: dict[tuple, tuple[int, Given, Values]] = {}

    @cached_property
    def form(self) -> Layer:
        if not self.archive.exists():
            raise ProgramError(
                "is not there, and has the weights",
                str(self.archive),
                remedy="move it back, or run `penstock import` where it is now",
            )
        layer = read(self.archive)
        if layer.digest != self.digest:
            raise ProgramError(
                f"is not the archive that was imported: SHA-256 {layer.digest[:16]}.., not "
                f"{self.digest[:16]}..",
                str(self.archive),
                remedy=f"run `penstock import {self.archive.name}` again",
            )
        return layer

    def tensors(self, graph: Graph, dtype: str, **sizes: int) -> Tensors:
        """The tensors of a program of these sizes."""
        symbols = {name: symbol for symbol, name in size_names(self.form).items()}
        bound = {symbols[name]: n for name, n in sizes.items()}
        for name, n in sizes.items():
            if not self.form.allows(symbols[name], n):
                rule = f"the layer allows {self.form.allowed(symbols[name])}"
                raise ProgramError(f"{name} is {n}", rule=rule)
        every = [*self.form.operations, *_inner_operations(self.form)]
        kinds = {"linear": "product", "matmul": "product"}
        modules = {(op.module, kinds.get(op.op, op.op)) for op in every}
        self.schedule.check_modules(
            *(
                {m for m, kind in modules if want in ("", kind)}
                for want in ("", "product", "experts")
            )
        )
        made = Tensors(self, graph, dtype, bound)
        self._made[_key(sizes | {"dtype": dtype})] = made
        return made

    def inputs(self, seed: int, **params) -> dict[str, np.ndarray]:
        values = self._values(seed, params)
        return {n: _plane(f(values)) for n, f in self._made[_key(params)].inputs.items()}

    def streams(self, seed: int, **params) -> dict[str, list]:
        values = self._values(seed, params)
        return {n: f(values).tolist() for n, f in self._made[_key(params)].sources.items()}

    def reference(self, params, **_) -> dict[str, np.ndarray]:
        """The expected results, or those of the layer in float64."""
        made = self._made[_key(params)]
        _, given, values = self._drawn[_key(params)]
        results = given.expected
        if results is None:
            found = evaluate(self.form, values.inputs, wide=True)
            results = {f"out{i}": found[o.name] for i, o in enumerate(self.form.outputs)}
        return {n: _plane(f(results)) for n, f in made.results.items()}

    def results(self, outputs: Arrays, sizes: Mapping[str, int]) -> list[np.ndarray]:
        """Results in their shapes, from the tensors of a run: a cache without its spare rows."""
        found = []
        for i, o in enumerate(self.form.outputs):
            shape = tuple(size_of(s, sizes) for s in self.form.values[o.name].shape)
            maker = self.form.makers.get(o.name)
            cache = maker.args["cache"].name if maker and maker.op == "append" else None
            a = outputs[cache or f"out{i}"]
            if cache:
                a = a.reshape(*shape[:2], -1, shape[3])[:, :, : shape[2]]
            if turned_by(self.form, o.name):
                a = a.reshape(shape[1], shape[0], -1).swapaxes(0, 1)
            found.append(np.ascontiguousarray(a.reshape(shape)))
        return found

    def _values(self, seed: int, params: dict) -> Values:
        """Values of a run, which its inputs and its streams share."""
        given, key = GIVEN.get(self.program, NOTHING), _key(params)
        drawn_by, last, values = self._drawn.get(key, (None, None, None))
        if values is None or (drawn_by, last) != (seed, given):
            inputs = given.inputs
            values = Values(
                self.form,
                drawn(self.form, seed, self._made[key].sizes) if inputs is None else inputs,
            )
            self._drawn[key] = seed, given, values
        return values


def _inner_operations(layer: Layer) -> Iterator[Operation]:
    for op in layer.operations:
        if isinstance(body := op.args.get("body"), Body):
            yield from body.operations


def _key(params: Mapping) -> tuple:
    return tuple(sorted(params.items()))


def _plane(a: np.ndarray) -> np.ndarray:
    """Rows and columns of an array of any rank."""
    return a.reshape(-1, a.shape[-1]) if a.ndim else a.reshape(1, 1)


def drawn(layer: Layer, seed: int, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Inputs of these sizes: standard normal, or true; integers count along the last dimension, or,
    of one dimension, lie below the largest size.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for v in layer.inputs:
        shape = tuple(size_of(s, sizes) for s in v.shape)
        if is_float(v.dtype):
            found[v.name] = rng.standard_normal(shape).astype(np.float32)
        elif v.dtype == "bool":
            found[v.name] = np.ones(shape, bool)
        elif len(shape) < 2:
            found[v.name] = rng.integers(1, max([2, *sizes.values()]), shape)
        else:
            found[v.name] = np.broadcast_to(np.arange(shape[-1]), shape)
    return found


def size_of(size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return int(size.xreplace({s: sizes[s.name] for s in size.free_symbols}))


class Values:
    """Arrays of a run by name: weights by their paths, inputs, and what is computed before the
    start.
    """

    def __init__(self, layer: Layer, inputs: Arrays):
        self.layer = layer
        self.inputs = inputs

    @cached_property
    def _archive(self) -> Archive:
        return Archive(self.layer.archive)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.inputs:
            return np.asarray(self.inputs[name])
        if name in self.layer.makers:
            return self._early[name]
        return self._archive.array(self._weights[name])

    @cached_property
    def _weights(self) -> dict[str, Weight]:
        """Weights by path, and by the name of their value."""
        return {w.path: w for w in self.layer.weights.values()} | dict(self.layer.weights)

    @cached_property
    def _early(self) -> dict[str, np.ndarray]:
        early = replace(self.layer, control=early_operations(self.layer))
        return control_values(early, self.inputs)


def early_operations(layer: Layer) -> tuple:
    """Control, and besides what is made of weights alone or is a view of an input."""
    known = set(layer.weights) | {v.name for op in layer.control for v in op.outputs}
    views = {v.name for v in layer.inputs}
    found = list(layer.control)
    for op in layer.operations:
        reads = list(op.reads())
        view = op.op in ("reshape", "permute", "slice", "expand", "cast")
        if all(n in known for n in reads) and op.op not in ("append", "experts"):
            known |= {v.name for v in op.outputs}
        elif view and all(n in known | views for n in reads):
            views |= {v.name for v in op.outputs}
        else:
            continue
        found.append(op)
    return tuple(found)


@dataclass
class Tensors:
    """Off-chip tensors of a program by name, declared when they are first asked for.

    Attributes
    ----------
    inputs, sources, results
        How the values of tensors and sources, and those of results, are made.
    """

    layer: LayerFile
    graph: Graph
    dtype: str
    sizes: Mapping[str, int]
    inputs: dict[str, Callable[[Values], np.ndarray]] = field(default_factory=dict)
    sources: dict[str, Callable[[Values], np.ndarray]] = field(default_factory=dict)
    results: dict[str, Callable[[Arrays], np.ndarray]] = field(default_factory=dict)
    _declared: dict[str, TensorRef] = field(default_factory=dict)
    _stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _values(self) -> dict[str, Value]:
        form = self.layer.form
        return {w.path: w.value for w in form.weights.values()} | form.values

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self._stacks:
            return (len(self._stacks[name]), *self.shape(self._stacks[name][0]))
        if name not in self._values:
            raise ProgramError(f"has no value {name!r}", str(self.layer.archive))
        return tuple(size_of(s, self.sizes) for s in self._values[name].shape)

    def _value(self, values: Values, name: str) -> np.ndarray:
        if name in self._stacks:
            return np.stack([values[n] for n in self._stacks[name]])
        return values[name]

    def _input(self, name: str, shape: tuple[int, ...], value: Callable) -> TensorRef:
        if name not in self._declared:
            plain = re.sub(r"\W", "_", name.removesuffix(".weight"))
            others = {v.name for v in self.layer.form.inputs} - {name}
            while plain in others | self.inputs.keys():
                plain += "_"
            plane = (int(np.prod(shape[:-1], dtype=int)), shape[-1]) if shape else (1, 1)
            self._declared[name] = self.graph.input(plain, plane, self.dtype)
            self.inputs[plain] = value
        return self._declared[name]

    def __getitem__(self, name: str) -> TensorRef:
        """A weight by its path, an input, or what is known before the start."""
        return self._input(name, self.shape(name), lambda values: self._value(values, name))

    def _cut(
        self, name: str, how: str, cut: tuple[int | None, ...], turned: bool = False
    ) -> TensorRef:
        """A part, as of a slice, of a weight or of each expert's: of rows or columns."""
        part = (slice(*cut),) + (slice(None),) * (how == "rows")

        def value(values: Values) -> np.ndarray:
            a = self._value(values, name)[(..., *part)]
            return a.swapaxes(-1, -2) if turned else a

        shape = np.broadcast_to(np.int8(0), self.shape(name))[(..., *part)].shape
        shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
        kind = ["turned"] if turned else []
        stem = name.removesuffix(".weight") if how == "rows" else name
        return self._input(":".join([stem, *kind, *map(str, cut)]), shape, value)

    def part(self, name: str, *cut: int) -> TensorRef:
        """Rows ``cut`` of a weight, or of each expert's: first, last, step."""
        return self._cut(name, "rows", cut)

    def columns(self, name: str, *cut: int) -> TensorRef:
        """Elements ``cut`` of a bias, or of each expert's."""
        return self._cut(name, "columns", cut)

    def turned(self, name: str, *cut: int) -> TensorRef:
        """A weight [in, out], or those of experts, as [out, in]; ``cut``: results."""
        return self._cut(name, "columns", cut or (None,), turned=True)

    def column(self, name: str) -> TensorRef:
        """A weight of one dimension as a column."""
        return self._input(
            f"{name}:column", (*self.shape(name), 1), lambda values: values[name][:, None]
        )

    def unit(self, count: int, again: int = 1) -> TensorRef:
        """A row for each of ``count``: 0, and 1 in the ``again`` columns that are its own."""
        rows = np.repeat(np.eye(count, dtype=np.float32), again, axis=1)
        return self._input(f"unit_{count}_{again}", rows.shape, lambda _: rows)

    def mask(self, name: str) -> TensorRef:
        """A mask that is added to scores; of booleans, those that are True take part."""

        def added(values: Values) -> np.ndarray:
            a = values[name]
            a = np.where(a, np.float32(0), np.float32(-np.inf)) if a.dtype == bool else a
            if (a == -np.inf).all(-1).any():
                raise ProgramError(
                    f"mask {name!r} has a row in which no column takes part",
                    str(self.layer.archive),
                    remedy="let each row see a column, if only its own",
                )
            return a

        return self._input(name, self.shape(name), added)

    def stack(self, *names: str) -> str:
        """The name of one weight of each expert, one below the other."""
        name = f"{names[0].removesuffix('.weight')}_all"
        self._stacks[name] = names
        return name

    def output(self, number: int, columns: int = 0, *, turned: bool = False) -> TensorRef:
        """The tensor of a result; its rows may be laid side by side in so many columns.
        ``turned``: rows of the first dimension for each of the second.
        """
        name = f"out{number}"
        shape = self.shape(self.layer.form.outputs[number].name)
        columns = columns or shape[-1]

        def rows(outs: Arrays) -> np.ndarray:
            a = np.asarray(outs[name])
            return (a.swapaxes(0, 1) if turned else a).reshape(-1, columns)

        self.results[name] = rows
        return self.graph.output(name, (int(np.prod(shape)) // columns, columns), self.dtype)

    def _numbers(self, name: str, shape: tuple[int, ...], value: Callable) -> Stream:
        self.sources[name] = value
        return Source(graph=self.graph, shape=shape, scalar=32, name=name).stream

    def cache(self, name: str, result: int, tile: int, at: str = "") -> Cache:
        """A cache [batch, heads, rows, columns] with room for a new row of each head, which stands
        as a result when the run has ended. ``at``: the value that is the new row's number, where it
        takes another's place.
        """
        *outer, rows, columns = self.shape(name)
        count, room = int(np.prod(outer)), (rows - bool(at)) // tile + 1

        def placed(values: Values) -> np.ndarray:
            row = np.asarray(values[at]) if at else np.array(rows)
            if at and not 0 <= row.item() < rows:
                raise ProgramError(f"{at!r} is {row.item()}", rule=f"{name!r} has {rows} rows")
            return np.arange(count) * room * tile + row

        def padded(a: np.ndarray) -> np.ndarray:
            flat = np.asarray(a).reshape(count, -1, columns)
            whole = np.zeros((count, room * tile, columns), flat.dtype)
            whole[:, : flat.shape[1]] = flat
            return whole

        tensor = self.graph.inout(name, (count * room * tile, columns), self.dtype)
        self.inputs[name] = lambda values: padded(values[name])
        self.results[name] = lambda outs: padded(outs[f"out{result}"])
        place = self._numbers(f"{name}_place", (count,), placed)
        return Cache(tensor, tile, room, place)

    def lengths(self, name: str | None, cache: str, tile: int) -> Lengths:
        """Rows of each head of a cache that take part: as many as ``name`` says, or all."""
        batch, heads, rows, _ = self.shape(cache)

        def used(values: Values) -> np.ndarray:
            said = np.full(batch, rows) if name is None else np.clip(values[name], 0, rows)
            return np.repeat(np.broadcast_to(said, batch), heads)

        stem = f"{name or cache}_of_{cache}"
        recipes: dict[str, Callable] = {
            "head": lambda _: np.arange(batch * heads),
            "tiles": lambda values: used(values) // tile + 1,
            "valid": lambda values: used(values) % tile,
        }
        return Lengths(
            *(self._numbers(f"{stem}_{n}", (batch * heads,), f) for n, f in recipes.items())
        )

    def choices(self, scores: Stream, k: int) -> tuple[Stream, Stream] | None:
        """Experts of each token from a file, at once and one by one; None where there is none."""
        given = GIVEN.get(self.layer.program, Given()).choices
        if given is None:
            return None
        assert isinstance(scores.element, TileType)
        rows, count = scores.element.rows.value or 1, scores.element.cols.value or 1
        tokens = rows * prod(d.value or 1 for d in scores.shape)
        fits = given.ndim == 2 and given.shape[1] == k and len(given) >= tokens
        if not fits or given.max() >= count or any(len(set(row)) < k for row in given.tolist()):
            raise ProgramError(
                f"has {list(given.shape)} experts of up to {given.max(initial=0)}",
                "--choices",
                f"[{tokens} or more, {k}] below {count}, of a token each once",
            )
        made: list[Stream] = []
        for name, shape in (("chosen", (tokens,)), ("order", (tokens, k))):
            self.sources[name] = lambda _: given[:tokens]
            made.append(Source(graph=self.graph, shape=shape, selector=count, name=name).stream)
        return made[0], made[1]

    def turns(self, x: Stream, *pieces: int) -> Stream:
        """For each tile of a stream, the part to which each of its pieces belongs: part i has so
        many.
        """
        order = np.repeat(np.arange(len(pieces)), pieces)
        shape = (*(d.value or 1 for d in x.shape), len(order))
        name = f"turns_{len(self.sources)}"
        self.sources[name] = lambda _: np.broadcast_to(order, shape)
        return Source(graph=self.graph, shape=shape, selector=len(pieces), name=name).stream

    def ones(self, name: str, *shape: int) -> Stream:
        """Numbers 1, as many as a mask takes."""
        return self._numbers(name, shape, lambda _: np.ones(shape, int))
