"""Differential fuzzing: random programs and single-unit streams, model against RTL on every beat,
values against the program's NumPy meaning (docs/fuzzing.md).
"""
