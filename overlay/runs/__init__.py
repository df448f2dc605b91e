"""Graphs on overlays: model, RTL, boards, and their comparison."""
