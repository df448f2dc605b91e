"""The command line: parses, calls the Python API, prints; errors are one message and a non-zero exit."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from penstock.machine.errors import PenstockError

from .examples import EXAMPLES


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    args = parser(only=words[0] if words else None).parse_args(words)
    if argv is None and "started" in args:
        from penstock.scheduler.dag.cli import process_start

        args.started = process_start()
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
    finally:
        if argv is None:
            gc.freeze()  # the process ends here; a last search for garbage takes tenths of a second


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole command tree; for the command `only` without what takes long to import and is another's."""
    p = argparse.ArgumentParser(prog="penstock", description="A cycle-exact hardware model of a spatial dataflow accelerator for STeP programs.")
    sub = p.add_subparsers(required=True, metavar="COMMAND")

    c = _command(sub, "run", "run a program on the model, the RTL, or both")
    _program(c)
    c.add_argument("--on", choices=("model", "rtl", "both"), default="model", help="both: run both and compare every beat")
    c.add_argument("--timing", choices=("machine", "published"), default="machine", help="this machine's cycles, or the published simulator's (model only)")
    c.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")
    c.add_argument("--onchip-rule", default="published", metavar="RULE", help="rule of the on-chip requirement: published, paper or machine")
    c.add_argument("--no-values", action="store_true", help="timing only (model)")
    c.add_argument("--json", metavar="OUT", help="write the records")
    c.add_argument("--timeline", metavar="OUT", help="write the model run's timeline (open it in Perfetto)")
    c.add_argument("--waves", metavar="STEM", help="write a waveform of the RTL run and a viewer layout")
    _quiet(c)
    c.set_defaults(handler=cmd_run)

    c = _command(sub, "sweep", "run a program at every combination of parameters, one table")
    _program(c, "NAME=A,B,...", "a parameter of the program and its values; several such options make every combination")
    c.add_argument("--on", choices=("model", "rtl", "both"), default="model", help="both: run both and compare every beat; RTL points of equal structure share one simulator build")
    c.add_argument("--timing", choices=("machine", "published"), default="machine", help="this machine's cycles, or the published simulator's (model only)")
    c.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")
    c.add_argument("--onchip-rule", default="published", metavar="RULE", help="rule of the on-chip requirement: published, paper or machine")
    c.add_argument("--no-values", action="store_true", help="timing only (model)")
    c.add_argument("--json", metavar="OUT", help="write the records")
    c.add_argument("--csv", action="store_true", help="print the table as CSV")
    _quiet(c)
    c.set_defaults(handler=cmd_sweep)

    c = _command(sub, "show", "print a program: text form, symbolic metrics, unit graph, drawing")
    _program(c)
    c.add_argument("--timing", choices=("machine", "published"), default="machine", help="this machine's cycles, or the published simulator's (model only)")
    c.add_argument("--onchip-rule", default="published", metavar="RULE", help="rule of the on-chip requirement: published, paper or machine")
    c.add_argument("--units", action="store_true", help="also the lowered unit graph")
    c.add_argument("--png", metavar="OUT", help="draw the program")
    c.add_argument("--fabric", metavar="OUT", help="draw the fabric: units, channels, memory")
    c.set_defaults(handler=cmd_show)

    c = _command(sub, "deadlock", "whether a program finishes; if not, who waits for whom, and the channel depths that free it")
    _program(c, "NAME=A,B,...", "a parameter of the program and its values; several such options make every combination")
    c.add_argument("--timing", choices=("machine", "published"), default="machine", help="this machine's channels, or the published simulator's")
    c.add_argument("--depth", type=int, metavar="N", help="slots of every channel (default: the configuration's)")
    c.add_argument("--seed", type=int, default=0, help="seed of the program's streams")
    c.add_argument("--json", metavar="OUT", help="write what was found")
    _quiet(c)
    c.set_defaults(handler=cmd_deadlock)

    c = _command(sub, "figures", "reproduce figures of the paper: ours beside the published numbers, tables and pictures")
    c.add_argument("figure", metavar="FIGURE", help="fig8 (SwiGLU by tile size, with the machine's timing and RTL); in the timing `published` fig9 and fig10 (dynamic tiling; with 19 and 20), fig12 and fig13 "
                                                    "(time-multiplexing), fig14, fig15 and fig21 (attention); or all")
    c.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the files, made if it is not there")
    c.add_argument("--traces", type=Path, metavar="DIR", help="published traces: routing/MODEL_bBATCH.npz and kv_lengths/bBATCH_stdevNAME.npy (default: seeded draws of the same sizes; no published numbers then)")
    c.add_argument("--machine", action="store_true", help="also the cycles in this machine's own timing, which are those of its RTL (figure 10: minutes)")
    c.add_argument("--rtl", action="store_true", help="figure 8: run the RTL afresh (minutes) in place of the stored records")
    c.add_argument("--records", metavar="JSON", action="append", default=[], help="figure 8: take points from these records")
    _quiet(c)
    c.set_defaults(handler=cmd_figures)

    c = _command(sub, "verilog", "write the Verilog of a program's fabric")
    _program(c)
    c.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the files, made if it is not there")
    _quiet(c)
    c.set_defaults(handler=cmd_verilog)

    c = _command(sub, "regress", "the cocotb regressions: RTL against model, every beat")
    c.add_argument("--only", metavar="TEXT", help="designs whose name contains TEXT")
    c.add_argument("--deep", action="store_true", help="also the workloads at their larger sizes (8 experts, 16 requests; minutes each)")
    c.add_argument("--json", metavar="OUT", help="write the records")
    c.add_argument("--out", type=Path, metavar="DIR", help="store the table (regress.json, regress.txt) and the records")
    _quiet(c)
    c.set_defaults(handler=cmd_regress)

    from .fuzz import cli as fuzz

    c = _command(sub, "fuzz", "random programs: model against RTL on every beat, values against NumPy")
    fuzz.add_arguments(c)
    _quiet(c)
    c.set_defaults(handler=lambda args: fuzz.command(args, display=_shown))

    c = _command(sub, "explain", "where a run's cycles went")
    c.add_argument("record", metavar="RECORD.json", help="records, as `--json` writes them")
    c.add_argument("--all", action="store_true", help="all units of a large program, in its order (default: the busiest)")
    c.set_defaults(handler=cmd_explain)

    c = _command(sub, "diff", "lay two sets of records side by side")
    c.add_argument("a", metavar="A.json", help="records")
    c.add_argument("b", metavar="B.json", help="records to lay beside them")
    c.set_defaults(handler=cmd_diff)

    c = _command(sub, "demo", "one point on model and RTL, Verilog, a timeline, and figure 8")
    c.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="folder of the files, made if it is not there")
    _quiet(c)
    c.set_defaults(handler=cmd_demo)

    from penstock.scheduler.dag import cli as dag

    dag.add_parser(sub, _dag_run)

    if only != "dag":
        from .overlay import cli as overlay

        overlay.add_parser(sub)
    return p


