"""Tile kernels as C functions: the engine calls values through
addresses, so that a new function does not recompile it.
"""

from __future__ import annotations

from numba import cfunc, types
from numba.core.ccallback import CFunc
from numba.np.numpy_support import carray

from . import functions, tile_kernels
from .compiling import address_of

_SIGNATURE = types.void(
    types.CPointer(types.float32),
    types.CPointer(types.float32),
    types.CPointer(types.float32),
    types.int64,
)
_compiled: dict[object, CFunc] = {}


def _unary(tile):
    def kernel(a, b, out, t):
        tile(carray(a, (t, t)), carray(out, (t, t)))

    return kernel


def _binary(tile):
    def kernel(a, b, out, t):
        tile(carray(a, (t, t)), carray(b, (t, t)), carray(out, (t, t)))

    return kernel


def _address(tile, arity: int) -> int:
    if tile not in _compiled:
        _compiled[tile] = cfunc(_SIGNATURE)((_unary if arity == 1 else _binary)(tile))
    return address_of(_compiled[tile])


def address(name: str) -> int:
    """Address of the kernel of an element-wise function, built in or registered by a user."""
    tile = functions.lookup(name).tile
    return _address(tile, tile.py_func.__code__.co_argcount - 1)  # the last one is the result


def matmul_address(transposed: bool) -> int:
    return _address(tile_kernels.matmul_bt_tile if transposed else tile_kernels.matmul_tile, 2)
