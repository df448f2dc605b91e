"""``penstock verilog``."""

from __future__ import annotations

import argparse
import functools

from ..machine.errors import PenstockError
from .options import add_out, add_program, add_quiet, display, one_value


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c)
    add_out(c, required=True)
    add_export(c)
    c.add_argument(
        "--bench",
        action="store_true",
        help="with a bench for cocotb alone: Makefile, test, stimulus, and the model's cycles and "
        "beats (docs/testing.md)",
    )
    c.add_argument(
        "--host",
        choices=("none", "axi"),
        default="none",
        help="axi: with registers on AXI4-Lite and memory on AXI4 (docs/board.md); default: the "
        "fabric alone",
    )
    c.add_argument(
        "--axi-bits",
        type=int,
        metavar="N",
        help="with --host axi: bits of AXI4's data, at most a line's (default 64)",
    )
    add_quiet(c)
    c.set_defaults(handler=command)


def add_export(c: argparse.ArgumentParser) -> None:
    """Options of every command that writes Verilog."""
    c.add_argument(
        "--prefix",
        default="penstock",
        metavar="NAME",
        help=(
            "what the names of modules and files begin with (default penstock); exports for one "
            "design need one each"
        ),
    )
    c.add_argument(
        "--annotated",
        action="store_true",
        help="with attributes src: the Python line that each part comes from",
    )
    c.add_argument(
        "--project",
        type=clock,
        metavar="MHZ",
        help=(
            "for synthesis tools: a file a module, a list of them, constraints for a clock of so "
            "many MHz, lint waivers, a FuseSoC core, a template of an instance"
        ),
    )


def clock(text: str) -> float:
    """A clock rate in MHz."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no clock rate: from 0.001 to 10000, in MHz")
    return rate


def command(args) -> int:
    from ..runs import api
    from ..runs.axi_verilog import AXI_BITS, axi_verilog

    export = functools.partial(api.verilog, bench=args.bench)
    if args.host == "axi":
        if args.bench:
            raise PenstockError("--bench is of the fabric alone", remedy="leave out --host axi")
        export = functools.partial(axi_verilog, bits=args.axi_bits or AXI_BITS)
    elif args.axi_bits is not None:
        raise PenstockError("--axi-bits is of --host axi", remedy="give both, or neither")
    with display(args) as progress:
        written = export(
            args.program,
            args.config,
            one_value(args.params),
            out=args.out,
            prefix=args.prefix,
            annotated=args.annotated,
            clock_mhz=args.project,
            progress=progress,
        )
    for path in written:
        print(f"wrote {path}")
    return 0
