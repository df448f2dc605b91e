"""`penstock fuzz`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from penstock.machine.errors import PenstockError

__all__ = ["add_arguments", "command"]


def add_arguments(c) -> None:
    c.add_argument("--count", type=int, default=200, metavar="N", help="programs (default 200)")
    c.add_argument("--seed", type=int, default=0, metavar="S", help="seed of everything that is drawn")
    c.add_argument("--on", choices=("model", "rtl"), default="model", help="model: values against NumPy; rtl: also every beat of the RTL against the model's")
    c.add_argument("--time", type=float, metavar="SECONDS", help="draw no more after so long")
    c.add_argument("--keep", type=Path, metavar="DIR", help="keep failures, shrunk, as files")
    c.add_argument("--replay", type=Path, metavar="FILE", help="run a kept failure again, and nothing else")


def command(args, display) -> int:
    """Run a session, or replay a failure; 0 if nothing differs."""
    from penstock import points

    from . import session as sessions

    if args.replay is not None:
        wrong = sessions.replay(args.replay)
        print(f"{args.replay}: {'all equal' if wrong is None else wrong}", file=sys.stderr if wrong else sys.stdout)
        return int(wrong is not None)
    if args.count < 1 or args.seed < 0:
        raise PenstockError(f"--count must be at least 1 and --seed at least 0, not {args.count} and {args.seed}")
    if args.on == "rtl":
        from penstock.tb.runner import require_tools

        require_tools()
    session = sessions.Session(deadline=None if args.time is None else time.monotonic() + args.time)
    with display(args.quiet) as progress:
        sessions.run_programs(session, args.count, args.seed, on=args.on, keep=args.keep, progress=progress)
    points.print_table(session.coverage.rows(("operator", "port", "stop", "empty")))
    points.print_table([{"what": what, "number": n} for what, n in sorted(session.counts.items())])
    for f in session.failures:
        print(f"{f.backend}, {f.origin}: {f.message}" + (f"\n  kept: {f.path}" if f.path else ""), file=sys.stderr)
    print(f"{session.counts['programs']} programs, {len(session.failures)} failures")
    return int(bool(session.failures))
