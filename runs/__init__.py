"""Runs of programs and their records: one point, many, and what is read off them."""
