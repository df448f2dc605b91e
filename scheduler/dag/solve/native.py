"""Machine code of the tiling search: made with numba, kept as an object file, loaded without numba.

Loading numba and what its cache keeps takes more than a second of CPU time, more than a short
search has.  An object file takes a tenth of that.  It holds the kernel alone: what numba adds for
exceptions, which the kernel never raises, is replaced by a trap.
"""

from __future__ import annotations

import ctypes
import re
import types
from collections.abc import Callable

import numpy as np
import llvmlite.binding as llvm

from . import kernel

__all__ = ["VERSIONS", "emit", "link"]

VERSIONS = ("numba", "llvmlite", "numpy")
"""Packages whose versions the object file depends on."""
ENTRY = "penstock_tiling_search"
"""The symbol in the object file."""
_EVER = r"(?:numba_|NRT_|Py)\w+"
"""Symbols of the interpreter and of numba."""

Arrays = tuple[np.ndarray, ...]
Search = Callable[[Arrays, Arrays, Arrays, np.ndarray], float]
"""`kernel.search`."""


def emit() -> bytes:
    """The object file: `kernel.search` compiled for this processor (seconds of CPU time)."""
    entry = _compile()
    text = entry.inspect_llvm().replace(entry.native_name, ENTRY)
    module = llvm.parse_assembly(_without_exceptions(text))
    missing = [name for name in _wanted(module) if llvm.address_of_symbol(name) is None]
    if missing:  # linking would end the process
        raise RuntimeError(f"the compiled search needs {', '.join(sorted(missing))}")
    return _target_machine().emit_object(module)


def link(code: bytes) -> Search:
    """The function of an object file; callable from several threads at
    once, without the interpreter's lock.
    """
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    pointers = [ctypes.c_void_p] * 3
    call = ctypes.CFUNCTYPE(ctypes.c_double, *pointers)(engine.get_function_address(ENTRY))

    def search(code: Arrays, sizes: Arrays, room: Arrays, choice: np.ndarray) -> float:
        lengths = np.array([len(array) for array in (*code, *sizes)], np.int64)
        arrays = (*code, *sizes, *room, choice)
        places = np.array([array.ctypes.data for array in arrays], np.uintp)
        return call(lengths.ctypes.data, places.ctypes.data, places.ctypes.data)

    search.engine = engine  # the code lives as long as it
    return search


def _compile():
    """numba's C function around `kernel.search`.

    Its arguments are the lengths of the arrays of a code and of the
    sizes, and the addresses of all arrays in the order of
    `kernel.search`, twice: once as integers, once as floats.
    """
    from numba import cfunc, njit
    from numba import types as nb
    from numba.np.numpy_support import carray

    names = dict(vars(kernel))
    compiled = {}
    for name, plain in vars(kernel).items():
        if isinstance(plain, types.FunctionType) and plain.__module__ == kernel.__name__:
            function = types.FunctionType(plain.__code__, names, name)
            compiled[name] = njit(error_model="numpy")(function)
    names.update(compiled)
    search = compiled["search"]
    runs = kernel.RUNS
    columns = kernel.COLUMNS

    def entry(lengths, whole, real):
        n = carray(lengths, (10,))
        code = (
            carray(whole[0], (n[0], columns[0])),
            carray(whole[1], (n[1], columns[1])),
            carray(real[2], (n[2],)),
            carray(whole[3], (n[3], columns[2])),
            carray(real[4], (n[4],)),
            carray(whole[5], (n[5],)),
            carray(whole[6], (n[6],)),
        )
        sizes = (carray(whole[7], (n[7],)), carray(whole[8], (n[8],)), carray(whole[9], (n[9],)))
        room = (
            carray(whole[10], (kernel.STEP_RUNS,)),
            carray(whole[11], (runs + 1,)),
            carray(whole[12], (runs + 1,)),
            carray(real[13], (runs, runs, 4)),
            carray(whole[14], (4,)),
            carray(whole[15], (n[7], n[8])),
            carray(real[16], (1,)),
        )
        return search(code, sizes, room, carray(whole[17], (7,)))

    whole = nb.CPointer(nb.int64)
    signature = nb.float64(whole, nb.CPointer(whole), nb.CPointer(nb.CPointer(nb.float64)))
    return cfunc(signature, error_model="numpy")(entry)


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