def _command(sub, name: str, what: str) -> argparse.ArgumentParser:
    """A command with its line of help and its examples."""
    return sub.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", formatter_class=argparse.RawDescriptionHelpFormatter,
                          epilog="\n".join(["examples:", *(f"  {line}" for line in EXAMPLES[name])]))


def _quiet(c: argparse.ArgumentParser) -> None:
    c.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _shown(quiet: bool):
    from .progress import display

    return display(quiet)


def _display(args):
    from .progress import display

    return display(args.quiet)


def _dag_run(commands) -> None:
    c = commands.add_parser("run", help="run a schedule on the machine: cycles beside predicted latency, values checked")
    c.add_argument("problem", metavar="IN.json", help="the problem")
    c.add_argument("solution", metavar="OUT.json", help="its schedule")
    c.add_argument("--on", choices=("model", "rtl", "both"), default="model", help="both: run both and compare every beat")
    c.add_argument("--scale", type=int, default=1, metavar="N", help="divide every length by N, capacity and costs by N*N (default 1)")
    c.add_argument("--tile", type=int, metavar="T", help="edge of the machine's tiles (default 16; 4 with --on rtl or both)")
    c.add_argument("--seed", type=int, default=0, help="seed of the generated inputs")
    c.add_argument("--no-values", action="store_true", help="cycles only (model)")
    c.add_argument("--json", metavar="OUT", help="write the records")
    c.add_argument("--out", type=Path, metavar="DIR", help="write a chart of predicted and simulated cycles")
    c.add_argument("--quiet", action="store_true", help="no progress on standard error")
    c.set_defaults(handler=cmd_dag_run)


