"""The Verilog of a program's fabric with registers on AXI4-Lite and memory on AXI4."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError
from ..machine.unitgraph import UnitGraph
from ..system.output import folder_writable
from .progress import Progress
from .progress import of as progress_of

AXI_BITS = 64
"""Width of AXI4's data by default, in bits."""


def axi_verilog(
    program: str,
    config: str | Config,
    params: dict | None = None,
    *,
    out: str | Path,
    bits: int = AXI_BITS,
    prefix: str = "penstock",
    annotated: bool = False,
    clock_mhz: float | None = None,
    progress: Progress | Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the Verilog of a program's fabric behind
    :class:`~penstock.hw.host.axi_host.AxiHost`; ``<prefix>_axi`` is the
    top.

    Parameters
    ----------
    program, config, params, out, prefix, annotated, clock_mhz, progress
        As of :func:`penstock.runs.api.verilog`.
    bits
        Of AXI4's data: a power of two from 32 to 512, at most a line's.

    Raises
    ------
    PenstockError
        Bad input, a program without tensors in memory, or a machine that moves more than one line a
        cycle; nothing is written then.
    """
    # Amaranth takes a second to import; only this call needs it.
    from ..hw.export import Export, check_prefix, export, put
    from ..hw.export.project import files_of
    from ..hw.fabric import Fabric
    from ..hw.host.axi_host import AxiHost

    check_prefix(prefix)
    config = load_config(config) if isinstance(config, str) else config
    graph = lower(build(program, params or {}, config).graph, config)
    _check(graph, config, bits)
    folder_writable(Path(out))
    stage = progress_of(progress).stage
    stage(f"export Verilog of {graph.name}")
    design = Fabric(graph, config)
    fabric = export(design, prefix=prefix, annotated=annotated)
    digest = hashlib.sha256(fabric.verilog.encode()).hexdigest()
    line = config.machine.dram.line_bytes
    host = AxiHost(
        design,
        fabric.top,
        digest=int(digest[:8], 16),
        memory_bytes=-(-graph.memory_bytes // line) * line,
        bits=bits,
    )
    stage("export its host")
    around = export(host, f"{prefix}_axi", prefix=prefix, annotated=annotated)
    facts = {key: around.sidecar[key] for key in ("top", "ports")}
    inside = {"name": fabric.top, "kind": "fabric", "parameters": {}, "digest": digest}
    modules = [*fabric.sidecar["modules"], inside, *around.sidecar["modules"]]
    done = Export(
        around.top, fabric.verilog + around.verilog, fabric.sidecar | facts | {"modules": modules}
    )
    return put(done, files_of(done, clock_mhz), out)


def _check(graph: UnitGraph, config: Config, bits: int) -> None:
    """Raise PenstockError for a program that such a host does not support."""
    from ..hw.host.axi import WIDTHS

    machine = config.machine
    line = 8 * machine.dram.line_bytes
    if machine.port_lanes != 1 or machine.response_lanes != 1:
        raise PenstockError(
            f"its memory moves {machine.port_lanes} lines and answers {machine.response_lanes} in "
            "a cycle, AXI4 one",
            f"configuration {config.name}",
            remedy="set machine.port_lanes = 1 and one channel, as lean_fpga and small_board have",
        )
    if bits not in WIDTHS or bits > line:
        widths = ", ".join(str(width) for width in WIDTHS if width <= line)
        raise PenstockError(
            f"AXI4 has {widths} bits of data here, not {bits}",
            f"configuration {config.name}",
            f"a line has {line} bits",
        )
    if not graph.ports:
        raise PenstockError(
            "it has no tensor in memory",
            f"program {graph.name}",
            remedy="export it without --host: its streams are its ports",
        )
