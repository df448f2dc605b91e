"""A run of a script."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ..machine.errors import PenstockError, ProgramError
from .modules import kernel_names, provided
from .operator import StepOps
from .sim import SESSIONS, Session, Simulated


class ScriptError(Exception):
    """A script raised an exception: ``text`` is its traceback, from the script on."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text


def run(
    path: str | Path,
    args: Sequence[str] = (),
    *,
    machine: str | None = None,
    settings: dict | None = None,
    onchip_bw: int = 64,
    dims: dict | None = None,
    tensors: str | None = None,
    progress: Callable[[Simulated], None] = lambda _: None,
) -> list[Simulated]:
    """Run a script written against the STeP authors' Python; returns what it has simulated.

    Parameters
    ----------
    path, args
        The file, and its arguments.
    machine
        A configuration's name or file (default: `fig8`, with ``mock_bf16`` `paper_hdl_bf16`); its
        off-chip memory is the script's.
    settings
        Fields of its table [machine] with other values, such as ``{"channel_depth": 8}``.
    onchip_bw
        Bytes a cycle of an on-chip memory unit, in the timing `stepsim`.
    dims
        For a file that only defines ``build_graph(dims)``.
    tensors
        For one that defines ``build_graph(dims, tensors)``: a file whose
        ``precompute_tensors(NAME, dims)`` makes them, as FILE.py:NAME; NAME by default is the
        script's, without .py.
    progress
        Called with each graph as it has been simulated.

    Raises
    ------
    PenstockError
        A graph that breaks a rule, with the script's line; a deadlock.
    ScriptError
        The script's own exception.
    """
    file = Path(path)
    if not file.is_file():
        raise ProgramError(f"no such file: {file}")
    name = "".join(c if c.isalnum() else "_" for c in file.stem)
    name = f"_{name}" if name[:1].isdigit() else name
    session = Session(name, machine, settings or {}, onchip_bw, progress)
    folders = list(dict.fromkeys([str(file.resolve().parent), str(Path.cwd())]))
    main, argv = sys.modules["__main__"], sys.argv
    script = ModuleType("__main__")
    script.__file__ = str(file)
    counter, StepOps._counter = StepOps._counter, 0
    own = set(vars(StepOps))
    SESSIONS.append(session)
    try:
        with provided(folders):
            sys.modules["__main__"] = script
            sys.argv = [str(file), *args]
            _execute(file, script, session, dims or {}, tensors)
    finally:
        sys.modules["__main__"], sys.argv = main, argv
        SESSIONS.pop()
        StepOps._counter = counter
        for name in set(vars(StepOps)) - own:  # a script may add attributes
            delattr(StepOps, name)
    return session.simulated


def _execute(
    file: Path, script: ModuleType, session: Session, dims: dict, tensors: str | None
) -> None:
    maker, _, kernel = (tensors or "").partition(":")
    if tensors and not Path(maker).is_file():
        raise ProgramError(f"no such file: {maker}", remedy="give FILE.py or FILE.py:NAME")
    try:
        code = compile(file.read_bytes(), str(file), "exec")
        exec(code, vars(script))
        if not session.simulated and not session.serialized:
            _call(script, session, dims, tensors and (maker, kernel or file.stem))
        elif dims or tensors:
            raise ProgramError(
                f"runs by itself, and takes no {', '.join(dims) or 'tensors'}",
                str(file),
                remedy="leave --set and --tensors out: they are for a build_graph(dims, tensors)",
            )
    except PenstockError:
        raise
    except SystemExit as e:
        if e.code not in (None, 0):
            raise ScriptError(f"exits with {e.code}\n") from None
    except Exception as e:
        raise ScriptError("".join(_of_script(e, (str(file), maker)))) from None


def _of_script(e: BaseException, files: tuple[str, ...]) -> list[str]:
    """A traceback from the first frame of the script's files on."""
    tb: TracebackType | None = e.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename not in files:
        tb = tb.tb_next
    return traceback.format_exception(type(e), e, tb)


def _tensors(file: str, kernel: str, dims: dict) -> Any:
    """The tensors that a file's ``precompute_tensors`` makes for a kernel."""
    names: dict[str, Any] = {"__name__": "precompute", "__file__": file}
    exec(compile(Path(file).read_bytes(), file, "exec"), names)
    if "precompute_tensors" not in names:
        raise ProgramError("defines no precompute_tensors", file, "it takes a kernel and its sizes")
    return names["precompute_tensors"](kernel, dims)


def _call(script: ModuleType, session: Session, dims: dict, tensors: Any) -> None:
    """Call what a file without a run of its own defines: a kernel, or tests without parameters."""
    names = vars(script)
    build: Any = names.get("build_graph")
    if build is not None:
        for name, value in kernel_names().items():
            names.setdefault(name, value)
        taken = signature(build).parameters.values()
        if sum(p.default is p.empty for p in taken) != 1 + bool(tensors):
            raise ProgramError(
                f"build_graph takes {', '.join(p.name for p in taken)}",
                str(script.__file__),
                "a kernel takes its sizes, and the tensors of --tensors where that is given",
                "leave --tensors out, or give it the file that defines precompute_tensors; else "
                "call it in a script of your own, and simulate what it returns",
            )
        built: Any = build(dims, _tensors(tensors[0], tensors[1], dims)) if tensors else build(dims)
        session.run_kernel(built[0], str(script.__file__))
        return
    for name, value in list(names.items()):
        if name.startswith("test_") and callable(value) and not value.__code__.co_argcount:
            value()
