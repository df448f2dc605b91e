"""``penstock import``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..machine.errors import PenstockError
from ..system import output


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("archive", metavar="LAYER.pt2", help="a layer as torch.export.save writes it")
    c.add_argument(
        "--out",
        type=_stem,
        metavar="LAYER",
        required=True,
        help="write the program LAYER.py and its schedule LAYER.toml",
    )
    c.set_defaults(handler=command)


def _stem(text: str) -> output.LayerStem:
    path = output.LayerStem(text.removesuffix(".py"))
    path.option = "--out"
    if not Path(path).name.isidentifier():
        raise PenstockError(
            f"{Path(path).name!r} is no name of a program", "--out", remedy="give it another name"
        )
    return path


def command(args) -> int:
    from ..layers import emit, reader

    layer = reader.read(args.archive)
    program, schedule = args.out.files()
    there = os.path.relpath(
        os.path.realpath(args.archive), os.path.dirname(os.path.realpath(program))
    )
    kept = emit.write(layer, Path(there).as_posix(), program, schedule)
    sizes = ", ".join(f"{name}={n}" for name, n in emit.default_sizes(layer).items())
    beside = f"; kept {schedule}, which was there" if kept else f" and {schedule}"
    count = f"{len(layer.operations)} operations"
    print(f"wrote {program}{beside}: {count}; sizes {sizes or 'fixed'}")
    print(f"next: penstock run {program}")
    return 0
