"""The search for tilings as machine code: loaded from the cache, else made with numba by another
process (`python -m penstock.scheduler.dag.solve.compiled`).

Compiling takes ten seconds of CPU time and more, once after installation.  Nobody waits for it: the
functions of `kernel` run as plain Python in the meantime (`Compilation` says when to change over).
What is kept is an object file, loaded without numba (:mod:`~penstock.system.machine_code`): a short
search has no time for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import subprocess
import sys
import types
from collections.abc import Callable

import numpy as np

from ....system import children, machine_code
from ....system.cache import digest, entry, find
from . import closed_form, kernel

KIND = "dag"
"""Folder of the cache."""
ENTRY = "penstock_tiling_search"
"""The symbol in the object file."""
Arrays = tuple[np.ndarray, ...]
Search = Callable[[Arrays, Arrays, Arrays, np.ndarray], float]
"""`kernel.search`."""


@functools.lru_cache(maxsize=1)
def load() -> Search:
    """`kernel.search` as machine code, from the cache or compiled."""
    with entry(KIND, _key()) as (folder, ready):
        file = folder / "tilings.object"
        if not ready:
            file.write_bytes(machine_code.emit(_compile(), ENTRY))
    return link(file.read_bytes())


def cached() -> bool:
    """True if `load` need not compile."""
    return loaded() or find(KIND, _key()) is not None


def loaded() -> bool:
    """True if this process has the machine code already."""
    return load.cache_info().currsize > 0


@functools.cache
def _key() -> str:
    """Digest of the sources of the machine code, and of the processor that it is for."""
    sources = map(inspect.getsource, (closed_form, kernel, sys.modules[__name__], machine_code))
    return digest(*sources, *machine_code.made_with())


class Compilation:
    """A process that compiles; leaving the ``with`` block ends it (what is compiled stays)."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Compilation:
        if not cached():
            self.process = self._started.enter_context(
                children.started(
                    children.module(f"{__package__}.compiled"),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        return self

    @property
    def ready(self) -> bool:
        """True if `load` will not have to compile."""
        return self.process is None or self.process.poll() == 0

    @property
    def running(self) -> bool:
        """True if `ready` may still come true."""
        return self.process is not None and self.process.poll() is None

    def __exit__(self, *exc: object) -> None:
        self._started.close()


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

    names = vars(closed_form) | vars(kernel)
    compiled = {
        name: njit(error_model="numpy")(types.FunctionType(plain.__code__, names, name))
        for name, plain in names.items()
        if isinstance(plain, types.FunctionType)
    }
    names |= compiled
    search = compiled["search"]
    runs = closed_form.RUNS
    columns = closed_form.COLUMNS

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
            carray(whole[10], (closed_form.STEP_RUNS,)),
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


if __name__ == "__main__":
    load()
