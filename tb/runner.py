"""Builds a simulator once and runs it many times: Verilator through cocotb's runner, with a cache
of executables.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cocotb_tools.config

from ..machine.errors import RunError
from ..system import children
from ..system.cache import digest, entry, find
from ..system.sources import digest_of
from .bench import limits
from .cocotb_runner import Verilator
from .environment import of_simulator
from .toolchain import (
    FLAGS,
    TB,
    error_lines,
    hurried,
    keep_runtime,
    layout,
    make_inputs,
    make_variables,
    native_library,
    package_version,
    ready_objects,
    tail,
    tools_in_use,
    wave_format,
)

SOURCES = (TB / "bench.sv",)
LOG = "build.log"
OUTPUT_GROUPS = 4
"""Files of C++ of a design with a class for each module: the compiler's start-up would otherwise
take half of the time.
"""
EXPANDED_WORDS = 8
"""Words of a value up to which its copies are statements of their own in such a design: more make
the code long, and no faster.
"""
ALIKE = (
    "-fno-dfg-scoped",
    "--output-groups",
    str(OUTPUT_GROUPS),
    "--expand-limit",
    str(EXPANDED_WORDS),
)
LEFT_OVER = (".o", ".gch", ".a", ".d", ".cpp", ".h", ".dat")
"""Files that are deleted after a build: an executable and its sources remain."""
VERDICTS = ("AssertionError", "FlagError", "RunError")
"""Exceptions that say what is wrong with a run; others are of the bench."""


@dataclass(frozen=True)
class Build:
    """A simulator that is ready to launch."""

    # folder, top: where the executable is, and its name
    folder: Path
    top: str
    seconds: float  # wall time that building took in this call (0.0 when it came from the cache)
    library: Path  # shared library of native.cpp that the executable is linked with
    waves: bool  # whether it can write waveforms

    @property
    def cached(self) -> bool:
        return self.seconds == 0.0


@dataclass(frozen=True)
class Verilated:
    """Arguments of :func:`build`, which builds a simulator; its parameters describe each."""

    verilog: Mapping[str, str]
    top: str
    public: Sequence[str]
    alike: Mapping[str, Sequence[str]]
    waves: bool
    covered: bool
    defines: Mapping[str, object]

    def control(self) -> str:
        """Verilator's control file: ports to keep, modules that are classes."""
        kept = [(self.top, "public_flat_rw", port) for port in self.public]
        classes = [f'no_inline -module "{module}"' for module in self.alike]
        for module, ports in self.alike.items():
            kept += [(module, "public_flat_rd", port) for port in ports]
        wires = [f'{how} -module "{module}" -var "{port}"' for module, how, port in kept]
        return "\n".join(["`verilator_config", *wires, *classes]) + "\n"

    def flags(self) -> list[str]:
        """Flags for Verilator."""
        return [
            *FLAGS,
            *layout(),
            "-Wno-MULTITOP",
            *(ALIKE if self.alike else []),
            *(["--coverage-toggle"] if self.covered else []),
        ]

    def key(self, library: Path) -> str:
        """Key of the executable."""
        content = [
            dict(self.verilog),
            limits(),
            self.top,
            self.control(),
            self.flags(),
            sorted(self.defines.items()),
            make_inputs(),
        ]
        return digest(
            json.dumps(content),
            digest_of(SOURCES),
            str(library),
            str(cocotb_tools.config.libs_dir),
            str(self.waves),
            wave_format() if self.waves else "",
            package_version("cocotb"),
            sys.version,
            *tools_in_use(),
        )

    def write(self, folder: Path) -> list[Path]:
        """Write all sources; their paths in the order of compilation."""
        bench = {p.name: limits() + p.read_text(encoding="utf-8") for p in SOURCES}
        files = {"control.vlt": self.control(), **bench, **self.verilog}
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        return [folder / file for file in files]

    def compile(self, folder: Path, library: Path) -> None:
        """Build in ``folder``; RuntimeError if a tool fails, with its words in the log there."""
        runner = Verilator()
        runner.log.setLevel(logging.ERROR)
        runner.traced = self.waves
        runner.own_headers = self.waves or self.covered
        runner.objects = ready_objects(make_variables())
        linked = f"-L{library.parent} -lpenstock_tb -Wl,-rpath,{library.parent}"
        runner.build(
            sources=self.write(folder / "src"),
            hdl_toplevel=self.top,
            build_dir=folder,
            waves=self.waves,
            log_file=folder / LOG,
            defines=self.defines,
            build_args=[*self.flags(), "-LDFLAGS", linked],
        )
        keep_runtime(folder, make_variables())


