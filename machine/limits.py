"""Widths and queue sizes of the `machine` timing's memories: one definition for the model, the hardware and the checks."""

SIZE_BITS = 20
"""Bits of sizes, counts and steps, in elements, and of repeats."""
POSITION_BITS = 24
"""Bits of a position in a tensor, in elements."""
ADDRESS_BITS = 32
"""Bits of a byte address and of a pitch."""
TRIGGERS_AHEAD, TRIGGERS_BEHIND = 2, 16
"""Triggers that wait for a load's generator, and for its assembly (docs/timing.md section 5)."""
STORE_ADDRESSES, STORE_TILES = 2, 8
"""Addresses that wait in a random store, and tiles whose acknowledgement is due at most."""
FLIGHT_BITS = 32
"""Bits of the number of lines of a store that are granted and not acknowledged."""
COUNT_BITS, DELTA_BITS = 10, 9
"""Bits of a buffer's reference count, and of a change of it (signed)."""
PAGES_BITS = 16
"""Bits of the number of pages of a buffer."""
