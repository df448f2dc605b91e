"""Meaning of a program: its values by NumPy, and the sizes of a run without values."""
