"""Python's garbage collector beside millions of objects that are none: those of a netlist."""

import contextlib
import gc
from collections.abc import Iterator

RARELY = (100_000, 20, 20)
"""New objects after which garbage is searched for cycles, and how often older ones are: by default
after 700, which takes a third of an export.
"""


@contextlib.contextmanager
def rarely() -> Iterator[None]:
    """Search as rarely as `RARELY` says within the block, or the function that it decorates."""
    usual = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
