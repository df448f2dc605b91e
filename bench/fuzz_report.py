"""The campaign of docs/fuzzing.md, for `docs/generate.py`.

`python bench/fuzz_report.py --record FILE` renews the record from what `penstock fuzz --json`
wrote.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "results" / "fuzz.json"
GROUPS = {
    "operator": "operators and functions",
    "form": "forms of them",
    "port": "ports of units",
    "stop": "stop levels, with and without data",
    "empty": "ways of being empty",
}


def blocks() -> dict[str, Callable[[], str]]:
    """The block of docs/fuzzing.md."""
    return {"campaign": lambda: campaign(json.loads(RECORD.read_text(encoding="utf-8")))}


def campaign(record: dict) -> str:
    """What a campaign did, and how often it met what it has to meet."""
    n = record["counts"]
    made = record["versions"]
    done = [
        ("programs", f"{n['programs']:,} of {n['structures']:,} structures"),
        ("single-unit streams", f"{n.get('streams', 0):,}"),
        ("simulator builds", f"{n['RTL builds']:,}"),
        ("beats compared on RTL", f"{n['beats compared on RTL']:,}"),
        ("cycles on RTL", f"{n['cycles on RTL']:,}"),
        ("failures", f"**{len(record['failures'])}**"),
        ("minutes on 2 cores", f"{record['wall_s'] / 60:.0f}"),
        ("made with", f"commit {made['commit'].rstrip('+')}, Verilator {made['verilator']}"),
    ]
    rows = []
    for group, what in GROUPS.items():
        hits = [(h["hits"], h["what"]) for h in record["hits"] if h["group"] == group]
        fewest, name = min(hits)
        rows.append((what, str(len(hits)), str(fewest), f"`{name}`"))
    failures = [f"* {f['message'].splitlines()[0]}" for f in record["failures"]]
    header = ("what is to be met", "number", "fewest hits", "of")
    parts = [
        frame(("what", "how much"), done, (False, False)),
        *(["Failures:", "\n".join(failures)] if failures else []),
        frame(header, rows, (False, True, True, False)),
    ]
    return "\n\n".join(parts)


def stored(record: dict) -> dict:
    """What is kept of a campaign: all but the programs of failures."""
    return record | {
        "failures": [
            {k: v for k, v in f.items() if k in ("backend", "origin", "message")}
            for f in record["failures"]
        ]
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        required=True,
        help="what `penstock fuzz --on rtl --json FILE` wrote",
    )
    args = p.parse_args()
    write_text(RECORD, json.dumps(stored(json.loads(args.record.read_text())), indent=1) + "\n")


if __name__ == "__main__":
    main()
