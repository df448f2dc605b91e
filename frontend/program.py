"""Programs by name or file: a graph with its parameters, inputs and float64 reference."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import math
import os
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import numpy as np
import ml_dtypes

from ..machine.config import Config
from ..machine.errors import ConfigError, PenstockError, ProgramError, nearest
from ..machine.unitgraph import UnitGraph
from .analysis.metrics import Analysis, analyse
from .graph import Graph
from .meaning.elements import numbers, plain
from .meaning.evaluator import evaluate64
from .meaning.given import check_sizes
from .operators.boundary import Source
from .show.draw import draw
from .user_line import FRONT_END

TOLERANCES = {"fp32": 1e-3, "bf16": 5e-2}
"""Errors of output tensors that are allowed by default, relative to the largest magnitude."""
MOST_ELEMENTS = 1 << 28
"""Most elements of a tensor whose values are drawn."""


@dataclass(frozen=True)
class Program:
    """A built program.

    Attributes
    ----------
    name, params
        The graph's name; all parameters, defaults included.
    graph
        The program graph.
    tolerance
        Largest error against its own ``reference``; None: :data:`TOLERANCES` by the tensor's dtype.
    """

    name: str
    params: dict
    graph: Graph
    _inputs: Callable | None = None
    _reference: Callable | None = None
    _streams: Callable | None = None
    tolerance: float | None = None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of sizes that are known only at run time."""
        return tuple(self.graph.symbols)

    def allowed_error(self, tensor: str) -> float:
        """Largest error of an output tensor, relative to its largest magnitude; infinite where the
        program has no reference of its own.
        """
        if self._reference is None:
            return math.inf
        if self.tolerance is not None:
            return self.tolerance
        return TOLERANCES[self.graph.tensors[tensor].dtype]

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Seeded input tensors as float32, already rounded to each tensor's dtype.

        From the program's own ``inputs(seed, **params)``, or standard normal; of integers 0 and 1.
        """
        wanted = {t.name: t for t in self.graph.tensors.values() if t.role != "output"}
        if self._inputs:
            given = _call(self.name, self._inputs, "inputs", (seed,), self.params)
        else:
            for t in wanted.values():
                if t.rows * t.cols > MOST_ELEMENTS:
                    raise ProgramError(
                        f"tensor {t.name} has {t.rows * t.cols} elements",
                        f"program {self.name}",
                        f"at most {MOST_ELEMENTS} are drawn",
                        "define inputs(seed, **params)",
                    )
            rng = np.random.default_rng(seed)
            given = {
                n: rng.integers(0, 2, (t.rows, t.cols))
                if t.dtype == "int32"
                else rng.standard_normal((t.rows, t.cols))
                for n, t in wanted.items()
            }
        if not isinstance(given, dict):
            raise ProgramError(
                f"inputs() returns {type(given).__name__}, not a dict of arrays",
                f"program {self.name}",
                remedy="return {name: array, ...}",
            )
        self._refuse_others("inputs() gives", "input", given, wanted)
        missing = [n for n in wanted if n not in given]
        if missing:
            raise ProgramError(f"inputs() gives no tensor {missing[0]!r}", f"program {self.name}")
        return {n: self._rounded(given[n], t) for n, t in wanted.items()}

    def _refuse_others(self, gives: str, what: str, given: dict, wanted: Collection[str]) -> None:
        """Raise ProgramError where a function of the program gives what nobody takes."""
        for name in given:
            if name not in wanted:
                raise ProgramError(
                    f"{gives} {name!r}, which is no {what} of the program",
                    f"program {self.name}",
                    remedy=nearest(name, wanted),
                )

    def _rounded(self, given, t) -> np.ndarray:
        """The array that inputs() gives for a tensor, in its dtype."""
        plain(given, f"tensor {t.name}", f"program {self.name}")
        try:
            if t.dtype == "int32":
                return _integers(given)
            a = numbers(given, np.float32)
        except (TypeError, ValueError, OverflowError):
            raise ProgramError(
                f"inputs() gives {t.name!r} as no array of "
                f"{'integers of 32 bits' if t.dtype == 'int32' else 'real numbers'}",
                f"program {self.name}",
                remedy=f"return {{{t.name!r}: array of shape [{t.rows}, {t.cols}], ...}}",
            ) from None
        return a.astype(ml_dtypes.bfloat16).astype(np.float32) if t.dtype == "bf16" else a

    def streams(self, seed: int = 0) -> dict[str, list]:
        """Elements of each Source as nested lists
        (frontend/meaning/elements.py), from its own ``streams(seed,
        **params)``.
        """
        given = (
            _call(self.name, self._streams, "streams", (seed,), self.params)
            if self._streams
            else {}
        )
        if not isinstance(given, dict):
            raise ProgramError(
                f"streams() returns {type(given).__name__}, not a dict of nested lists",
                f"program {self.name}",
                remedy="return {source: elements, ...}",
            )
        sources = [node.name for node in self.graph.nodes if isinstance(node, Source)]
        self._refuse_others("streams() gives", "source", given, sources)
        for name in sources:
            if name not in given:
                raise ProgramError(
                    f"streams() gives no elements for source {name!r}",
                    f"program {self.name}",
                    remedy="define streams(seed, **params) and return {source: nested lists, ...}",
                )
        check_sizes(self.graph, given)
        return given

    def reference64(
        self, inputs: dict[str, np.ndarray], streams: dict | None = None, order: dict | None = None
    ) -> dict[str, np.ndarray]:
        """The outputs in float64: the program's own ``reference(**inputs)``, or the graph evaluated
        in float64.

        A reference takes the tensors, and the sources' elements, by name, and ``params`` where it
        asks for them. ``order``: arrivals that a run recorded, for the graph's own evaluation.
        """
        if self._reference:
            exact = {n: np.asarray(a, np.float64) for n, a in inputs.items()}
            extra = (
                {"params": self.params}
                if "params" in inspect.signature(self._reference).parameters
                else {}
            )
            given = _call(
                self.name, self._reference, "reference", (), exact | (streams or {}) | extra
            )
            return {
                t.name: self._checked(given, t)
                for t in self.graph.tensors.values()
                if t.role != "input"
            }
        return evaluate64(self.graph, inputs, streams, order)

    def _checked(self, given, t) -> np.ndarray:
        """The reference's array for an output tensor."""
        where = f"program {self.name}"
        remedy = f"return {{{t.name!r}: array of shape [{t.rows}, {t.cols}], ...}}"
        if not isinstance(given, dict) or t.name not in given:
            raise ProgramError(f"reference() gives no tensor {t.name!r}", where, remedy=remedy)
        try:
            array = numbers(given[t.name], np.float64)
        except (TypeError, ValueError, OverflowError):
            array = None
        if array is None or array.shape != (t.rows, t.cols):
            raise ProgramError(
                f"reference() gives {t.name!r} "
                + ("as no array of numbers" if array is None else f"the shape {list(array.shape)}"),
                where,
                remedy=remedy,
            )
        return array

    def analysis(
        self, rule: str = "published", config: Config | None = None, units: UnitGraph | None = None
    ) -> Analysis:
        """The symbolic metrics, arguments as of :func:`analyse`."""
        return analyse(self.graph, rule, config, units)

    def text(self) -> str:
        return str(self.graph)

    def draw(self, path: str | Path) -> None:
        """Write a drawing: .dot, or any format of matplotlib by suffix (.png, .svg)."""
        draw(self.graph, path)


