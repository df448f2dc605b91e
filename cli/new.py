"""``penstock new``."""

from __future__ import annotations

import argparse

from ..samples import SAMPLES, copy
from ..system.output import STANDARD, file


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "sample",
        nargs="?",
        default="program",
        metavar="SAMPLE",
        help="what to copy; `--list` shows all (default: program, a commented program)",
    )
    c.add_argument(
        "--out",
        type=file("--out"),
        metavar="PATH",
        help="name of the copy (default: the sample's own, in this folder)",
    )
    c.add_argument("--list", action="store_true", help="print the samples and write nothing")
    c.set_defaults(handler=command)


def command(args) -> int:

    if args.list:
        width = max(map(len, SAMPLES))
        for name, sample in SAMPLES.items():
            print(f"{name:{width}}  {sample.file}: {sample.what}")
        return 0
    path = copy(args.sample, args.out)
    sample = SAMPLES[args.sample]
    print(f"wrote {path}: {sample.what}")
    if str(path) != STANDARD:
        print(f"next: {sample.then(path)}")
    return 0
