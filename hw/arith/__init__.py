"""Datapaths: one lane of each function, and the dot product."""
