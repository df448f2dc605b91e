"""A cycle of a `scratchpad`: pages, writers and readers (docs/timing.md section 4)."""

from __future__ import annotations

from .scratchpad_readers import read, reader_port
from .scratchpad_state import ENDED, Reader, Scratchpad, Writer
from .scratchpad_writers import acknowledged, end_spilling, free_lowest, write, writer_port
from .state import ACTIVE, acts


@acts(Scratchpad, "scratchpad")
def scratchpad(net, u, c):
    flags = ACTIVE if free_lowest(net, u, c) else 0
    n_free = u.n_free
    for i in range(u.n_writers):
        flags |= writer_port(net, u, Writer(net, u.writers, i), i, n_free, c)
    settled = u.in_flight == 0
    flags |= write(net, u, c)
    if flags & ENDED:
        u.write_turn = 0
        if u.spill:
            end_spilling(net, u, c)
    if u.spill:
        flags |= acknowledged(net, u, c)
    ended = 0
    for i in range(u.n_readers):
        port = reader_port(net, u, Reader(net, u.readers, i), i, settled, c)
        ended |= port & ENDED
        flags |= port
    flags |= read(net, u, c)
    if ended:
        u.read_turn = 0
    return flags
