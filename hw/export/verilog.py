"""The one way to Verilog."""

import functools
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Value
from amaranth.lib import wiring

from ...machine.errors import PenstockError, RunError
from ...system import children
from ...system.collector import rarely
from ...system.output import folder, write_text
from ..yosys import yosys
from .internals import PortDirection
from .module_key import PREFIX, readable
from .nets import ZERO, enlarge
from .place import Library, Modules, ports_of, widened, wire
from .rewrite import OPERATOR, with_bits, with_cases, with_functions
from .sidecar import described

PACKAGE = Path(__file__).resolve().parents[2]

SCRIPT = (
    "read_rtlil part.il; proc; opt_dff -nodffe -nosdff -keepdc; opt_expr -keepdc; "
    "{enables}memory_collect; opt_clean -purge; rename -enumerate -pattern select_% t:$pmux; "
    "write_verilog -norename part.v"
)
FIRST = 10_000_000
"""First number in names that Yosys makes: in all of them it has eight digits, so that they sort as
they were made and a module's text does not depend on what was converted before it.
"""
NUMBERED = re.compile(r"\$procmux\$\d+")
DIVIDED = 4 << 20
"""Characters of RTLIL from which on two processes convert it: Yosys takes a second for each million
and starts in one. A third has nothing to gain: the top is half of a large fabric.
"""
MODULE = re.compile(r"^module \\?([^\s(]+)", re.M)
CELL = re.compile(r"^  cell \\(\S+) ", re.M)
PORT = re.compile(r"^  wire (?:.* )?(?:input|output) \d+ .*\n", re.M)
CLEARED = re.compile(
    rf"^ *\(\* {ZERO} = [^\n]*\n(?P<memory>(?: *\(\*[^\n]*\n)*"
    r"  reg \[\d+:0\] (?P<name>\S+ ?) \[(?P<last>\d+):0\];\n)",
    re.M,
)
CHOICES = ("choice", "select")
"""Modules of these kinds choose one of several beats."""


@dataclass(frozen=True)
class Export:
    """A component as Verilog.

    Attributes
    ----------
    top : str
        Name of the top module.
    verilog : str
        All modules; equal components give equal text.
    sidecar : dict
        ``top``; ``config``; ``ports``: name, direction, bits; ``streams``: fields of each stream's
        payload with offset and bits; what the component's own ``sidecar`` says, if it has one;
        ``registers``: run-time registers by address; ``modules``: name, kind, parameters and digest
        of every module below the top; ``shared``: those of lanes, PEs and sites, which are worth
        compiling once; ``versions``.
    """

    top: str
    verilog: str
    sidecar: dict

    @property
    def shared(self) -> tuple[str, ...]:
        """Modules that are worth compiling once and linking many times."""
        return tuple(self.sidecar["shared"])


@rarely()
def export(
    component: wiring.Component,
    name: str | None = None,
    *,
    prefix: str = PREFIX,
    annotated: bool = False,
    store: MutableMapping[str, Modules] | None = None,
    step: Callable[[str], None] = lambda _line: None,
) -> Export:
    """Convert a component to Verilog.

    Parameters
    ----------
    component : wiring.Component
        A fabric, or any part of one. Its ports are its members' names joined with ``_``, and
        ``clk`` and ``rst``.
    name : str
        Name of the top module; ``<prefix>_fabric`` for a fabric, otherwise prefix and class name in
        lower case.
    prefix : str
        What the names of all modules begin with. Exports with different prefixes share none.
    annotated : bool
        Whether modules, signals and cells have an attribute ``src``: the Python line that they come
        from, as a path within this package (or the name of the package or file that is outside).
    store : MutableMapping
        Parts that earlier exports converted, see
        :class:`~penstock.hw.export.place.Library`; not for annotated ones.
    step : callable
        Called with a line when a module is done, and when Yosys begins.

    Raises
    ------
    RunError
        Yosys refused the design; the message ends with what it printed.
    PenstockError
        The prefix is no Verilog identifier.
    """
    check_prefix(prefix)
    enlarge()
    name = name or f"{prefix}_{type(component).__name__.lower()}"
    with Library(_annotated if annotated else _rtlil, store, step) as library:
        library.top(component, name)
    step(f"Yosys, {len(library.modules)} modules")
    names = readable(library.keys.values(), prefix)
    text = _renamed("".join(library.modules.values()), names)
    operators = [key.name for key in library.keys.values() if key.kind == OPERATOR]
    callers = [
        names.get(module, module)
        for module, body in library.modules.items()
        if any(f" cell \\{operator} " in body for operator in operators)
    ]
    verilog = with_bits(_verilog(text, callers))
    verilog = with_functions(verilog, [names[module] for module in operators])
    choices = [names[key.name] for key in library.keys.values() if key.kind in CHOICES]
    verilog = with_cases(verilog, choices)
    return Export(name, verilog, described(component, name, library, names))


