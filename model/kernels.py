"""Tile kernels as C functions: the engine calls values through addresses, so that a new function
does not recompile it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from numba import types
from numba.core import sigutils
from numba.core.ccallback import CFunc
from numba.np.numpy_support import carray

from ..machine import approximation, segments
from . import functions, tile_kernels
from .compiling import address_of, c_function
from .records import digest_of

_TILE = types.CPointer(types.float32)
SIGNATURE = sigutils.normalize_signature(types.void(_TILE, _TILE, _TILE, types.int64))

SOURCE = """
def kernel_{name}(a, b, out, t):
    tile({operands}, carray(out, (t, t)))
"""


@functools.cache
def _compiled(tile: Callable, operands: int) -> CFunc:
    """A kernel; those of this package from numba's cache, where they are there."""
    scope = {"tile": tile, "carray": carray, "__name__": __name__}
    name = tile.py_func.__name__
    views = ", ".join(f"carray({operand}, (t, t))" for operand in "ab"[:operands])
    source = SOURCE.format(name=name, operands=views)
    exec(compile(source, __file__, "exec"), scope)
    ours = getattr(tile_kernels, name, None) is tile
    digest = sources_digest() if ours else None
    return c_function(scope[f"kernel_{name}"], SIGNATURE, {}, digest)


@functools.cache
def sources_digest() -> str:
    """Digest of all that compiled kernels inline: numba's cache looks at one file only."""
    own = (__file__, tile_kernels.__file__, approximation.__file__, segments.__file__)
    return digest_of(*map(Path, own), Path(__file__).parent / "compiling.py")


def address(name: str) -> int:
    """Address of the kernel of an element-wise function, built in or registered by a user."""
    tile = functions.lookup(name).tile
    # The last argument is the result.
    return address_of(_compiled(tile, tile.py_func.__code__.co_argcount - 1))


def matmul_address(transposed: bool) -> int:
    """Address of a matmul of tiles."""
    tile = tile_kernels.matmul_bt_tile if transposed else tile_kernels.matmul_tile
    return address_of(_compiled(tile, 2))