def cmd_dag_run(args) -> int:
    import json

    from penstock.machine.record import folder
    from penstock.scheduler.dag import Problem, Schedule, evaluate
    from penstock.scheduler.dag.jsonio import write_atomically
    from penstock.scheduler.dag.machine import shrink

    from . import dag_run
    from .points import print_table

    _check_out(args.json)
    if args.scale < 1:
        raise PenstockError(f"--scale must be at least 1, not {args.scale}")
    given, chosen = Problem.load(args.problem), Schedule.load(args.solution)
    evaluate(given, chosen)
    problem, schedule = shrink(given, chosen, args.scale)
    with _display(args) as progress:
        runs = dag_run.run_schedule(problem, schedule, on=args.on, t=args.tile or (16 if args.on == "model" else 4), scale=args.scale, seed=args.seed,
                                    values=not args.no_values, progress=progress.stage)
    for run in runs:
        print(f"{run.problem} on {run.backend}: {run.machine}" + (f"; lengths / {run.scale}, capacity and costs / {run.scale**2}" if run.scale > 1 else ""))
        print_table(dag_run.table(run))
        correlation = f", Spearman over subgraphs {run.spearman:.3f}" if run.spearman is not None else ""
        print(f"predicted / simulated {run.ratio:.3f}, after fill and memory latency {run.ratio_after_fill:.3f}{correlation}")
        if args.on == "both" and run.backend == "rtl":
            print("model = RTL in every beat of every subgraph")
        if args.out:
            folder(args.out)
            path = args.out / f"{Path(args.problem).stem}_{run.backend}.png"
            dag_run.draw(path, run)
            print(f"drawn: {path}")
    if args.json:
        write_atomically(args.json, json.dumps([run.to_dict() for run in runs], indent=1) + "\n")
    return 0 if all(s.values_ok in (True, None) for run in runs for s in run.subgraphs) else 1


def _program(c: argparse.ArgumentParser, value: str = "NAME=VALUE", meaning: str = "a parameter of the program") -> None:
    c.add_argument("program", help="a workload's name (swiglu) or a Python file that defines program(**params)")
    c.add_argument("--config", default="fig8", help="preset name or TOML file")
    c.add_argument("--set", dest="params", action="append", default=[], metavar=value, help=meaning)


def one_value(pairs: list[str]) -> dict:
    """Parameters of a single point."""
    out = parse_params(pairs)
    for name, values in out.items():
        if len(values) > 1:
            if not all(isinstance(v, (int, float)) for v in values):
                values = [",".join(map(str, values))]  # a text with commas
            else:
                raise PenstockError(f"--set {name} takes one value here, not {len(values)}", remedy="`penstock sweep` runs every combination")
        out[name] = values[0]
    return out


def parse_params(pairs: list[str]) -> dict[str, list]:
    """NAME=VALUE[,VALUE...] pairs; integers and floats are recognised, anything else stays text."""
    out = {}
    for pair in pairs:
        name, eq, value = pair.partition("=")
        if not eq or not name.isidentifier():
            raise PenstockError(f"--set takes NAME=VALUE, not {pair!r}")
        if name in out:
            raise PenstockError(f"--set {name} is given twice", remedy=f"`penstock sweep ... --set {name}=A,B` runs several values")
        out[name] = [_number(v) for v in value.split(",")]
    return out


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_out(*paths: str | Path | None) -> None:
    """Files that are written after the work can be written: better known before."""
    from penstock.machine.record import writable

    for path in paths:
        if path is not None:
            writable(path)


