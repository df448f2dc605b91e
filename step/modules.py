"""The public modules that a script imports, there only while it runs."""

from __future__ import annotations

import math
import sys
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import networkx as nx
import sympy

from . import datatype, functions, ops, sim, translation
from .operator import StepOps, get_stream
from .utils import UTILS


class MultiDiGraph(nx.MultiDiGraph):
    """A script's graph: its nodes are operators."""


class _Torch:
    """The torch that scripts take from these modules: imported where they use it."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module("torch"), name)


TORCH = _Torch()
GENERAL = {n: getattr(typing, n) for n in ("Dict", "List", "Optional", "Tuple", "Union")}
GENERAL |= {"sympy": sympy, "MultiDiGraph": nx.MultiDiGraph, "DynDim": datatype.DynDim}
TYPES = (
    *("Bool", "Buffer", "DynTile", "ElementTP", "Float16", "Float32", "Index", "MultiHot"),
    *("Select", "Stream", "Tile", "Uint32", "Uint64"),
)
GENERAL |= {n: getattr(datatype, n) for n in TYPES}
GENERAL |= {"StepOps": StepOps, "get_stream": get_stream}
"""Names that scripts take from any module of operators."""
UTILITIES = {n: ops.BY_NAME[n] for n in ops.UTILITIES}
OPERATORS = {n: c for n, c in ops.BY_NAME.items() if n not in UTILITIES}
SIM = {n: getattr(sim, n) for n in ("HBMConfig", "SimConfig", "serialize", "simulate")}

MODULES: dict[str, Mapping[str, object]] = {
    "step_py": {},
    "step_py.datatype": GENERAL,
    "step_py.dyndim": {"DynDim": datatype.DynDim, "sympy": sympy},
    "step_py.functions": {},
    **{f"step_py.functions.{module}": names for module, names in functions.MODULES.items()},
    "step_py.ops": GENERAL | OPERATORS,
    "step_py.utility_ops": GENERAL | UTILITIES,
    "step_py.kernels": {},
    "graph": {},
    "graph.graph": {"MultiDiGraph": MultiDiGraph},
    "rewrite": {},
    "rewrite.broadcast": GENERAL | OPERATORS | {"infer_broadcast": translation.infer_broadcast},
    "sim": GENERAL | OPERATORS | UTILITIES | SIM | {"np": np},
    "step_perf": {"run_graph": sim.run_graph},
    "utils": {},
    **{module: GENERAL | OPERATORS | names for module, names in UTILS.items()},
}
"""Public modules and their names."""


def kernel_names() -> dict[str, object]:
    """Names that a file of one kernel, ``build_graph(dims)``, may use without importing them."""
    named = functions.MODULES
    names = GENERAL | OPERATORS | UTILITIES | named["map_fn"] | named["init_fn"] | UTILS_NAMES
    names |= {f"MapAccum{n}": c for n, c in named["map_accum_fn"].items()}
    names |= {f"Accum{n}": c for n, c in named["accum_fn"].items()}
    names |= {n: c for n, c in named["accum_fn"].items() if n.startswith(("Retile", "Signal"))}
    names |= {"infer_broadcast": translation.infer_broadcast, "Graph": MultiDiGraph, "np": np}
    names |= {n: import_module(f"step_py.functions.{n}") for n in named}
    return names | {"math": math, "ceil": math.ceil, "torch": TORCH}


UTILS_NAMES = UTILS["step_py.kernels.linear"]


class _Finder(MetaPathFinder, Loader):
    """Finds the public modules."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in MODULES:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        parts = fullname.split(".")
        spec.submodule_search_locations = [
            str(Path(p or ".", *parts)) for p in sys.path if Path(p or ".", *parts).is_dir()
        ]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module: ModuleType):
        vars(module).update(MODULES[module.__name__])
        vars(module).setdefault("torch", TORCH)


@contextmanager
def provided(folders: list[str]) -> Iterator[None]:
    """While a script runs: the public modules, and those in its folders first. Afterwards they,
    and those from its folders, are not there any more, and what they hid is back.
    """

    def ours(name: str, module: ModuleType | None) -> bool:
        file = getattr(module, "__file__", None) or ""
        return (
            name == "__main__"
            or name.partition(".")[0] in {m.partition(".")[0] for m in MODULES}
            or any(file.startswith(f"{folder}/") for folder in folders if "penstock" not in name)
        )

    finder = _Finder()
    hidden = {n: m for n, m in sys.modules.items() if n != "__main__" and ours(n, None)}
    before = dict(sys.modules)
    path = list(sys.path)
    for name in hidden:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    sys.path[:0] = folders
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if ours(name, module) and before.get(name) is not module:
                del sys.modules[name]
        for name, module in before.items():
            if name not in sys.modules:
                sys.modules[name] = module
