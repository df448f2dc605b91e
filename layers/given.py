"""Arrays that a run of an imported layer is given: its inputs, and the results to expect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..frontend.program import module_of
from ..machine.errors import ProgramError
from ..system.reading import read_arrays, read_integers
from .form import Layer, Value
from .sizes import symbols_of
from .translation import is_float
from .values import GIVEN, Given, LayerFile, own_symbols, size_names, size_of

TOLERANCES = {"fp32": 1e-5, "bf16": 2e-2}
"""Errors of results that are allowed against expected ones, relative to the largest magnitude."""


def layer_of(program: str) -> LayerFile:
    """The layer of a program that `penstock import` wrote."""
    path = Path(program)
    if path.suffix == ".py":
        module = module_of(path, "program", "write def program(**params): ... return graph")
        layer = getattr(module, "layer", None)
        if isinstance(layer, LayerFile):
            return layer
    raise ProgramError(
        "is no imported layer, and takes no arrays of one",
        program,
        remedy="`penstock import LAYER.pt2 --out LAYER` writes LAYER.py",
    )


def tolerance(program: str, dtype: str) -> float:
    """Error that a run in ``dtype`` is allowed: a layer that rounds to bf16 itself has its own."""
    form = layer_of(program).form
    narrow = any(form.values[o.name].dtype in ("float16", "bfloat16") for o in form.outputs)
    return TOLERANCES["bf16" if narrow else dtype]


def give(
    program: str, inputs: str | None, expect: str | None, choices: str | None = None
) -> dict[str, int]:
    """Let the next runs of a program have these arrays; returns the parameters that are its sizes.

    ``choices``: ``experts=FILE.npz``, the experts of each token. Raises ProgramError, by name,
    where an array is missing, too many, or of another shape or type.
    """
    layer = layer_of(program)
    form = layer.form
    given = Given(choices=_choices(choices))
    sizes: dict[str, int] = {}
    if expect is not None and inputs is None:
        raise ProgramError("is given without --inputs", "--expect")
    results = {f"out{i}": form.values[o.name] for i, o in enumerate(form.outputs)}
    names = [v.name for v in form.inputs]
    if inputs is not None:
        arrays = _named(inputs, names, results)
        sizes = checked_sizes(form, arrays, inputs)
        given = replace(given, inputs=arrays)
    if expect is not None:
        expected = _named(expect, results, names)
        for name, value in results.items():
            _check(value, expected[name], name, sizes, expect)
        given = replace(given, expected=expected)
    GIVEN[layer.program] = given
    return {name: sizes[symbol] for symbol, name in size_names(form).items() if symbol in sizes}


def _choices(text: str | None) -> np.ndarray | None:
    if text is None:
        return None
    name, equals, path = text.partition("=")
    if name != "experts" or not equals:
        raise ProgramError(f"takes experts=FILE.npz, not {text!r}", "--choices")
    return read_integers(path, "data")


def _named(path: str, wanted: Iterable[str], others: Iterable[str]) -> dict[str, np.ndarray]:
    """The arrays of these names; besides them a file may have ``others``."""
    wanted = list(wanted)
    found = read_arrays(path)
    for name in wanted:
        if name not in found:
            raise ProgramError(f"has no array {name!r}", path, remedy=f"it has {_list(found)}")
    for name in found:
        if name not in wanted and name not in others:
            raise ProgramError(
                f"has an array {name!r}, which the layer does not have",
                path,
                remedy=f"arrays are {_list(wanted)}",
            )
    return {name: found[name] for name in wanted}


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "empty"


def checked_sizes(form: Layer, arrays: Mapping[str, np.ndarray], path: str) -> dict[str, int]:
    """Sizes of the symbols, of which the shapes of all inputs are made."""
    sizes: dict[str, int] = {}
    for v in form.inputs:
        shape = arrays[v.name].shape
        if len(shape) == len(v.shape):
            for s, n in zip(own_symbols(v), shape, strict=True):
                sizes.setdefault(s, n)
    sizes.pop("", None)
    for v in form.inputs:
        _check(v, arrays[v.name], v.name, sizes, path)
    for name, n in sizes.items():
        if not form.allows(name, n):
            where = next(v for v in form.inputs if name in own_symbols(v))
            raise ProgramError(
                f"{where.name!r} has {list(arrays[where.name].shape)} elements",
                path,
                rule=f"a size that the layer allows {form.allowed(name)}, not {n}",
            )
    return sizes


def _check(v: Value, a: np.ndarray, name: str, sizes: Mapping[str, int], path: str) -> None:
    known = {str(s) for s in symbols_of(v.shape)} <= sizes.keys()
    want = tuple(size_of(s, sizes) for s in v.shape) if known else None
    if a.shape != want:
        said = ", ".join(
            re.sub(r"\bs\d+\b", lambda m: str(sizes.get(m[0], m[0])), str(s)) for s in v.shape
        )
        raise ProgramError(f"{name!r} has shape {list(a.shape)}, not [{said}]", path)
    kinds = "f" if is_float(v.dtype) else "b" if v.dtype == "bool" else "iu"
    if a.dtype.kind not in kinds and not (kinds == "f" and is_float(a.dtype.name)):
        raise ProgramError(f"{name!r} has type {a.dtype}, not {v.dtype}", path)
