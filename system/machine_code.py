"""Machine code of functions that Numba compiles: made once, kept as an object file, loaded without
Numba.

Loading Numba and what its cache keeps takes up to a second of CPU time, an object file a thirtieth
of that.  The file holds the function alone: what Numba adds for exceptions, which such a function
never raises, is replaced by a trap.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

_EVER = r"(?:numba_|NRT_|Py)\w+"
"""Symbols of the interpreter and of numba."""
_VERSIONS = ("numba", "llvmlite", "numpy")


class Loaded:
    """The function of an object file.

    Attributes
    ----------
    address
        Of its code, which lives as long as this object.
    """

    def __init__(self, code: bytes, symbol: str):
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address(symbol)


def emit(function: Any, symbol: str) -> bytes:
    """The object file of a C function of Numba's, for this processor, with this symbol."""
    text = function.inspect_llvm().replace(function.native_name, symbol)
    module = llvm.parse_assembly(_without_exceptions(text))
    missing = [name for name in _wanted(module) if llvm.address_of_symbol(name) is None]
    if missing:  # linking would end the process
        raise RuntimeError(f"{symbol} needs {', '.join(sorted(missing))}")
    return _target_machine().emit_object(module)


def made_with() -> list[str]:
    """Dependencies of an object file beside the function: packages, Python, the processor."""
    try:
        processor = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
        lines = [
            line for line in processor.splitlines() if line.startswith(("model name", "flags"))
        ]
    except OSError:
        lines = [platform.processor()]
    versions = map(importlib.metadata.version, _VERSIONS)
    return [*versions, sys.version, platform.machine(), *lines]


def _without_exceptions(text: str) -> str:
    """LLVM's text with a trap for every function of the interpreter and of numba."""
    text = re.sub(
        rf"^declare ([^@\n]*@{_EVER}\([^\n]*\))[^\n]*$",
        r"define internal \1 {\n  call void @llvm.trap()\n  unreachable\n}",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(
        rf"^(@{_EVER}) = external global ([^,\n]*)",
        r"\1 = internal global \2 zeroinitializer",
        text,
        flags=re.MULTILINE,
    )
    return text if "declare void @llvm.trap()" in text else text + "\ndeclare void @llvm.trap()\n"


def _wanted(module: llvm.ModuleRef) -> list[str]:
    """Symbols that the process has to have."""
    return [
        part.name
        for part in (*module.functions, *module.global_variables)
        if part.is_declaration and not part.name.startswith("llvm.")
    ]


def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )
