"""Dataflow graphs for the token overlay: device equations, sparse factorisations, scalarised
programs, expressions (docs/dataflow_graphs.md).
"""

from .builder import Builder, absolute, exp, expression, log, maximum, merge, minimum, sqrt, where
from .factor import Factors, factorise
from .generate import circuit_matrix
from .lu import entry_values, front_solve, read_factors, whole_lu
from .matrix import read_matrix
from .source import FORMS, graph_from

__all__ = [
    "FORMS",
    "Builder",
    "Factors",
    "absolute",
    "circuit_matrix",
    "entry_values",
    "exp",
    "expression",
    "factorise",
    "front_solve",
    "graph_from",
    "log",
    "maximum",
    "merge",
    "minimum",
    "read_factors",
    "read_matrix",
    "sqrt",
    "where",
    "whole_lu",
]
