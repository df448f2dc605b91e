"""A simulator of a design that is cut into parts: each module is Verilated and compiled on its own,
once for all its instances and all designs that have it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..machine.errors import RunError
from ..system import children
from ..system.cache import digest, entry, find
from ..system.sources import digest_of
from . import bench, toolchain
from .cut import REST, Cut, closure, ports_of, used_of
from .runner import ALIKE, verdicts
from .toolchain import make_inputs

JOBS = 2
"""Compilers that run side by side."""
BENCH = toolchain.TB / "bench.sv"
JOINING = toolchain.TB / "parts.cpp"
LIBRARY = "part.so"
RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_threads.o")
GLUE = """#include "{prefix}__Syms.h"
#include <cstring>
using Model = {prefix};
extern "C" {{
void* penstock_part_make() {{ return new Model(new VerilatedContext, ""); }}
void penstock_part_eval(void* model) {{ static_cast<Model*>(model)->eval(); }}
void* penstock_part_state(void* model, int64_t* bytes) {{
    *bytes = sizeof({prefix}__Syms);
    return static_cast<Model*>(model)->rootp->vlSymsp;
}}
int64_t penstock_part_port(void* model, const char* name, void** at) {{
    auto* m = static_cast<Model*>(model);
    (void)m;
{ports}
    return 0;
}}
}}
"""
"""Interface by which :file:`parts.cpp` sees a Verilated class."""
PORT = '    if (!std::strcmp(name, "{0}")) {{ *at = &m->{1}; return sizeof(m->{1}); }}'
"""A port's name in Verilog, and in C++."""


@dataclass(frozen=True)
class Build:
    """Libraries that make a simulator."""

    folder: Path  # where that of the rest is
    joining: Path  # the library that lets cycles pass
    native: Path  # that of native.cpp
    libraries: Mapping[str, Path]  # module -> library of its class
    parts: Cut  # what is joined
    seconds: float  # wall time that building took in this call (0.0: from the cache)

    @property
    def cached(self) -> bool:
        return self.seconds == 0.0


def build(
    parts: Cut,
    modules: Mapping[str, str],
    rest: str,
    top: str,
    *,
    alike: Mapping[str, Sequence[str]],
    name: str,
    stage: Callable[[str], None] | None = None,
) -> Build:
    """Verilate and compile the parts that the cache does not have.

    Parameters
    ----------
    parts, modules
        What is joined, and the text of each module.
    rest, top
        Verilog of what is left, and its top module.
    alike
        As of :func:`penstock.tb.runner.build`.
    name
        What the design is called.
    stage
        Called with one line when a build begins.
    """
    start = time.perf_counter()
    pieces = [
        _Piece(m, closure(dict(modules), m), [*ports_of(modules[m])], alike)
        for m in sorted(set(parts.instances.values()))
    ]
    ports = [*bench.PUBLIC, "rst", *(hole.name for hole in parts.holes)]
    pieces.append(_Piece(top, rest, [*dict.fromkeys(ports)], alike))
    missing = [piece for piece in pieces if not find("sim", piece.key)]
    if missing and stage:
        stage(f"build the simulator, {len(missing)} of {len(pieces)} parts,")
    missing.sort(key=lambda piece: -len(piece.text))
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda piece: piece.library(name), missing))
    libraries = {piece.module: piece.library(name) for piece in pieces}
    return Build(
        libraries[top].parent,
        _joining(),
        toolchain.native_library(),
        {REST if m == top else m: path for m, path in libraries.items()},
        parts,
        time.perf_counter() - start if missing else 0.0,
    )