def build(
    verilog: Mapping[str, str],
    top: str,
    public: Iterable[str],
    *,
    alike: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
    waves: bool = False,
    covered: bool = False,
    defines: Mapping[str, object] | None = None,
    short: bool = False,
    stage: Callable[[str], None] | None = None,
) -> Build:
    """Verilate and compile ``verilog`` with the bench modules, or find the executable in the cache.

    Parameters
    ----------
    verilog
        File name -> text, in compilation order.
    top, public
        Top module and those of its ports that Python reads or drives.
    alike
        Modules, with their ports, whose instances shall share one class, so that the code does not
        grow with their number. Verilator merges functions of equal text only, which needs ports
        that it leaves in place (public ones), and no optimisation over the borders of instances.
    name
        What the entry of the cache is called; by default, ``top``.
    waves, covered, defines
        Whether it can write waveforms; whether it counts the bits that change; macros of the
        preprocessor.
    short
        Whether its runs are short: it is compiled without optimisation then, unless the cache has
        an optimised one.
    stage
        Called with one line when a build begins (not when the cache has it).

    Raises
    ------
    RunError
        A tool is missing, or the Verilog does not compile.
    """
    design = Verilated(
        dict(verilog),
        top,
        tuple(public),
        dict(sorted((alike or {}).items())),
        waves,
        covered,
        {**({"PENSTOCK_WAVES": 1} if waves else {}), **(defines or {})},
    )
    library = native_library()
    say = stage or (lambda _line: None)
    name = name or top
    short = short and find("sim", f"{name}-{design.key(library)}") is None
    with hurried(short):
        return _built(design, name, library, say)


def _built(design: Verilated, name: str, library: Path, say: Callable[[str], None]) -> Build:
    """The simulator of a design, built unless the cache has it."""
    top, waves = design.top, design.waves
    start = time.perf_counter()
    with entry(
        "sim", f"{name}-{design.key(library)}", lambda: say("wait for another process's simulator")
    ) as (folder, ready):
        if ready:
            return Build(folder, top, 0.0, library, waves)
        say("build the simulator")
        try:
            design.compile(folder, library)
        except RuntimeError:
            log = folder / LOG
            raise RunError(
                f"the simulator does not build:\n{error_lines(log)}",
                f"RTL of {name}",
                remedy=f"the whole log is {log}",
            ) from None
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix in LEFT_OVER:
                path.unlink()
    return Build(folder, top, time.perf_counter() - start, library, waves)


def launch(
    built: Build,
    module: str,
    job: Mapping[str, Any],
    *,
    folder: Path,
    seed: int = 0,
    waves: bool = False,
) -> list[str]:
    """Run one cocotb test module in a built simulator; see :func:`verdicts`."""
    own = of_simulator(built.top, module, seed) | {"PENSTOCK_LIBRARY": str(built.library)}
    command = [str(built.folder / built.top), *(["--trace"] if waves else [])]
    return verdicts(command, own, job, folder, f"{built.top} (seed {seed})")


def verdicts(
    command: Sequence[str], env: Mapping[str, str], job: Mapping[str, Any], folder: Path, name: str
) -> list[str]:
    """Run a command that tests each point of a job and comes to a verdict in results.xml, all
    in ``folder``; the message of each test, in the order of the points: empty where it passes.

    The tests find ``job`` (JSON) through :func:`.native.read_job`.

    Raises
    ------
    RunError
        It failed to start, or a test has no verdict; the message holds the end of the log.
    """
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    log = folder / "sim.log"
    results = folder / "results.xml"
    env = {**env, "PENSTOCK_JOB": str(folder / "job.json"), "COCOTB_RESULTS_FILE": str(results)}
    with log.open("w", encoding="utf-8") as out:
        done = children.run(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    found: dict[str, str] = {}
    if not done.returncode and results.exists():
        for case in ElementTree.parse(results).iter("testcase"):
            failure = case.find("failure")
            if failure is None or failure.get("type") in VERDICTS:
                message = "" if failure is None else failure.get("message", "")
                found[case.get("name", "").rpartition("=")[2]] = message
    numbers = [str(k) for k in range(len(job["points"]))]
    if any(k not in found for k in numbers):
        children.keep(folder)
        text = log.read_text(encoding="utf-8", errors="replace")
        raise RunError(
            f"the bench failed:\n{tail(text, 25)}",
            f"simulation of {name}",
            remedy=f"the log is {log}; this runs it again:\n{rerun(command, folder, env)}",
        )
    return [found[k] for k in numbers]


def rerun(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> str:
    """A line for a shell that runs a command again, in its folder and with its environment."""
    unset = [f"-u {name}" for name in sorted(os.environ.keys() - env.keys())]
    changed = [f"{k}={v}" for k, v in sorted(env.items()) if os.environ.get(k) != v]
    return (
        f"(cd {shlex.quote(str(folder))} && "
        + " ".join(["env", *unset, shlex.join([*changed, *command])])
        + ")"
    )
