"""The command line: parses, calls the Python API, prints; errors are one message and a non-zero exit."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from penstock.machine.errors import PenstockError


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.handler(args) or 0
    except PenstockError as e:
        print(f"penstock: {e}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as e:
        print(f"penstock: {e.strerror or e}{f': {e.filename}' if e.filename else ''}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("penstock: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The whole command tree."""
    p = argparse.ArgumentParser(prog="penstock", description="A cycle-exact hardware model of a spatial dataflow accelerator for STeP programs.")
    sub = p.add_subparsers(required=True, metavar="COMMAND")

    c = sub.add_parser("run", help="run a program on the model, the RTL, or both")
    _program(c)
    c.add_argument("--on", choices=("model", "rtl", "both"), default="model")
    c.add_argument("--timing", choices=("machine", "published"), default="machine")
    c.add_argument("--onchip-rule", default="published", metavar="RULE", help="rule of the on-chip requirement: published or paper")
    c.add_argument("--no-values", action="store_true", help="timing only (model)")
    c.add_argument("--json", metavar="OUT", help="write the records")
    c.add_argument("--timeline", metavar="OUT", help="write the model run's timeline (open it in Perfetto)")
    c.add_argument("--waves", metavar="STEM", help="write a waveform of the RTL run and a viewer layout")
    c.set_defaults(handler=cmd_run)

    c = sub.add_parser("show", help="print a program: text form, symbolic metrics, unit graph, drawing")
    _program(c)
    c.add_argument("--timing", choices=("machine", "published"), default="machine")
    c.add_argument("--units", action="store_true", help="also the lowered unit graph")
    c.add_argument("--png", metavar="OUT", help="draw the program")
    c.set_defaults(handler=cmd_show)

    c = sub.add_parser("figures", help="reproduce a figure of the paper")
    c.add_argument("figure", choices=("fig8",))
    c.add_argument("--out", required=True, type=Path, metavar="DIR")
    c.add_argument("--rtl", action="store_true", help="run the RTL afresh (minutes) in place of the stored records")
    c.add_argument("--records", metavar="JSON", action="append", default=[], help="take points from these records")
    c.set_defaults(handler=cmd_figures)

    c = sub.add_parser("verilog", help="write the Verilog of a program's fabric")
    _program(c)
    c.add_argument("--out", required=True, type=Path, metavar="DIR")
    c.set_defaults(handler=cmd_verilog)

    c = sub.add_parser("regress", help="the cocotb regressions: RTL against model, every beat")
    c.add_argument("--only", metavar="TEXT", help="designs whose name contains TEXT")
    c.add_argument("--json", metavar="OUT")
    c.set_defaults(handler=cmd_regress)

    c = sub.add_parser("explain", help="where a run's cycles went")
    c.add_argument("record", metavar="RECORD.json")
    c.set_defaults(handler=cmd_explain)

    c = sub.add_parser("diff", help="lay two sets of records side by side")
    c.add_argument("a", metavar="A.json")
    c.add_argument("b", metavar="B.json")
    c.set_defaults(handler=cmd_diff)

    c = sub.add_parser("demo", help="one point on model and RTL, Verilog, a timeline, and figure 8")
    c.add_argument("--out", type=Path, default=Path("out"), metavar="DIR")
    c.set_defaults(handler=cmd_demo)

    from penstock.scheduler.dag import cli as dag

    dag.add_parser(sub)
    return p


