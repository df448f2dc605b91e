"""Files to start from: programs, problems, graphs and traces; `penstock new NAME` copies one.

What lies in ``files/`` is a user's: programs there import penstock by its name, as from anywhere
else, and nothing of Penstock imports them.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from ..machine.errors import PenstockError
from ..system import children
from ..system.output import folder_writable, write_bytes

__all__ = ["SAMPLES", "Sample", "copy"]


@dataclass(frozen=True)
class Sample:
    """A file or a folder."""

    file: str  # its name, which a copy has unless told otherwise
    what: str  # what it is
    command: str  # what takes the copy, with ``{file}`` in its place
    uses: str = ""  # another sample's file that a copy of the folder has beside its own

    def then(self, copy: str | Path | None = None) -> str:
        """The command that takes a copy, by default one under the sample's own name."""
        return self.command.format(file=copy or self.file)


SAMPLES = {
    "program": Sample(
        "program.py",
        "a commented program: a linear layer with an activation",
        "penstock run {file} --config small_fpga",
    ),
    "top2": Sample(
        "top2.py",
        "a mixture of experts over as many rows as the run brings",
        "penstock run {file} --config small_fpga",
    ),
    "router": Sample(
        "router.py",
        "a mixture of experts whose router runs in the fabric",
        "penstock run {file} --config small_fpga",
    ),
    "rotary": Sample(
        "rotary.py",
        "a program with a function, a unit and an operator of its own",
        "penstock run {file} --config small_fpga --on both",
    ),
    "step": Sample(
        "matmul_step.py",
        "a product of matrices in the STeP authors' Python",
        "penstock step {file}",
    ),
    "layer": Sample(
        "layer",
        "a small decoder layer as torch.export writes it, its inputs and its results",
        "penstock import {file}/layer.pt2 --out decoder",
    ),
    "cocotb": Sample(
        "rotary_bench",
        "a cocotb bench: the unit of `rotary.py` beside the fast model, for pytest",
        "pytest {file}",
        uses="rotary.py",
    ),
    "graph": Sample(
        "graph.dfg",
        "a dataflow graph for the overlay: a quadratic equation",
        "penstock overlay compare {file} --mesh 2x2",
    ),
    "matrix": Sample(
        "s27.mtx",
        "a circuit matrix (Matrix Market): the pattern of ISCAS'89 s27, drawn values",
        "penstock overlay compare lu:{file} --mesh 4x4",
    ),
    "circuits": Sample(
        "circuits",
        "SPICE netlists: diode clipper, bipolar amplifier, CMOS inverter, CMOS adder of 50 nodes",
        "penstock overlay spice {file}/inverter.cir --mesh 2x2",
    ),
    "problem": Sample(
        "problem.json",
        "a DAG problem: a gated layer with its residual",
        "penstock dag solve {file} schedule.json",
    ),
    "traces": Sample(
        "traces",
        "routing and KV-cache lengths as published with the STeP paper: figures 9 to 15, and 21",
        "penstock figures fig15 --traces {file} --out out",
    ),
}


def copy(name: str, to: str | Path | None = None) -> Path:
    """Copy a sample to ``to``, or under its own name into this folder, as a whole or not at all.

    Raises
    ------
    PenstockError
        No sample of this name, something is there already, or it cannot be written.
    """
    if name not in SAMPLES:
        raise PenstockError(f"no sample named {name!r}", remedy=f"known: {', '.join(SAMPLES)}")
    target = Path(to or SAMPLES[name].file)
    if target.exists():
        raise PenstockError(f"{target} is there already", remedy="give another path with --out")
    with as_file(files(__name__) / "files" / SAMPLES[name].file) as source:
        if source.is_file():
            write_bytes(target, source.read_bytes())
            return target
        if not target.parent.is_dir():
            raise PenstockError(f"no such folder: {target.parent}", remedy="create it first")
        folder_writable(target.parent)
        with children.temporary(parent=target.parent) as beside:
            made = beside / target.name
            shutil.copytree(source, made)
            if SAMPLES[name].uses:
                shutil.copy(source.parent / SAMPLES[name].uses, made)
            made.rename(target)
    return target