@rarely()
def annotated_rtlil(component: wiring.Component, name: str) -> str:
    """All modules of a component as Amaranth makes them, with attributes ``src``; what
    :func:`verilog_of` writes.
    """
    enlarge()
    with Library(_annotated) as library:
        library.top(component, name)
    return _renamed("".join(library.modules.values()), readable(library.keys.values()))


def verilog_of(rtlil: str) -> str:
    """Verilog of RTLIL; every module stays one.

    Raises RunError where Yosys refuses it.
    """
    return _verilog(rtlil, ())


def check_prefix(prefix: str) -> None:
    """Raise ``PenstockError`` if ``prefix`` cannot begin the names of modules and files."""
    if not re.fullmatch(r"[A-Za-z_]\w*", prefix, re.ASCII):
        raise PenstockError(
            f"prefix {prefix!r} is no Verilog identifier",
            rule="a prefix has letters, digits and _, and no digit first",
        )


def write(
    component: wiring.Component,
    out: str | Path,
    name: str | None = None,
    *,
    prefix: str = PREFIX,
    annotated: bool = False,
) -> list[Path]:
    """:func:`export` to ``out``/<top>.v and .json, a folder that is made if needed; returns the two
    paths.

    Raises
    ------
    PenstockError
        The folder has another export, one of whose modules has the same name and differs.
    """
    done = export(component, name, prefix=prefix, annotated=annotated)
    return put(done, {f"{done.top}.v": done.verilog}, out)


def put(done: Export, files: Mapping[str, str], out: str | Path) -> list[Path]:
    """Write the files of an export, by name, and its sidecar; returns their paths, and those of
    folders for what lies in them.

    Raises
    ------
    PenstockError
        As :func:`write`.
    """
    _check_neighbours(done, Path(out))
    into = folder(out)  # not before: an export that is interrupted leaves nothing
    sidecar = json.dumps(done.sidecar, indent=1, sort_keys=True) + "\n"
    paths = []
    for name, text in {**files, f"{done.top}.json": sidecar}.items():
        paths.append(into / Path(name).parts[0])
        folder((into / name).parent)
        write_text(into / name, text)
    return list(dict.fromkeys(paths))


def _check_neighbours(done: Export, folder: Path) -> None:
    """One name is one content in a folder, whose files are meant for one design."""
    mine = {module["name"]: module["digest"] for module in done.sidecar["modules"]}
    for path in sorted(folder.glob("*.json")):
        if path.name == f"{done.top}.json":
            continue  # which this export replaces
        for module in _modules_of(path):
            if mine.get(module["name"], module["digest"]) != module["digest"]:
                raise PenstockError(
                    f"module {module['name']} would differ from that of {path.name}",
                    f"folder {folder}",
                    "a name is one module in a design",
                    "give one of the exports another prefix, or write it to another folder",
                )


def _modules_of(path: Path) -> list[dict]:
    """The modules that a sidecar lists; none if it is not one."""
    try:
        sidecar = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = sidecar.get("modules", []) if isinstance(sidecar, dict) else []
    return [x for x in found if isinstance(x, dict) and {"name", "digest"} <= x.keys()]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """RTLIL whose modules have the names that leave; submodules are named after parents."""
    pattern = re.compile(r"\\(" + "|".join(map(re.escape, names)) + r")\b")
    return pattern.sub(lambda found: "\\" + names[found[1]], text) if names else text


def _rtlil(component: wiring.Component, name: str) -> str:
    return rtlil.convert(component, name=name, ports=directed(component), emit_src=False)