def _program(c: argparse.ArgumentParser) -> None:
    c.add_argument("program", help="a workload's name (swiglu) or a Python file that defines program(**params)")
    c.add_argument("--config", default="fig8", help="preset name or TOML file")
    c.add_argument("--set", dest="params", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the program")
    c.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")


def parse_params(pairs: list[str]) -> dict:
    """NAME=VALUE pairs; integers and floats are recognised, anything else stays text."""
    out = {}
    for pair in pairs:
        name, eq, value = pair.partition("=")
        if not eq or not name.isidentifier():
            raise PenstockError(f"--set takes NAME=VALUE, not {pair!r}")
        for kind in (int, float, str):
            try:
                out[name] = kind(value)
                break
            except ValueError:
                continue
    return out


class Progress:
    """A line of what is going on, with elapsed seconds; silent when the output is no terminal."""

    def __init__(self):
        self.t0 = time.perf_counter()
        self.live = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        if self.live:
            print(f"\r\033[K[{time.perf_counter() - self.t0:6.1f} s] {line}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def close(self) -> None:
        """Leave the line empty for what is printed next."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_table(rows: list[dict], title: str | None = None) -> None:
    """Rows as an aligned table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    names = list(dict.fromkeys(k for r in rows for k in r))
    out = Table(title=title, box=box.SIMPLE, title_justify="left")
    for n in names:
        numeric = any(isinstance(r.get(n), (int, float)) for r in rows)
        out.add_column(n, justify="right" if numeric else "left", overflow="fold")
    for r in rows:
        out.add_row(*(_cell(r.get(n)) for n in names))
    console = Console(width=None if sys.stdout.isatty() else 240)
    console.print(out)


def _cell(v) -> str:
    if v is None:
        return "-"
    if isinstance(v, bool):
        return "yes" if v else "NO"
    if isinstance(v, float):
        return f"{v:.4g}"
    return str(v)


def _check_out(path: str | Path | None) -> None:
    if path and Path(path).is_dir():
        raise PenstockError(f"cannot write {path}: it is a folder", remedy="give the path of a file")
    if path and not Path(path).resolve().parent.is_dir():
        raise PenstockError(f"cannot write {path}: no such folder {Path(path).parent}", remedy="create it first")


def cmd_run(args) -> int:
    from . import api

    for path in (args.json, args.timeline, args.waves):
        _check_out(path)
    if args.timeline and args.timing != "machine":
        raise PenstockError("--timeline shows the `machine` timing", remedy="leave out --timing published")
    with Progress() as progress:
        records = api.run(args.program, args.config, parse_params(args.params), on=args.on, timing=args.timing, values=not args.no_values,
                          seed=args.seed, onchip_rule=args.onchip_rule, progress=progress, waves=args.waves)
    print_table(api.table(records))
    for r in records:
        if r.channels_observed is not None:
            print(f"model = RTL: {r.channels_observed}/{r.channels_total} channels observed, {r.mismatches} mismatched beats, "
                  f"{r.cycles / r.wall_s:.0f} RTL cycles/s")
    if args.json:
        api.save_records(records, args.json)
    if args.timeline:
        write_timeline(args.program, args.config, parse_params(args.params), args.timeline)
    return 0 if all(r.values_ok in (True, None) for r in records) else 1


def write_timeline(program: str, config: str, params: dict, path: str | Path) -> None:
    """The model's timeline of one point, for Perfetto."""
    from penstock import model
    from penstock.frontend import build, lower
    from penstock.machine.config import load
    from penstock.model import timeline

    config = load(config)
    graph = lower(build(program, params, config).graph, config)
    timeline.write(path, graph, model.run(graph, config, values=False, trace=True, timeline=True))


def cmd_show(args) -> int:
    from penstock.frontend import build, lower
    from penstock.machine.config import load

    _check_out(args.png)
    config = load(args.config)
    program = build(args.program, parse_params(args.params), config)
    print(program.text())
    print(program.analysis().text())
    if args.units:
        print(lower(program.graph, config, timing=args.timing))
    if args.png:
        program.draw(args.png)
    return 0


def cmd_figures(args) -> int:
    from . import api, figures

    args.out.mkdir(parents=True, exist_ok=True)
    with Progress() as progress:
        records = figures.fig8_records(args.rtl, progress)
    for path in args.records:
        records += api.load_records(path)
    rows, agreements = figures.fig8(args.out, records)
    print_table(rows)
    print_table(agreements)
    api.save_records(records, args.out / "fig8_records.json")
    print(f"wrote {args.out}/fig8.csv, fig8.png and fig8_records.json")
    return 0


def cmd_verilog(args) -> int:
    from penstock.frontend import build, lower
    from penstock.hw.export import write
    from penstock.hw.fabric import Fabric
    from penstock.machine.config import load

    config = load(args.config)
    graph = lower(build(args.program, parse_params(args.params), config).graph, config)
    args.out.mkdir(parents=True, exist_ok=True)
    for path in write(Fabric(graph, config), args.out):
        print(f"wrote {path}")
    return 0


def cmd_regress(args) -> int:
    from . import api, regress

    _check_out(args.json)
    with Progress() as progress:
        records, rows = regress.run(args.only, progress)
    print_table(rows)
    if args.json:
        api.save_records(records, args.json)
    failed = [r for r in rows if r["mismatches"]]
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def cmd_explain(args) -> int:
    from . import api, explain

    records = api.load_records(args.record)
    if not records:
        raise PenstockError("holds no records", args.record, remedy="write records with `penstock run ... --json`")
    print("\n\n".join(explain.text(r) for r in records))
    return 0


def cmd_diff(args) -> int:
    from . import api, explain

    print_table(explain.diff(api.load_records(args.a), api.load_records(args.b)))
    return 0


def cmd_demo(args) -> int:
    from . import demo

    return demo.run(args.out)


if __name__ == "__main__":
    sys.exit(main())
