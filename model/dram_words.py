"""The first words of every off-chip memory's state, and what its functions say."""

NEVER = 1 << 62
FULL = -1
"""What `accept` of a memory says that has no room for a line."""

KIND = 0
IN_FLIGHT = 1
"""Lines."""
EARLIEST = 2
"""The next cycle in which something may happen."""
SHARED = 3
"""Words that a memory of every kind begins with."""
