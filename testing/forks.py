"""A fork and a join whose branches need a channel of some depth."""

from ..machine.beat import BufferRef
from ..machine.kinds.compute import Map
from ..machine.kinds.copies import Broadcast
from .graphs import FULL, Build


def fork_that_needs(depth):
    """One branch gathers four beats in a scratchpad before the other's first beat is needed."""
    b = Build(2)
    fork = b.unit(Broadcast(n=2))
    b.link(b.source([(s, FULL) for s in [0, 0, 0, 0, 0, 1]]), fork)
    pad = b.scratchpad()
    b.link((fork, 0), pad)
    b.link((pad, 0), (pad, 1), BufferRef(8))
    z = b.unit(Map(fn="add", arity=2, lanes=16))
    b.link((pad, 1), (z, 0))
    b.link((fork, 1), (z, 1), depth=depth)
    b.link(z, b.sink())
    return b
