"""``penstock run``."""

from __future__ import annotations

import argparse
import time

from ..machine.errors import PenstockError
from . import sweep
from .options import (
    add_array,
    add_file,
    add_program,
    add_quiet,
    add_run,
    add_waves,
    display,
    machines,
    one_value,
    seeds,
    values_verdict,
)


def add_arguments(c: argparse.ArgumentParser) -> None:
    add_program(c, several=True)
    add_array(c)
    add_run(c)
    add_file(c, "--timeline", "write the model run's timeline (open it in Perfetto)")
    add_waves(c, "write a waveform of the RTL run and a viewer layout")
    add_file(
        c,
        "--outputs",
        "write the output tensors and the elements of sinks, by name, as a NumPy archive",
    )
    c.add_argument(
        "--inputs", metavar="X.npz", help="inputs of an imported layer, by the names it gives them"
    )
    c.add_argument(
        "--expect",
        metavar="X.npz",
        help="results of an imported layer, out0, out1, ..: at most 1e-5 of the largest number "
        "away (bf16: 2e-2)",
    )
    c.add_argument(
        "--choices",
        metavar="experts=FILE.npz",
        help="experts of each token of an imported layer ([tokens, k], named data), where no "
        "values are computed",
    )
    c.add_argument(
        "--dtype", choices=("fp32", "bf16"), help="of the machine, and of weights and inputs"
    )
    add_quiet(c)
    c.set_defaults(handler=command, started=None)


def command(args) -> int:
    entered = time.monotonic()
    from ..runs import api, outputs, tables

    params = one_value(args.params)
    if args.dtype:
        args.machine.append(f"dtype={args.dtype}")
    (_, config), *others = machines(args)
    seed, *more = seeds(args)
    if others or more:
        return _swept(args)
    if args.inputs or args.expect or args.choices:
        params |= _given(args, config.machine.dtype)
    on_array = args.array is not None
    if args.timeline and args.timing != "machine":
        raise PenstockError(
            "--timeline shows the `machine` timing", remedy="leave out --timing stepsim"
        )
    if args.outputs:
        outputs.require_values("--outputs writes", not args.no_values, args.timing)
    started = args.started or entered
    beside = -started + time.monotonic()
    with display(args) as progress:
        records = api.run_points(
            args.program,
            config,
            [params],
            on=args.on,
            timing=args.timing,
            values=not args.no_values,
            seed=seed,
            onchip_rule=args.onchip_rule,
            progress=progress,
            waves=args.waves,
            on_array=on_array,
            tolerance=args.tolerance,
            outputs=True,
        )
    beside -= time.monotonic()
    if args.json:  # files first: who reads the table may stop reading
        api.save_records(records, args.json)
    if args.outputs:
        arrays = dict(records[-1].outputs or {})
        for name, items in (records[-1].sinks or {}).items():
            arrays |= outputs.sink_arrays(f"sink.{name}" if name in arrays else name, items)
        outputs.save(arrays, args.outputs)
    if args.timeline:
        api.timeline(args.program, config, params, out=args.timeline, seed=seed, on_array=on_array)
    first = records[0]
    print(
        f"{' '.join([first.workload, *(f'{k}={v}' for k, v in first.params.items())])} on "
        f"{first.config}, {first.timing} timing"
    )
    tables.print_table(tables.quantities(records))
    for note in first.notes:
        print(f"note: {note}")
    if text := tables.traffic(first):
        print(text)
    if first.streams:
        print(first.streams)
    for r in records:
        if r.channels_observed is not None:
            print(tables.agreement(r))
    parts = [
        f"{r.backend.replace('rtl', 'RTL')} {r.wall_s:.3g} s, {r.cycles / r.wall_s:.3g} "
        f"cycles/s, set-up {r.setup_s:.2g} s"
        for r in records
        if r.wall_s
    ]
    now = time.monotonic()
    parts.append(f"start and output {beside + now:.2g} s; in all {now - started:.2g} s")
    print("; ".join(parts))
    return values_verdict(records)


def _given(args, dtype: str) -> dict[str, int]:
    """Let the run have the arrays of an imported layer; its sizes."""
    from ..layers import given

    if args.choices and not args.no_values:
        raise PenstockError("is for runs without values", "--choices", remedy="add --no-values")
    if args.expect and args.no_values:
        raise PenstockError("is for runs with values", "--expect", remedy="leave out --no-values")
    sizes = given.give(args.program, args.inputs, args.expect, args.choices)
    for name, n in one_value(args.params).items():
        if sizes.get(name, n) != n:
            raise PenstockError(
                f"{name}={n} is not the {sizes[name]} of {args.inputs}",
                "--set",
                remedy="leave it out: sizes are those of the inputs",
            )
    if args.expect and args.tolerance is None:
        args.tolerance = given.tolerance(args.program, dtype)
    return sizes


def _swept(args) -> int:
    """Several machines or seeds: the table of ``penstock sweep``."""
    for option in ("--timeline", "--waves", "--outputs"):
        if getattr(args, option.removeprefix("--")) is not None:
            raise PenstockError(
                "is for one run", option, remedy="give one machine, by one --config, and one --seed"
            )
    args.csv, args.store, args.jobs, args.executor = False, None, None, "processes"
    return sweep.command(args)
