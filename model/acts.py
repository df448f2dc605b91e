"""The compiled units as C functions, each compiled when a graph first has it.

The engine calls them through addresses: a run compiles the units that it has, and a unit that is
changed is compiled alone. Each calls one function of `penstock.model.units`, which says what it
does.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils, sigutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from . import units

__all__ = ["ACTS", "act", "address"]

ACTS = {
    units.K_BROADCAST: "broadcast",
    units.K_FLATTEN: "flatten",
    units.K_PROMOTE: "promote",
    units.K_PROMOTE_OUTER: "promote_outermost",
    units.K_RESHAPE: "reshape",
    units.K_REPEAT: "repeat",
    units.K_ZIP: "zip_",
    units.K_SPLIT: "split",
    units.K_MERGE: "merge",
    units.K_PIPE: "pipeline",
    units.K_ACCUM: "accum",
    units.K_SCRATCHPAD: "scratchpad",
    units.K_LOAD: "load",
    units.K_STORE: "store",
    units.K_SOURCE: "source",
    units.K_PACE: "pace",
    units.K_ROW_PACK: "row_pack",
    units.K_ROW_UNPACK: "row_unpack",
    units.K_ROW_APPEND: "row_append",
    units.K_ROW_OFFSET: "row_offset",
    units.K_PARTITION: "partition",
    units.K_REASSEMBLE: "reassemble",
    units.K_EAGER_MERGE: "eager_merge",
    units.K_EXPAND: "expand",
    units.K_SIGNAL: "signal",
    units.K_GENERATE: "generate",
    units.K_ADDRESS: "address",
    units.K_RANDOM_STORE: "random_store",
}
"""Code of a unit's record -> function of `penstock.model.units`.

A sink, which writes arrays of its own, is the engine's.
"""

FURTHER = {"store": ", True, True"}
"""Arguments after the usual ones."""

ROOM = 1 << 40
LOG_FIELDS = 5
NUMBER = types.int64
WORDS = types.CPointer(types.int64)
SIGNATURE = sigutils.normalize_signature(
    NUMBER(WORDS, types.CPointer(types.uint32), WORDS, NUMBER, NUMBER)
)

SOURCE = """
def act_{name}(state, values, log, unit, cycle):
    S, V, LOG = carray(state, ROOM), carray(values, ROOM), carray(log, (ROOM, LOG_FIELDS))
    return {name}(S, V, LOG, unit, cycle{further})
"""


@functools.cache
def address(name: str) -> int:
    """Address of a unit's function, compiled or from numba's cache."""
    return _function(name).address


@functools.cache
def _function(name: str) -> CFunc:
    scope = {
        name: getattr(units, name),
        "carray": carray,
        "ROOM": ROOM,
        "LOG_FIELDS": LOG_FIELDS,
        "__name__": __name__,
    }
    text = SOURCE.format(name=name, further=FURTHER.get(name, ""))
    exec(compile(text, __file__, "exec"), scope)
    function = CFunc(
        scope[f"act_{name}"],
        SIGNATURE,
        locals={},
        options={"boundscheck": False, "error_model": "numpy"},
    )
    function.enable_caching()
    function._cache._cache_file._source_stamp = _stamp()
    function.compile()
    return function


@functools.cache
def _stamp() -> str:
    """Digest of all that the functions inline: numba's cache looks at this file only."""
    folder = Path(__file__).parent
    files = [Path(__file__), *sorted((folder / "units").glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@intrinsic
def act(typing, function, S, V, LOG, unit, cycle):
    """Call the unit's function at address ``function``; returns its flags."""

    def emit(context, builder, signature, arguments):
        pointers = []
        for kind, value in zip(signature.args[1:4], arguments[1:4], strict=False):
            array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
            pointers.append(array.data)
        number = ir.IntType(64)
        kind = ir.FunctionType(number, [p.type for p in pointers] + [number, number])
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(called, [*pointers, *arguments[4:]])

    return types.int64(types.int64, S, V, LOG, types.int64, types.int64), emit
