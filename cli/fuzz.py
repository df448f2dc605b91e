"""``penstock fuzz``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ..machine.errors import PenstockError
from ..machine.limits import MOST_SECONDS, SEEDS, within
from ..runs import tables
from ..system import interrupts, output
from .options import add_executor, add_file, add_form, add_quiet, display, pool

if TYPE_CHECKING:
    from ..fuzz.campaign import Campaign


def add_arguments(c: argparse.ArgumentParser) -> None:
    c.add_argument("--count", type=int, default=200, metavar="N", help="programs (default 200)")
    c.add_argument(
        "--streams", type=int, default=0, metavar="N", help="single-unit streams (default none)"
    )
    c.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of everything that is drawn"
    )
    c.add_argument(
        "--on",
        choices=("model", "rtl"),
        default="model",
        help="model: values against NumPy; rtl: also every beat of the RTL against the model's",
    )
    c.add_argument(
        "--around",
        action="append",
        metavar="WORD",
        help=(
            "build each program around an operator whose name contains this, such as OffChip; may "
            "be repeated"
        ),
    )
    add_form(c)
    c.add_argument(
        "--array",
        metavar="NAME",
        help=(
            "programs within the capabilities of an array (preset or TOML file), placed on it; "
            "with --on rtl all run on its one simulator build"
        ),
    )
    c.add_argument(
        "--time",
        type=float,
        metavar="SECONDS",
        help=(
            "end after so long, at most 5 seconds later: what is being built or run then is "
            "given up"
        ),
    )
    c.add_argument(
        "--keep", type=output.folder_option, metavar="DIR", help="keep failures as files"
    )
    c.add_argument(
        "--least",
        type=int,
        default=0,
        metavar="N",
        help=(
            "fail where an operator, form, port, stop level or way of being empty was met less "
            "often"
        ),
    )
    add_file(c, "--json", "write counts, hits, failures and versions")
    c.add_argument(
        "--replay", type=Path, metavar="FILE", help="run a kept failure again, and nothing else"
    )
    add_executor(c)
    add_quiet(c)
    c.set_defaults(handler=command, started=None)


def command(args) -> int:
    """Run a campaign, or replay a failure; 0 if nothing differs and all has been met as often as it
    should.
    """
    start = args.started or time.monotonic()
    from ..fuzz import campaign as campaigns
    from ..fuzz.slices import run_slices, run_stream_slices
    from ..runs.provenance import versions

    if args.replay is not None:
        from ..fuzz.replay import replay

        wrong = replay(args.replay)
        print(
            f"{args.replay}: {'all equal' if wrong is None else wrong}",
            file=sys.stderr if wrong else sys.stdout,
        )
        return int(wrong is not None)
    for name in ("count", "streams", "seed", "least"):
        within(f"--{name}", getattr(args, name), SEEDS)
    if args.time is not None and not 0 <= args.time <= MOST_SECONDS:
        raise PenstockError(f"--time must be from 0 to {MOST_SECONDS} seconds, not {args.time}")
    if args.on == "rtl":
        from ..tb.toolchain import require_tools

        require_tools()
        if args.array is None:  # every program has a build of its own, which takes longer than it
            os.environ.setdefault("OPT_FAST", "-O0 -g0")
    end = None if args.time is None else start + args.time
    if args.array is not None:
        if args.around or args.form != "any":
            raise PenstockError("--around and --form do not go with --array", "fuzz")
        return _on_array(args, start, end)
    campaign = campaigns.Campaign(deadline=end, form=args.form)
    around = _around(args.around or [])

    def work(**given) -> None:
        run_slices(campaign, args.count, args.seed, only=around, **given)
        run_stream_slices(campaign, args.streams, args.seed, **given)

    whole = _run(args, campaign, work)
    told = {
        **campaigns.report(campaign, args.least),
        "on": args.on,
        "seed": args.seed,
        "wall_s": round(time.monotonic() - start, 1),
        "versions": versions(),
    }
    tables.print_table(told["hits"])
    counts = told["counts"]
    tables.print_table([{"what": what, "number": n} for what, n in sorted(counts.items())])
    if args.json:
        output.write_text(args.json, json.dumps(told, indent=1) + "\n")
    _print_failures(campaign)
    for group, what, n in told["below"]:
        print(f"{group} {what}: {n} hits of at least {args.least}", file=sys.stderr)
    print(
        f"{campaign.counts['programs']} programs ({counts['programs with empty parts']} with empty "
        f"parts) of {counts['structures']} structures ({counts['structures with empty parts']} "
        f"with empty parts), {campaign.counts['streams']} streams, {len(campaign.failures)} "
        f"failures, cycles over bound in the median {median(campaign.gaps or [0]):.2f}"
        + ("" if whole else "; the time was up")
    )
    return int(bool(campaign.failures or told["below"]))


def _run(args, campaign: Campaign, work: Callable[..., None]) -> bool:
    """Do the work of a campaign until it is done or its time is up; True if it is done."""
    with pool(args) as workers, display(args) as progress:
        given = {"on": args.on, "keep": args.keep, "progress": progress, "executor": workers}
        left = None if campaign.deadline is None else campaign.deadline - time.monotonic()
        return interrupts.within(left, lambda: work(**given)) and not campaign.late()


def _around(words: list[str]) -> list[str] | None:
    """Names of steps that contain one of some words; None without words."""
    from ..fuzz.draw import VARIANTS

    if not words:
        return None
    found = [name for name in VARIANTS if any(word in name for word in words)]
    for word in words:
        if not any(word in name for name in VARIANTS):
            raise PenstockError(
                f"no operator's name contains {word!r}",
                "--around",
                remedy=f"names: {', '.join(VARIANTS)}",
            )
    return found


def _print_failures(campaign: Campaign) -> None:
    for f in campaign.failures:
        print(
            f"{f.backend}, {f.origin}: {f.message}" + (f"\n  kept: {f.path}" if f.path else ""),
            file=sys.stderr,
        )


def _on_array(args, start: float, end: float | None) -> int:
    """A campaign on an array; 0 if nothing differs."""
    from ..fuzz.array import run_on_array
    from ..fuzz.campaign import Campaign, report
    from ..runs.provenance import versions

    for name in ("streams", "least"):
        if getattr(args, name):
            raise PenstockError(
                f"is for fabrics of their own, not for array {args.array}",
                f"--{name}",
                remedy="leave it out, or leave out --array",
            )
    campaign = Campaign(deadline=end)

    def work(**given) -> None:
        run_on_array(campaign, args.count, args.seed, args.array, **given)

    whole = _run(args, campaign, work)
    wall = time.monotonic() - start
    if args.json:
        done = report(campaign, 0)
        told = {
            **{what: done[what] for what in ("counts", "seconds", "failures")},
            "array": args.array,
            "outside": dict(campaign.outside),
            "refused": dict(campaign.refused),
            "on": args.on,
            "seed": args.seed,
            "wall_s": round(wall, 1),
            "versions": versions(),
        }
        output.write_text(args.json, json.dumps(told, indent=1) + "\n")
    for title, by in (
        ("outside the capabilities", campaign.outside),
        ("refused", campaign.refused),
    ):
        if by:
            rows = [{title: what, "programs": n} for what, n in by.most_common()]
            tables.print_table(rows)
    tables.print_table([{"what": what, "number": n} for what, n in sorted(campaign.counts.items())])
    _print_failures(campaign)
    ran = campaign.counts["programs on RTL" if args.on == "rtl" else "programs"]
    print(
        f"{ran} programs on {args.array}, {len(campaign.failures)} failures, "
        f"{campaign.counts['refused']} refused; {60 * ran / wall:.0f} programs a minute"
        + ("" if whole else "; the time was up")
    )
    return int(bool(campaign.failures))
