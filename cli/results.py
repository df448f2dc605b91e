"""``penstock results``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..machine.errors import PenstockError
from ..runs.tables import print_table
from ..system import output
from .examples import examples_of
from .options import add_file, parse_params

MOST = 40
"""Rows that a table prints unless told otherwise."""


def add_arguments(c: argparse.ArgumentParser) -> None:
    actions = c.add_subparsers(required=True, metavar="ACTION")
    for name, (add, handler, what) in ACTIONS.items():
        action = actions.add_parser(
            name,
            help=what,
            description=f"{what[0].upper()}{what[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=examples_of(f"results {name}"),
        )
        action.add_argument("store", type=Path, metavar="DIR", help="a store: `sweep --store DIR`")
        add(action)
        action.set_defaults(handler=handler)


def _add_list(_c: argparse.ArgumentParser) -> None:
    """Add a command that takes only the store."""


def _add_where(c: argparse.ArgumentParser) -> None:
    c.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=A,B,...",
        help="only rows whose column has one of these values",
    )


def _add_table(c: argparse.ArgumentParser) -> None:
    _add_where(c)
    c.add_argument("--columns", metavar="A,B,...", help="columns behind the parameters")
    c.add_argument("--sort", metavar="NAME", help="the rows that are smallest in a column")
    c.add_argument(
        "--most", type=int, default=MOST, metavar="N", help="rows to print (default 40; 0: all)"
    )
    c.add_argument("--pareto", metavar="A,B,...", help="only the rows on the front of these")
    c.add_argument("--csv", action="store_true", help="print all rows as CSV")
    add_file(
        c,
        "--plot",
        "draw the first two columns of --pareto against each other (cycles, onchip_bytes)",
    )


def _add_export(c: argparse.ArgumentParser) -> None:
    _add_where(c)
    add_file(c, "--json", "write all records, whole")
    add_file(c, "--csv", "write all rows")


def _add_prune(c: argparse.ArgumentParser) -> None:
    c.add_argument("--failed", action="store_true", help="also points that failed")


def _opened(args):
    """The store that is asked for; it has to be there."""
    from ..runs.store import Store

    if not args.store.is_dir():
        raise PenstockError(
            f"no such store: {args.store}", remedy="`penstock sweep ... --store DIR` makes one"
        )
    return Store(args.store)


def list_(args) -> int:
    store = _opened(args)
    made: dict[tuple[str, str], dict] = {}
    for row in store.rows():
        one = made.setdefault(
            (row["program"], row["config"]),
            {"program": row["program"], "config": row["config"], "points": 0, "of which failed": 0},
        )
        one["points"] += 1
        one["of which failed"] += row["failed"] is not None
    print_table(list(made.values()))
    faults = ["last record cut"] * store.cut
    if store.damaged:
        faults.append(f"{store.damaged} damaged lines")
    if store.bytes:
        last = time.strftime("%F %T", time.localtime(store.path.stat().st_mtime))
        faults = [f"{store.bytes / 1e6:.2f} MB", f"last written {last}", *faults]
    print(", ".join([f"{args.store}: {len(store)} points", *faults]))
    return 0


def table(args) -> int:
    from ..runs import results, tables
    from ..runs.plan import check_numbers

    store = _opened(args)
    where = parse_params(args.where)
    objectives = check_numbers(args.pareto.split(",")) if args.pareto else ()
    columns = args.columns.split(",") if args.columns else None

    def rows():
        return results.chosen(store, where)

    results.check_columns([*(columns or ()), *([args.sort] if args.sort else []), *where], rows())
    if args.plot:
        x, y, *_ = (*objectives, *(("cycles", "onchip_bytes")[len(objectives) :]))
        print(f"{results.plot(rows(), x, y, args.plot)} points drawn")
    if args.csv:
        results.export(rows, output.STANDARD)
        return 0
    found = results.front(rows(), objectives) if objectives else rows()
    most = None if args.most == 0 or objectives else args.most
    tables.print_table(results.table(found, columns, args.sort, most))
    print(f"{len(store)} points in {args.store}")
    return 0


def export(args) -> int:
    from ..runs import results

    store = _opened(args)
    if not (args.json or args.csv):
        raise PenstockError("nothing to write", remedy="give --json OUT, --csv OUT, or both")
    if args.json and args.where:
        raise PenstockError("--where is for --csv", remedy="leave it out: --json has all records")
    if args.json:
        print(f"{results.export_records(store, args.json)} records written to {args.json}")
    if args.csv:
        where = parse_params(args.where)
        count = results.export(lambda: results.chosen(store, where), args.csv)
        print(f"{count} rows written to {args.csv}")
    return 0


def prune(args) -> int:
    from ..runs import results

    store = _opened(args)
    stayed, gone = store.prune(
        lambda row: not (results.stale(row) or (args.failed and row["failed"]))
    )
    print(f"{gone} points removed, {stayed} kept in {args.store}")
    return 0


ACTIONS = {
    "list": (_add_list, list_, "what a store has: points by program, and its state"),
    "table": (_add_table, table, "rows of a store, its Pareto front, a plot"),
    "export": (_add_export, export, "write a store's records or rows to a file"),
    "prune": (_add_prune, prune, "remove what other sources made"),
}
"""Name -> its arguments, its function, its line of help."""