def _annotated(component: wiring.Component, name: str) -> str:
    text = rtlil.convert(component, name=name, ports=directed(component), emit_src=True)
    return re.sub(
        r'^( *attribute \\src )"([^"]*)"$',
        lambda found: f'{found[1]}"{"|".join(map(within, found[2].split("|")))}"',
        text,
        flags=re.M,
    )


def within(place: str) -> str:
    """``file:line`` with the file as seen from this package, or without its folders."""
    file, _, line = place.rpartition(":")
    return f"{_seen(file)}:{line}"


@functools.cache
def _seen(file: str) -> str:
    """A file as seen from this package, through links; one from elsewhere without its folders."""
    path = Path(file)
    if "site-packages" in path.parts:
        return Path(*path.parts[path.parts.index("site-packages") + 1 :]).as_posix()
    real = path.resolve()
    return real.relative_to(PACKAGE).as_posix() if real.is_relative_to(PACKAGE) else path.name


def directed(component: wiring.Component) -> dict[str, tuple[Value, PortDirection]]:
    """Ports by Verilog name, as Amaranth's converter takes them."""
    ports = {}
    for port, (value, flow) in ports_of(component).items():
        if len(value):
            wired = wire(value)
            name = port if wired is value else f"thin{len(value)}__{port}"
            direction = PortDirection.Input if flow == wiring.In else PortDirection.Output
            ports[name] = (wired, direction)
    return ports


def _verilog(text: str, callers: Collection[str]) -> str:
    """Verilog of RTLIL, its modules by name; registers of ``callers`` are assigned where they are
    enabled, not every cycle.
    """
    modules = _modules(text, "end")
    parts = _parts(modules)
    with ThreadPoolExecutor(len(parts)) as pool:
        bodies = pool.map(lambda part: _converted(modules, part, callers), parts)
        done = _modules("".join(bodies), "endmodule")
    body = "".join(_numbered(done[name]) for name in sorted(done))
    return CLEARED.sub(_cleared, widened(body))


def _modules(text: str, end: str) -> dict[str, str]:
    """Modules of RTLIL or Verilog by name; ``end`` is the last line of each."""
    found = [f"{body}\n{end}\n" for body in text.split(f"\n{end}\n")[:-1]]
    return {name[1]: module for module in found if (name := MODULE.search(module))}


def _parts(modules: Mapping[str, str]) -> list[list[str]]:
    """Names of the modules that a process converts: of about equal text."""
    size = {name: len(module) for name, module in modules.items()}
    count = min(2, os.cpu_count() or 1) if sum(size.values()) >= DIVIDED else 1
    parts: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(modules, key=size.__getitem__, reverse=True):
        min(parts, key=lambda part: sum(size[one] for one in part)).append(name)
    return parts


def _converted(modules: Mapping[str, str], part: Collection[str], callers: Collection[str]) -> str:
    """Verilog of some modules, beside the ports alone of others that they instantiate."""
    text = "".join(modules[name] for name in part)
    others = modules.keys() & set(CELL.findall(text)) - set(part)
    boxes = [
        f"attribute \\blackbox 1\nmodule \\{name}\n{''.join(PORT.findall(modules[name]))}end\n"
        for name in sorted(others)
    ]
    mine = " ".join(name for name in callers if name in part)
    enables = f"opt_clean {mine}; opt_dff {mine}; " if mine else ""
    with children.temporary() as work:
        (work / "part.il").write_text(f"autoidx {FIRST}\n{text}{''.join(boxes)}", encoding="utf-8")
        run = yosys(SCRIPT.format(enables=enables), work)
        if run.returncode:
            raise RunError(
                "Yosys refused the design",
                remedy=f"report this; it printed: {(run.stdout + run.stderr)[-2000:]}",
            )
        lines = (work / "part.v").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("/* Generated by"))


def _numbered(module: str) -> str:
    """Verilog of a module whose generated names count from 0."""
    names: dict[str, str] = {}
    return NUMBERED.sub(lambda found: names.setdefault(found[0], f"$procmux${len(names)}"), module)


def _cleared(found: re.Match) -> str:
    """A large memory that starts at zero, and the loop that clears it."""
    count = "clear_" + re.sub(r"\W+", "_", found["name"]).strip("_")
    return (
        f"{found['memory']}  integer {count};\n  initial\n"
        f"    for ({count} = 0; {count} <= {found['last']}; {count} = {count} + 1)\n"
        f"      {found['name']}[{count}] = 0;\n"
    )