def _check_folder(path: Path | None) -> None:
    """Likewise for an output folder."""
    from penstock.machine.record import folder_writable

    if path is not None:
        folder_writable(path)


def cmd_run(args) -> int:
    from . import api, points

    _check_out(args.json, args.timeline, args.waves)
    params = one_value(args.params)
    if args.timeline and args.timing != "machine":
        raise PenstockError("--timeline shows the `machine` timing", remedy="leave out --timing published")
    with _display(args) as progress:
        records = api.run(args.program, args.config, params, on=args.on, timing=args.timing, values=not args.no_values,
                          seed=args.seed, onchip_rule=args.onchip_rule, progress=progress, waves=args.waves)
    if args.json:  # files first: who reads the table may stop reading
        api.save_records(records, args.json)
    if args.timeline:
        api.timeline(args.program, args.config, params, out=args.timeline, seed=args.seed)
    first = records[0]
    print(f"{' '.join([first.workload, *(f'{k}={v}' for k, v in first.params.items())])} on {first.config}, {first.timing} timing")
    points.print_table(points.quantities(records))
    for r in records:
        if r.channels_observed is not None:
            print(f"model = RTL: {r.channels_observed}/{r.channels_total} channels observed, {r.mismatches} mismatched beats")
    print("; ".join(f"{r.backend.replace('rtl', 'RTL')} {r.wall_s:.3g} s, {r.cycles / r.wall_s:.3g} cycles/s, set-up {r.setup_s:.2g} s" for r in records if r.wall_s))
    return 0 if all(r.values_ok in (True, None) for r in records) else 1


def cmd_sweep(args) -> int:
    from . import api, points

    _check_out(args.json)
    grid = parse_params(args.params)
    with _display(args) as progress:
        found = api.outcomes(args.program, args.config, api.grid_points(grid), on=args.on, timing=args.timing, values=not args.no_values, seed=args.seed,
                             onchip_rule=args.onchip_rule, progress=progress)
    points.one_message(found)
    rows = [points.row(o, **o.params) for o in found]
    records = [r for o in found for r in o.records]
    if args.json:
        api.save_records(records, args.json)
    if args.csv:
        print(points.to_csv(rows), end="")
    else:
        points.print_table(rows)
        builds = {r.build for r in records if r.build}
        if builds:
            print(f"{len(builds)} simulator build{'s' * (len(builds) > 1)} for {sum(o.rtl is not None for o in found)} points")
    return _verdict([{"point": " ".join(f"{k}={v}" for k, v in o.params.items()), **r} for o, r in zip(found, rows)])


def _verdict(rows: list[dict]) -> int:
    """Messages of the points that failed, on standard error; the exit code."""
    from . import points

    if text := points.failures(rows):
        print(text, file=sys.stderr)
        return 1
    return 0


def cmd_show(args) -> int:
    from penstock.frontend import build, lower
    from penstock.machine.config import load

    _check_out(args.png, args.fabric)
    config = load(args.config)
    program = build(args.program, one_value(args.params), config)
    print(program.text())
    print(program.analysis(args.onchip_rule, config).text())
    if text := scratchpads(program.graph, config):
        print(text)
    if args.units:
        print(lower(program.graph, config, timing=args.timing))
    if args.png:
        program.draw(args.png)
    if args.fabric:
        from penstock.frontend.draw import draw_fabric

        draw_fabric(lower(program.graph, config), config, args.fabric)
    return 0


