"""Streams, stall patterns, agents and benches: for the units here, and for units of one's own."""
