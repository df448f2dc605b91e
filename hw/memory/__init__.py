"""Scratchpad, off-chip load and store, and the interconnect to the DRAM."""
