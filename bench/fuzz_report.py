"""Writes the last deep campaign into docs/fuzzing.md from its stored record; with `--record FILE`
from a new one (`penstock fuzz --json`), which it stores: `python bench/fuzz_report.py`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from blocks import Blocks
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "fuzzing.md"
RECORD = ROOT / "docs" / "results" / "fuzz.json"
BLOCKS = Blocks("bench/fuzz_report.py")
NAME = "campaign"
GROUPS = {
    "operator": "operators and functions",
    "form": "forms of them",
    "port": "ports of units",
    "stop": "stop levels, with and without data",
    "empty": "ways of being empty",
}


def block(record: dict) -> str:
    """What a campaign did, and how often it met what it has to meet."""
    n = record["counts"]
    least = [
        (
            GROUPS[g],
            min((h["hits"], h["what"]) for h in record["hits"] if h["group"] == g),
            sum(h["group"] == g for h in record["hits"]),
        )
        for g in GROUPS
    ]
    rows = [(what, str(size), str(hits), f"`{name}`") for what, (hits, name), size in least]
    found = "".join(f"\n* {f['message'].splitlines()[0]}" for f in record["failures"])
    return (
        f"The last one on record: {n['programs']:,} programs ({n['structures']:,} structures, "
        f"{n['RTL builds']:,} builds) and {n.get('streams', 0):,} single-unit streams on RTL, "
        f"{n['beats compared on RTL']:,} beats compared in {n['cycles on RTL']:,} cycles, "
        f"**{len(record['failures'])} failures**; {record['wall_s'] / 60:.0f} minutes on 2 cores "
        f"(commit {record['versions']['commit'].rstrip('+')}, Verilator "
        f"{record['versions']['verilator']}).\n\n"
        + (f"Failures:\n{found}\n\n" if found else "")
        + frame(
            ("what is to be met", "number", "fewest hits", "of"), rows, (False, True, True, False)
        )
    )


def stored(record: dict) -> dict:
    """What is kept of a campaign: all but the programs of failures."""
    return record | {
        "failures": [
            {k: v for k, v in f.items() if k in ("backend", "origin", "message")}
            for f in record["failures"]
        ]
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="what `penstock fuzz --on rtl --json FILE` wrote",
    )
    args = p.parse_args()
    if args.record:
        write_text(RECORD, json.dumps(stored(json.loads(args.record.read_text())), indent=1) + "\n")
    write_text(PAGE, BLOCKS.insert(PAGE.read_text(), NAME, block(json.loads(RECORD.read_text()))))


if __name__ == "__main__":
    main()
