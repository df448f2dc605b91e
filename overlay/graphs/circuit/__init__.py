"""Circuits for the token overlay: SPICE netlists, and one Newton iteration of their DC operating
point as a dataflow graph (docs/overlay.md section 12).
"""

from .netlist import Circuit, Element, read_netlist
from .newton import newton_graph

__all__ = ["Circuit", "Element", "newton_graph", "read_netlist"]