@dataclass(frozen=True)
class _Piece:
    """A part's module, the source of its library."""

    module: str
    text: str
    ports: Sequence[str]
    alike: Mapping[str, Sequence[str]]

    @property
    def prefix(self) -> str:
        return f"V{self.module}"

    @cached_property
    def control(self) -> str:
        """Verilator's control file: modules that are one class."""
        kept = {m: ports for m, ports in self.alike.items() if f"\nmodule {m}(" in self.text}
        lines = [f'no_inline -module "{m}"' for m in kept]
        for m, ports in kept.items():
            lines += [f'public_flat_rd -module "{m}" -var "{port}"' for port in ports]
        return "\n".join(["`verilator_config", *lines]) + "\n"

    @cached_property
    def sources(self) -> dict[str, str]:
        """File -> text."""
        ports = "\n".join(PORT.format(p, p.replace("__", "___05F")) for p in self.ports)
        return {
            "control.vlt": self.control,
            "bench.sv": bench.limits() + used_of(BENCH.read_text(encoding="utf-8"), self.text),
            "part.v": self.text,
            "glue.cpp": GLUE.format(prefix=self.prefix, ports=ports),
        }

    @cached_property
    def key(self) -> str:
        """Name of its entry in the cache."""
        facts = [self.sources, self.verilate(), self.link(), make_inputs(_variables())]
        short = self.module.removeprefix("penstock_")
        return f"{short}-{digest(json.dumps(facts), *toolchain.tools_in_use())}"

    def library(self, name: str) -> Path:
        """The part's library, built unless the cache has it; ``name``: of the design."""
        with entry("sim", self.key) as (folder, ready):
            if not ready:
                self._build(folder, name)
        return folder / LIBRARY

    def verilate(self) -> list[str]:
        """The command for Verilator."""
        return [
            toolchain.verilator_command(),
            *("--cc", "--prefix", self.prefix, "--top-module", self.module, "-Mdir", "."),
            *toolchain.FLAGS,
            *toolchain.layout(),
            "-Wno-MULTITOP",
            *(ALIKE if "no_inline" in self.control else ()),
            *("control.vlt", "bench.sv", "part.v"),
        ]

    def link(self) -> list[str]:
        """The command for the library."""
        return [
            *(_variables()["CXX"], "-shared", "glue.o", "-Wl,-Bsymbolic"),
            *("-Wl,--whole-archive", f"{self.prefix}__ALL.a", "-Wl,--no-whole-archive"),
            *(*RUNTIME, "-pthread", "-o", LIBRARY),
        ]

    def _build(self, folder: Path, name: str) -> None:
        """Verilate and compile in a folder."""
        for file, text in self.sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        variables = _variables()
        objects = toolchain.ready_objects(variables)
        targets = [f"{self.prefix}__ALL.a", "glue.o", *RUNTIME]
        commands = [
            self.verilate(),
            *([["cp", *objects, "."]] if objects else []),
            ["make", "-f", f"{self.prefix}.mk", *targets],
            self.link(),
        ]
        environment = toolchain.environment(variables)
        log = folder / "build.log"
        for command in commands:
            if not _logged(command, folder, environment, log):
                raise RunError(
                    f"the simulator does not build:\n{toolchain.error_lines(log)}",
                    f"RTL of {name}, part {self.module}",
                    remedy=f"the whole log is {log}",
                )
        toolchain.keep_runtime(folder, variables)
        for path in folder.iterdir():
            if path.name not in (LIBRARY, log.name, *self.sources):
                path.unlink()


def _variables() -> dict[str, str]:
    """Variables for make: the code at a run's beginning need not be fast."""
    slow = os.environ.get("OPT_SLOW", "-O0")
    return toolchain.make_variables(blocks=1) | {"OPT_SLOW": slow}


def _logged(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> bool:
    """Run a command, whose words go to the end of a log; whether it succeeds."""
    with log.open("a", encoding="utf-8") as out:
        done = children.run(
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    return done.returncode == 0


def _joining() -> Path:
    """The library of parts.cpp, compiled on first use."""
    cxx, version = toolchain.compiler_in_use()
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared"]
    with entry("native", digest(digest_of([JOINING]), version, *flags)) as (folder, ready):
        library = folder / "parts.so"
        if not ready:
            done = children.run([cxx, *flags, JOINING, "-o", library, "-ldl"])
            if done.returncode:
                raise RunError(
                    f"the library of the parts does not compile:\n{toolchain.tail(done.stderr)}",
                    "RTL simulation",
                    remedy="a C++17 compiler is needed (g++ 9 or later)",
                )
    return library


def launch(built: Build, job: Mapping[str, Any], *, folder: Path) -> list[str]:
    """Run the points of a job in a process of its own; see :func:`.runner.verdicts`."""
    parts = {
        "joining": str(built.joining),
        "libraries": {m: str(path) for m, path in built.libraries.items()},
        "instances": built.parts.instances,
        "links": built.parts.links,
    }
    env = os.environ | {"PENSTOCK_LIBRARY": str(built.native)}
    command = children.module("penstock.tb.parts_test")
    return verdicts(command, env, {**job, "parts": parts}, folder, built.folder.name)