def _call(program: str, function: Callable, what: str, args: tuple, named: dict):
    """Call a function of a program; a call that its signature does not take is an error at its own
    line.
    """
    try:
        inspect.signature(function).bind(*args, **named)
    except TypeError as e:
        code = getattr(function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        given = ", ".join([*(["seed"] if args else []), *named])
        raise ProgramError(
            f"{what}() cannot be called with {given}: {e}",
            f"program {program}{place}",
            remedy=f"write def {what}({'seed, ' if args else ''}**names)",
        ) from None
    except ValueError:  # a function without a signature to look at
        pass
    return _guard(program, lambda: function(*args, **named))


def _guard(where: str, call: Callable, params: dict | None = None, loading: bool = False):
    """Run a user's code, with ``params``; what it raises becomes one message with the innermost
    line of it.
    """
    try:
        return call()
    except PenstockError as e:
        if e.where is None:
            raise type(e)(e.what, f"program {where}", e.rule, e.remedy) from None
        raise
    except (Exception, SystemExit) as e:
        if loading and isinstance(e, SyntaxError):
            raise
        frame = _innermost(traceback.extract_tb(e.__traceback__))
        zero = (
            [n for n, v in (params or {}).items() if v == 0 and not isinstance(v, bool)]
            if isinstance(e, ZeroDivisionError)
            else []
        )
        remedy = f"{' and '.join(zero)} may have to be above 0" if zero else None
        if isinstance(e, ModuleNotFoundError):
            remedy = "install it here; a script of the STeP authors runs by `penstock step`"
        if isinstance(e, MemoryError):
            remedy = "a run without values (--no-values) takes less memory"
        raise ProgramError(
            f"raises {type(e).__name__}: {e}",
            f"program {where} ({frame.filename}:{frame.lineno})",
            remedy=remedy,
        ) from None


def _innermost(frames: traceback.StackSummary) -> traceback.FrameSummary:
    """The innermost frame in the file that was called first outside the front end: not one of a
    library that it calls.
    """
    outside = [f for f in frames if not f.filename.startswith((*FRONT_END, "<frozen "))]
    return next((f for f in reversed(outside) if f.filename == outside[0].filename), frames[-1])


@functools.cache
def _tables() -> list[dict[str, str]]:
    return [point.load() for point in entry_points(group="penstock.workloads")]


def known_programs() -> dict[str, str]:
    """Name -> module of every program that this package, or an installed one, declares.

    An entry point of the group ``penstock.workloads`` names a table of such modules: the front end
    knows no program by name.
    """
    return {name: module for table in _tables() for name, module in table.items()}


def _load(name: str) -> ModuleType:
    if name in known_programs():
        return importlib.import_module(known_programs()[name])
    path = Path(name)
    if path.suffix != ".py":
        remedy = (
            f"{nearest(name, known_programs())}; or give the path of a .py file that defines "
            "program()"
        )
        if path.suffix == ".pt2":
            remedy = f"`penstock import {name} --out LAYER` writes LAYER.py"
        elif Path(f"{name}.py").is_file():
            remedy = f"give the file '{name}.py'"
        raise ProgramError(f"no program named {name!r}", remedy=remedy)
    return module_of(path, "program", "write def program(**params): ... return graph")


def module_of(path: Path, function: str, remedy: str) -> ModuleType:
    """The module of a user's Python file, which defines a function of this name.

    Raises ProgramError for a file that is not there, cannot be run or lacks the function.
    """
    if not path.is_file():
        raise ProgramError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(f"penstock_program_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ProgramError(f"no Python file: {path}")
    execute = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # known by name, so that its classes have a source file
    try:
        with _modules_beside(path):
            _guard(str(path), lambda: execute(module), loading=True)
    except SyntaxError as e:
        line = f":{e.lineno}" if e.lineno else ""
        raise ProgramError(
            f"is not Python: {e.msg}", f"program {e.filename or path}{line}"
        ) from None
    if not callable(getattr(module, function, None)):
        raise ProgramError(f"defines no function {function}()", f"program {path}", remedy=remedy)
    return module


_FOLDERS: dict[str, frozenset[str]] = {}
"""Folders of the programs read so far, with the modules loaded before the first of each."""
_ADDED: list[str] = []
"""Folders added at the end of the path, the latest program's first."""


@contextmanager
def _modules_beside(program: Path):
    """Put the modules of a program's folder first while its file runs, as ``python FILE`` does.

    Later they are still found, after everything that is installed. What programs imported from
    beside them before is forgotten: it may be another folder's, or have been edited.
    """
    for name, module in list(sys.modules.items()):
        if _is_beside(name, getattr(module, "__file__", None) or ""):
            del sys.modules[name]
    folder = str(program.resolve().parent)
    _FOLDERS.setdefault(folder, frozenset(sys.modules))
    importlib.invalidate_caches()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        rest = [p for p in sys.path if p not in _ADDED]
        _ADDED[:] = [p for p in dict.fromkeys([folder, *_ADDED]) if p not in rest]
        sys.path[:] = [*rest, *_ADDED]


def _is_beside(name: str, file: str) -> bool:
    """True if a module was imported from beside a program, after it was read."""
    top = name.partition(".")[0]
    if top == "penstock":
        return False
    for folder, before in _FOLDERS.items():
        place = os.path.join(folder, top)
        if name not in before and (file == f"{place}.py" or file.startswith(place + os.sep)):
            return True
    return False


def build(
    name: str | Graph | Program, params: dict | None = None, config: Config | None = None
) -> Program:
    """Build a program.

    Parameters
    ----------
    name
        A workload's name, the path of a Python file that defines ``program(**params)``, a Graph, or
        a Program (a notebook's own).
    params
        Its keyword arguments.
    config
        Gives the machine's default sizes, and the parameter ``dtype`` to a program that has one,
        where they are not given.

    Raises
    ------
    ProgramError
        Unknown name or parameter, or the program's own error, as one message.
    """
    if isinstance(name, (Graph, Program)):
        if params:
            raise ProgramError(
                f"unknown parameter {next(iter(params))!r}",
                f"program {name.name}",
                remedy="a graph that is built takes none",
            )
        program = name if isinstance(name, Program) else Program(name.name, {}, name)
        program.graph.check()
        return program
    module = _load(str(name))
    make = module.program
    given = dict(params or {})
    signature = inspect.signature(make)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    names = [
        n
        for n, p in signature.parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    for key in given:
        if key not in names and not open_ended:
            raise ProgramError(
                f"unknown parameter {key!r}",
                f"program {name}",
                remedy=nearest(key, names, "parameters are"),
            )
        default = signature.parameters[key].default if key in names else None
        if isinstance(default, (int, float)) and isinstance(given[key], str):
            kind = "true or false" if isinstance(default, bool) else "a number"
            raise ProgramError(
                f"parameter {key!r} takes {kind}, not {given[key]!r}",
                f"program {name}",
                remedy=f"its default is {default}",
            )
    if config is not None:
        defaults = config.defaults.get(Path(name).stem, {})
        for other in config.defaults:
            beside = Path(name).with_name(f"{other}.py")
            if other not in known_programs() and not beside.is_file():
                raise ConfigError(
                    f"no program {other!r}",
                    f"config {config.name}: defaults.{other}",
                    "a workload, or a file beside the program",
                    nearest(other, known_programs()),
                )
        if unknown := [k for k in defaults if k not in names and not open_ended]:
            raise ConfigError(
                f"unknown parameter {unknown[0]!r}",
                f"config {config.name}: defaults.{Path(name).stem}",
                remedy=nearest(unknown[0], names, "parameters are"),
            )
        given = defaults | given
        if "dtype" in names:
            given.setdefault("dtype", config.machine.dtype)
    missing = [
        n
        for n in names
        if n not in given and signature.parameters[n].default is inspect.Parameter.empty
    ]
    if missing:
        raise ProgramError(
            f"parameter {missing[0]!r} is not given",
            f"program {name}",
            remedy=f"pass {missing[0]}=...",
        )
    graph = _guard(str(name), lambda: make(**given), given)
    if not isinstance(graph, Graph):
        raise ProgramError(
            f"program() returns {type(graph).__name__}, not a Graph",
            f"program {name}",
            remedy="return the graph it built",
        )
    graph.check()
    defaults = {n: signature.parameters[n].default for n in names if n not in given}
    return Program(
        graph.name,
        defaults | given,
        graph,
        getattr(module, "inputs", None),
        getattr(module, "reference", None),
        getattr(module, "streams", None),
        check_tolerance(getattr(module, "tolerance", None), f"program {name}"),
    )


def check_tolerance(given: object, where: str | None = None) -> float | None:
    """A tolerance, or None; ProgramError unless it is a finite number of at least 0."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < math.inf:
        raise ProgramError(f"tolerance must be a number of at least 0, not {given!r}", where)
    return given


def _integers(given: object) -> np.ndarray:
    """An array of integers of 32 bits; ValueError where a number is none."""
    a = np.asarray(given)
    if a.dtype.kind not in "iu" or (a.size and not (-(2**31) <= a.min() and a.max() < 2**32)):
        raise ValueError
    return a.astype(np.int64).astype(np.int32)
