"""Step of a test bench, once a cycle: :func:`.dram.step` as a C function, compiled once and then
loaded without Numba, which would take half of the time of a short run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..system import machine_code
from ..system.cache import digest, entry
from ..system.sources import digest_of, sources_of

SYMBOL = "penstock_dram_step"


def kept() -> Path:
    """The object file of the function, from the cache or compiled."""
    sources = digest_of(sources_of([Path(__file__)]))
    key = digest(sources, *machine_code.made_with())
    with entry("dram", key) as (folder, ready):
        file = folder / "step.object"
        if not ready:
            file.write_bytes(machine_code.emit(_compiled(), SYMBOL))
    return file


def load(file: Path) -> machine_code.Loaded:
    """The function of an object file: `int64 (now, n, lines, addresses, writes, out, state)`,
    :func:`.dram.step` with plain pointers.

    `addresses` are bytes; `writes` say which lines are written; `out` needs room for as many lines
    as can be delivered in a cycle (:meth:`penstock.machine.config.Machine.response_lanes`).
    """
    return machine_code.Loaded(file.read_bytes(), SYMBOL)


def _compiled() -> Any:
    """Numba's C function."""
    from numba import cfunc, types
    from numba.np.numpy_support import carray

    from .dram import step
    from .records import ENDLESS

    number = types.int64
    numbers = types.CPointer(number)
    flags = types.CPointer(types.uint8)
    signature = number(number, number, numbers, numbers, flags, numbers, numbers)

    @cfunc(signature, cache=False)
    def dram_step(now, n, lines, addresses, writes, out, state):
        return step(
            carray(state, ENDLESS),
            now,
            carray(lines, ENDLESS),
            n,
            carray(addresses, ENDLESS),
            carray(writes, ENDLESS),
            carray(out, ENDLESS),
        )

    return dram_step
