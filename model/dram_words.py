"""The first words of every off-chip memory's state, and the results of its functions."""

NEVER = 1 << 62
FULL = -1
"""Answer of `accept` of a memory without room for a line."""
MISFIT = -2
"""Answer of `accept` of a `trace` to a line that is not the recorded one."""

KIND = 0
IN_FLIGHT = 1
"""Lines."""
EARLIEST = 2
"""The next cycle in which something may happen."""
TAKEN = 3
"""Cycle, of `trace`, in which the chunk that was granted last is taken: no other is granted
before. 0 for the other kinds, which take every chunk in the cycle after its grant.
"""
SHARED = 4
"""Words that a memory of every kind begins with."""
