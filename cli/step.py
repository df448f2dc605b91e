"""``penstock step``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..machine.errors import PenstockError
from ..system import output
from .options import add_quiet, add_set, display, one_value, values_verdict


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("script", metavar="FILE.py", help="a script against the STeP authors' Python")
    c.add_argument("args", nargs="*", metavar="ARG", help="its arguments (those with - after --)")
    c.add_argument(
        "--config",
        help="preset name or TOML file of this machine (default: fig8, or paper_hdl_bf16 where the "
        "script has mock_bf16); the off-chip memory is the script's",
    )
    c.add_argument(
        "--machine",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="another value of a field of its table [machine], such as channel_depth",
    )
    c.add_argument(
        "--on",
        choices=("stepsim", "model", "rtl", "both"),
        default="model",
        help="what runs besides the published simulator's timing: this machine's model (default), "
        "its RTL, both, or nothing (stepsim)",
    )
    c.add_argument(
        "--onchip-bw",
        type=int,
        default=64,
        metavar="BYTES",
        help="of an on-chip memory unit a cycle, in the timing stepsim (default 64)",
    )
    c.add_argument("--explain", action="store_true", help="where the machine's cycles went")
    c.add_argument(
        "--verilog",
        type=output.folder_option,
        metavar="DIR",
        help="write the Verilog of the fabric; of several graphs, into a folder each",
    )
    c.add_argument(
        "--tensors",
        metavar="FILE.py[:NAME]",
        help="for a build_graph(dims, tensors): the file whose precompute_tensors(NAME, dims) "
        "makes them (NAME: the script's, without .py)",
    )
    add_set(c, "a size of a file that only defines build_graph(dims)")
    add_quiet(c)
    c.set_defaults(handler=command)


def command(args) -> int:
    from .. import step
    from ..runs import api, explain, tables

    rows: list[dict] = []
    records: list = []
    written: list = []
    try:
        found = step.run(
            args.script,
            args.args,
            machine=args.config,
            settings=one_value(args.machine, "--machine"),
            onchip_bw=args.onchip_bw,
            dims=one_value(args.params),
            tensors=args.tensors,
        )
    except step.ScriptError as e:
        print(f"penstock: {args.script} raises\n{e.text}", end="", file=sys.stderr)
        return 1
    if not found:
        raise PenstockError(
            "simulates no graph", args.script, remedy="call simulate, or define build_graph(dims)"
        )
    for i, s in enumerate(found):
        program: Any = s.program
        row = {"line": Path(s.line).name, "stepsim cycles": s.cycles}
        if args.on != "stepsim":
            with display(args) as progress:
                records += api.run_points(
                    program, s.config, [{}], on=args.on, values=s.values, progress=progress
                )
            r = records[-1]
            row |= {"machine cycles": r.cycles, "off-chip bytes": r.offchip_bytes}
            row |= {"values right": r.values_ok} if s.values else {}
        rows.append(row)
        if args.verilog:
            folder = args.verilog / str(i) if len(found) > 1 else args.verilog
            written += api.verilog(program, s.config, {}, out=folder)
    tables.print_table(rows)
    for path in written:
        print(f"wrote {path}")
    for r in records:
        if args.explain:
            print(explain.text(r))
        elif r.channels_observed is not None:
            print(tables.agreement(r))
    return values_verdict(records)
