"""Purposes of a fabric's memories."""

TILES = "tiles in scratchpads"
KEPT = "pages and counts of scratchpads"
ACCUMULATORS = "accumulators"
RINGS = "rings"
BANDS = "bands of loads and stores"
CHANNELS = "channels"
QUEUES = "queues of units"
USES: tuple[str, ...] = (TILES, KEPT, ACCUMULATORS, RINGS, BANDS, CHANNELS, QUEUES)
