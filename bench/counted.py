"""Coverage of simulators with a C++ ``main`` of their own: of an overlay,
and of a board.

Neither ``main`` knows of it: a module beside the design writes what
Verilator has counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from amaranth.lib import wiring
from penstock.board import simulator
from penstock.tb import coverage, overlay_api
from penstock.tb.coverage import CoveredDesign
from penstock.tb.program import Verilated

QUIET = 100
"""Cycles of a serial line at rest, after which a board's counts are
written: more than a byte takes, and fewer than pass before its clock
stops.
"""
WRITER = """module penstock_counts (input logic clk, input logic active);
    task save;
        $c("Verilated::threadContextp()->coveragep()->write(\\"{file}\\");");
    endtask
    int quiet = 0;
    always @(posedge clk) begin
        quiet <= active ? 0 : quiet + 1;
        if (quiet == {quiet}) save();
    end
    final save();
endmodule
bind {top} penstock_counts penstock_counts_ (.clk, .active({active}));
"""
ACTIVE = {overlay_api.TOP: "1'b1", simulator.TOP: "busy | ~rx | ~tx"}
"""What a top does while its counts may change; an overlay's are written
at the end.
"""


class Counting(Verilated):
    """A simulator that counts."""

    def flags(self) -> list[str]:
        return [*super().flags(), "--coverage-user"]


@contextmanager
def counted(component: wiring.Component, top: str) -> Iterator[CoveredDesign]:
    """A design whose simulators are built with cover statements within
    the block; its hits are there after it.

    Parameters
    ----------
    component, top
        What is exported of an overlay or a board, and as what.

    """
    design = coverage.component(component, top)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = WRITER.format(
            file=folder / "coverage.dat", quiet=QUIET, top=top, active=ACTIVE[top]
        )

        def program(
            verilog: Mapping[str, str],
            top: str,
            main: Path,
            *,
            shared: Iterable[str] = (),
            waves: bool = False,
        ) -> tuple[Path, float]:
            """In place of :func:`~penstock.tb.program.program`: flat,
            and not from the cache.
            """
            files = {**verilog, **design.verilog, "counts.sv": writer}
            return Counting(files, top, main, (), waves).compile(folder), 0.0

        with (
            mock.patch.object(overlay_api, "program", program),
            mock.patch.object(simulator, "program", program),
        ):
            yield design
        design.collect(folder)
