"""Differential fuzzing: random programs and single-unit streams, model against RTL on every beat,
values against the program's NumPy meaning (docs/fuzzing.md).
"""

FORMS = ("any", "lean", "deep", "lean_deep")
"""Of the machines that are drawn: ``lean`` ones have narrow lines and
registers, ``deep`` ones deep pipelines.
"""
