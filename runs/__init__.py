"""Runs of programs and their records: one point, many, and conclusions from them."""
