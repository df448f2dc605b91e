"""Synchronous DRAM: its controller, the memory of a board made of it, and a chip to simulate."""
