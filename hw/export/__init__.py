"""The one way to Verilog, and what leaves with it."""

from .verilog import Export, annotated_rtlil, check_prefix, directed, export, put, verilog_of, write

__all__ = [
    "Export",
    "annotated_rtlil",
    "check_prefix",
    "directed",
    "export",
    "put",
    "verilog_of",
    "write",
]