def scratchpads(graph, config) -> str:
    """A line for every scratchpad of a program's fabric: its size, and the bits that it keeps besides the tiles; none where the machine cannot run the program."""
    from penstock.frontend import lower
    from penstock.machine.beat import beat_bits
    from penstock.machine.errors import LoweringError
    from penstock.machine.limits import metadata_bits

    try:
        units = lower(graph, config)
    except LoweringError:
        return ""
    lines = []
    for u in units.memories():
        p, tile = units.units[u].params, units.inputs(u)[0].payload
        data = p["pages"] * p["frames"] * beat_bits(tile)
        bits = metadata_bits(p["pages"], units.drops(u), len(p["writers"]))
        lines.append(f"scratchpad {units.units[u].name}: {p['pages']} pages of {p['frames']} tiles, {data // 8} B; metadata {bits} bits ({bits / data:.2%})")
    return "\n".join(lines)


def cmd_deadlock(args) -> int:
    from . import api, deadlock, points

    _check_out(args.json)
    with _display(args) as progress:
        found = deadlock.find(args.program, args.config, api.grid_points(parse_params(args.params)), timing=args.timing, depth=args.depth, seed=args.seed,
                              progress=progress)
    points.print_table([deadlock.row(f) for f in found])
    for f in found:
        if f.deadlock:
            points.print_table(deadlock.circle_rows(f.deadlock), title=" ".join([f.program, *(f"{k}={v}" for k, v in f.params.items())]))
    if args.json:
        deadlock.save(found, args.json)
    return 0


def cmd_figures(args) -> int:
    from penstock.machine.record import folder

    from . import api, figures, points

    names = ["fig8", *figures.FIGURES] if args.figure == "all" else [args.figure]
    if names[0] not in ("fig8", *figures.FIGURES):
        raise PenstockError(f"no figure {names[0]!r}", remedy=f"known: fig8, {', '.join(figures.FIGURES)}, all")
    if "fig8" not in names and (args.rtl or args.records):
        raise PenstockError(f"--rtl and --records are for figure 8, not {names[0]}", remedy="leave them out: its timing `published` runs on the model only")
    traces = figures.Traces(args.traces)
    for name in figures.FIGURES.keys() & set(names):
        figures.FIGURES[name].points(traces)  # a trace that is not there is told before anything runs
    given = [r for path in args.records for r in api.load_records(path)]
    _check_folder(args.out)
    for name in names:
        with _display(args) as progress:
            if name == "fig8":
                records = figures.fig8_records(args.rtl, progress) + given
                rows, agreements = figures.fig8(folder(args.out), records)
                summary = []
                api.save_records(records, args.out / "fig8_records.json")
                written = [args.out / f for f in ("fig8.csv", "fig8.png", "fig8_records.json")]
            else:
                rows, agreements, summary, written = figures.write(figures.FIGURES[name], args.out, traces, args.machine, progress)
        points.print_table(rows, None if name == "fig8" else figures.FIGURES[name].title)
        for table in filter(None, (agreements, summary)):
            points.print_table(table)
        print(f"wrote {', '.join(map(str, written))}")
    return 0


def cmd_verilog(args) -> int:
    from . import api

    with _display(args) as progress:
        written = api.verilog(args.program, args.config, one_value(args.params), out=args.out, progress=progress)
    for path in written:
        print(f"wrote {path}")
    return 0


def cmd_regress(args) -> int:
    from . import api, points, regress

    _check_out(args.json)
    _check_folder(args.out)
    with _display(args) as progress:
        records, rows = regress.run(args.only, progress, deep=args.deep)
    if args.json:
        api.save_records(records, args.json)
    written = regress.save(args.out, records, rows) if args.out else []
    points.print_table(rows)
    for path in written:
        print(f"wrote {path}")
    return _verdict(rows[:-1])


def cmd_explain(args) -> int:
    from . import api, explain

    records = api.load_records(args.record)
    if not records:
        raise PenstockError("holds no records", args.record, remedy="write records with `penstock run ... --json`")
    print("\n\n".join(explain.text(r, args.all) for r in records))
    return 0


def cmd_diff(args) -> int:
    from . import api, explain, points

    points.print_table(explain.diff(api.load_records(args.a), api.load_records(args.b)))
    return 0


def cmd_demo(args) -> int:
    from . import demo

    _check_folder(args.out)
    return demo.run(args.out, args.quiet)


if __name__ == "__main__":
    sys.exit(main())
