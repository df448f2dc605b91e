"""Machine code of the tiling search: made with numba, kept as an object file, loaded without numba
(:mod:`~penstock.system.machine_code`): a short search has no time for it.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable

import numpy as np

from ....system import machine_code
from . import kernel

ENTRY = "penstock_tiling_search"
"""The symbol in the object file."""

Arrays = tuple[np.ndarray, ...]
Search = Callable[[Arrays, Arrays, Arrays, np.ndarray], float]
"""`kernel.search`."""


def emit() -> bytes:
    """The object file: `kernel.search` compiled for this processor (seconds of CPU time)."""
    return machine_code.emit(_compile(), ENTRY)


def link(code: bytes) -> Search:
    """The function of an object file; callable from several threads at once, without the
    interpreter's lock.
    """
    loaded = machine_code.Loaded(code, ENTRY)
    pointers = [ctypes.c_void_p] * 3
    call = ctypes.CFUNCTYPE(ctypes.c_double, *pointers)(loaded.address)

    def search(code: Arrays, sizes: Arrays, room: Arrays, choice: np.ndarray) -> float:
        lengths = np.array([len(array) for array in (*code, *sizes)], np.int64)
        arrays = (*code, *sizes, *room, choice)
        places = np.array([array.ctypes.data for array in arrays], np.uintp)
        return call(lengths.ctypes.data, places.ctypes.data, places.ctypes.data)

    search.loaded = loaded  # the code lives as long as it
    return search


def _compile():
    """numba's C function around `kernel.search`.

    Its arguments are the lengths of the arrays of a code and of the sizes, and the addresses of all
    arrays in the order of `kernel.search`, twice: once as integers, once as floats.
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
            carray(whole[15], (n[7] + 1, n[8] + 1, 2)),
            carray(real[16], (1,)),
        )
        return search(code, sizes, room, carray(whole[17], (7,)))

    whole = nb.CPointer(nb.int64)
    signature = nb.float64(whole, nb.CPointer(whole), nb.CPointer(nb.CPointer(nb.float64)))
    return cfunc(signature, error_model="numpy")(entry)
