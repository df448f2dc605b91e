"""Builds a simulator with a C++ ``main`` of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..machine.errors import RunError
from ..system import children
from ..system.cache import digest, entry
from ..system.sources import digest_of
from .toolchain import (
    FLAGS,
    environment,
    error_lines,
    hierarchical,
    keep_runtime,
    layout,
    make_inputs,
    make_variables,
    ready_objects,
    tools_in_use,
    verilator_command,
    wave_format,
)

TRACE = {"fst": "--trace-fst", "vcd": "--trace"}


@dataclass(frozen=True)
class Verilated:
    """Arguments of :func:`program`, which builds a simulator; its parameters describe each."""

    verilog: Mapping[str, str]
    top: str
    main: Path
    shared: Sequence[str]
    waves: bool

    def control(self) -> str:
        """Verilator's control file: blocks of their own."""
        return "\n".join(["`verilator_config", *hierarchical(self.shared)]) + "\n"

    def flags(self) -> list[str]:
        """Flags for Verilator."""
        return [
            "--cc",
            "--exe",
            *FLAGS,
            *layout(),
            "--top-module",
            self.top,
            *(["--hierarchical"] if self.shared else []),
            *([TRACE[wave_format()]] if self.waves else []),
        ]

    def variables(self) -> dict[str, str]:
        """Variables for make."""
        return {"OPT_GLOBAL": "-O1", **make_variables(len(self.shared))}

    def key(self) -> str:
        """Key of the executable."""
        content = [
            dict(self.verilog),
            self.top,
            self.control(),
            self.flags(),
            make_inputs(self.variables()),
        ]
        return digest(json.dumps(content), digest_of([self.main]), *tools_in_use())

    def compile(self, folder: Path) -> Path:
        """Build in ``folder``; the executable."""
        sources = {"control.vlt": self.control(), **self.verilog}
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        work = folder / "obj"
        ready = ready_objects(self.variables())
        verilate = [
            verilator_command(),
            *self.flags(),
            "--Mdir",
            work,
            *(folder / file for file in sources),
            self.main,
        ]
        makefile = f"V{self.top}_hier.mk" if self.shared else f"V{self.top}.mk"
        self.call(
            folder,
            verilate,
            *([["cp", *ready, work]] if ready else []),
            ["make", "-C", work, "-j", "2", "-f", makefile],
        )
        keep_runtime(work, self.variables())
        executable = folder / f"V{self.top}"
        shutil.move(work / executable.name, executable)
        shutil.rmtree(work)
        return executable

    def call(self, folder: Path, *commands: Sequence[str | Path]) -> None:
        """Run the tools in ``folder``; RunError if one fails."""
        log = folder / "build.log"
        env = environment(self.variables(), headers=not self.waves)
        with log.open("w", encoding="utf-8") as out:
            for command in commands:
                done = children.run(
                    command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT
                )
                if done.returncode:
                    raise RunError(
                        f"the simulator does not build:\n{error_lines(log)}",
                        f"RTL of {self.top}",
                        remedy=f"the whole log is {log}",
                    )


def program(
    verilog: Mapping[str, str],
    top: str,
    main: Path,
    *,
    shared: Iterable[str] = (),
    waves: bool = False,
) -> tuple[Path, float]:
    """Verilate ``verilog`` and link it with a C++ ``main``, or find the executable in the cache.

    Parameters
    ----------
    verilog, top, shared
        As in :func:`penstock.tb.runner.build`.
    main
        C++ source that instantiates ``V<top>``.
    waves
        Whether it can write waveforms, of :func:`wave_format`.

    Returns
    -------
    Path, float
        The executable, and the wall time of building it (0.0: from the cache).

    Raises
    ------
    RunError
        A tool is missing, or the Verilog does not compile.
    """
    design = Verilated(dict(verilog), top, main, tuple(sorted(shared)), waves)
    start = time.perf_counter()
    with entry("program", f"{top}-{design.key()}") as (folder, ready):
        if ready:
            return folder / f"V{top}", 0.0
        executable = design.compile(folder)
    return executable, time.perf_counter() - start
