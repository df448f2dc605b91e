"""Figures of the paper, sweeps, and costs of parts."""
