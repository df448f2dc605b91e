"""A fabric as Verilog: what a simulator is built of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..machine.unitgraph import UnitGraph


@dataclass(frozen=True)
class Design:
    """A fabric as Verilog.

    Attributes
    ----------
    graph
        Its structure; run-time parameters may differ from a point's.
    verilog
        File name -> text.
    top, shared
        Top module, and modules worth compiling once.
    registers
        Run-time registers as the sidecar lists them: unit, param, index, addr, bits.
    lanes, responses
        W and N of docs/top.md.
    seconds
        Wall time of the export (0.0: from the cache).

    """

    graph: UnitGraph
    verilog: dict[str, str]
    top: str
    registers: Sequence[Mapping] = ()
    shared: tuple[str, ...] = ()
    lanes: int = 1
    responses: int = 1
    seconds: float = 0.0
