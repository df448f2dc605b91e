"""Definitions that every side of Penstock shares: unit graph, beat layouts, configuration, timing
constants, result record.
"""
