"""Writes docs/deadlock.md from the stored findings; with `--records JSON` from new ones, which it
stores: `python bench/deadlock_report.py`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from penstock.runs.deadlock import Finding, load
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "deadlock.md"
RECORD = ROOT / "docs" / "results" / "deadlock.json"

TEXT = """# Deadlocks

A run in which nothing can move any more ends with one message: the smallest depth of all channels that frees it, the operators that wait for each other with their lines in the program, then the units
and the channels between them with what they hold. One that no depth frees says why, where a Reassemble is told to take from an input whose stream has ended. `penstock deadlock` looks further: it runs a program without values at every combination of parameters and also names, for each full channel of the circle, the depth that frees
the run where only it and its copies (channels between units of the same names but for their numbers) are deepened. Where a writer of a scratchpad waits for a page, the least
`machine.pages` or `machine.buffers` that frees it is named as well. All these are found by running (`model/depths.py`): one less does not free the run. `Fifo(stream, depth=N)` in the program
deepens one channel, `machine.channel_depth` (`stepsim.fifo_depth`) all of them.

Before any run, lowering settles what can be told from the program:

* Paths that part and join again, where one waits within a tile: for the last of its physical tiles (a load that the tile starts, an Expand by it), or for a buffer or a sum of them.
  The other paths get channels that hold what the waiting one needs.
* Paths where one waits for several elements (an Accum of many) and the others hold fewer: refused, with the `Fifo` that frees it. Its size is memory that a program names.
* A feedback loop that no beat can enter: refused.

## The published mixture of experts at FIFO depth {depth}

Qwen3-30B-A3B's layer with a batch of {tokens} tokens, the published routing, the published simulator's rules (written by `bench/deadlock_report.py` from `docs/results/deadlock.json`):

```sh long
penstock new traces
{command}
```

{table}

With tiles of few rows an expert with many tokens fills its pipeline, and its next token blocks the partition; the reassemble waits for a token of an expert whose tile is not full yet, and which only the
blocked partition could fill. Larger tiles leave an expert with fewer of them in flight than the channels hold. (The published tool's authors set its depth to 1024 for this experiment.) *slots*: channels times depth.

The same can happen to any program with static tiles whose rows are gathered in their order. The workload `moe` therefore declares the room in front of each expert for as many tiles as it can get
(`waiting`), and finishes with every routing; with `waiting=0` it has what the machine's channels hold.

### The circle at tile {tile}, after cycle {cycle}

{circle}

### Channels of one kind alone

{reliefs}
"""


def markdown(header: tuple[str, ...], rows: list[tuple]) -> str:
    return frame(
        header,
        [["" if x is None else str(x) for x in r] for r in rows],
        [isinstance(x, int) for x in rows[0]],
    )


def command(found: list[Finding]) -> str:
    """The line that finds all this, with the trace where `penstock new traces` puts it."""
    f = found[0]
    params = f.params | {"trace": f"traces/routing/{Path(f.params['trace']).name}"}
    fixed = [f"--set {k}={v}" for k, v in params.items() if k != "tile_rows"]
    tiles = ",".join(str(x.params["tile_rows"]) for x in found)
    return (
        f"penstock deadlock {f.program} --config {f.config} --timing {f.timing} --depth "
        f"{f.depth} {' '.join(fixed)} --set tile_rows={tiles}"
    )


def page(found: list[Finding]) -> str:
    table = []
    for f in found:
        d = f.deadlock
        if d is None:
            table.append((f.params["tile_rows"], f"{f.cycles} cycles", None, None, None, None))
        else:
            best = d.reliefs[0]
            table.append(
                (
                    f.params["tile_rows"],
                    f"deadlock after cycle {d.cycle}",
                    len(d.circle),
                    d.uniform,
                    f"{best.depth} (`{best.channel}`)",
                    best.slots,
                )
            )
    first = next(f for f in found if f.deadlock)
    d = first.deadlock
    what = {"room": "room in", "beat": "a token on"}
    circle = [
        (f"`{s.unit}`", s.kind, f"{what[s.why]} `{s.channel}`", f"{s.held} of {s.depth}")
        for s in d.circle
    ]
    reliefs = [
        (f.params["tile_rows"], f"`{r.channel}`", r.count, r.depth, r.slots)
        for f in found
        if f.deadlock
        for r in f.deadlock.reliefs
    ]
    return TEXT.format(
        depth=first.depth,
        tokens=first.params["tokens"],
        command=command(found),
        tile=first.params["tile_rows"],
        cycle=d.cycle,
        table=markdown(
            (
                "tile rows",
                f"at depth {first.depth}",
                "units in the circle",
                "depth of all that frees",
                "or depth of one kind",
                "slots",
            ),
            table,
        ),
        circle=markdown(("unit", "kind", "waits for", "holds"), circle),
        reliefs=markdown(("tile rows", "channel", "channels", "depth", "slots"), reliefs),
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--records", metavar="JSON", help="what `penstock deadlock ... --json` wrote")
    args = p.parse_args()
    if args.records:
        load(args.records)  # refuses what is none
        shutil.copyfile(args.records, RECORD)
    write_text(PAGE, page(load(RECORD)))


if __name__ == "__main__":
    main()
