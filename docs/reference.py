"""The blocks of the reference pages: what the code declares, as tables and lists."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from penstock.board.platforms import BOARDS
from penstock.cli import parser as make_parser
from penstock.cli.examples import EXAMPLES, is_long
from penstock.figures import ledger
from penstock.frontend.show.operator_pages import operator_reference
from penstock.hw.memory import assembly, packing, reader, writer
from penstock.layers.operations import CLASSES
from penstock.machine import host_map, limits
from penstock.machine.array.network import Network
from penstock.machine.array.structure import Structure
from penstock.machine.beat import MAX_STOP
from penstock.machine.config import Machine, Stepsim, load
from penstock.machine.faults import Fault
from penstock.machine.functions import FUNCTIONS, Function
from penstock.machine.kinds import KINDS, REQUIRED, In, Kind, Out, Param
from penstock.machine.kinds.formula import formula
from penstock.samples import SAMPLES
from penstock.step.functions import ACCUM, INIT, MAP, MAP_ACCUM
from penstock.step.ops import ROWS, UTILITIES

Makers = dict[str, Callable[[], str]]


def configuration() -> Makers:
    """Every field of a machine configuration."""
    return {
        "machine": lambda: _fields(Machine),
        "limits": _limits,
        "stepsim": lambda: _fields(Stepsim, "dram.hbm2"),
    }


def _limits() -> str:
    """Capacity of one fabric, and the widths on its wires."""
    rows = (
        ("units", limits.UNITS[-1]),
        ("run-time registers", limits.REGISTERS[-1]),
        ("off-chip ports", limits.PORTS[-1]),
        ("bits of an off-chip port's number (P)", limits.PORT_BITS),
        ("bits of a line's tag (G)", limits.TAG_BITS),
        ("lines that the off-chip memory delivers in a cycle (N)", limits.RESPONSE_LANES[-1]),
        ("bits of a beat, whose payload may be a tuple", limits.BEAT_BITS),
        ("targets of a selector", limits.NUMBER_BITS),
        ("bits of a scalar", limits.SCALAR_BITS),
        ("highest stop level", MAX_STOP),
        ("bits of all inputs: streams of sources, responses of the memory", limits.INPUT_BITS),
        ("beats in the memory of a source or a sink of an array", limits.STREAM_BEATS[-1]),
    )
    return "\n".join(["| what | most |", "|---|--:|", *(f"| {a} | {b:,} |" for a, b in rows)])


def _fields(cls: type, without: str | None = None) -> str:
    head = ["| field | default | range | meaning, unit, source |", "|---|---|---|---|"]
    return "\n".join([*head, *_rows(cls, "", without)])


def _rows(cls: type, prefix: str, without: str | None) -> Iterator[str]:
    for f in fields(cls):
        default = f.default_factory() if callable(f.default_factory) else f.default
        if f"{prefix}{f.name}" == without:
            continue
        if is_dataclass(default):
            yield from _rows(type(default), f"{prefix}{f.name}.", without)
            continue
        allowed = f.metadata["allowed"]
        limits = f"{allowed[0]} to {allowed[-1]}" if allowed else ""
        yield f"| `{prefix}{f.name}` | `{default!r}` | {limits} | {f.metadata['doc']} |"


PRESETS = ("paper_hdl", "small_fpga")
"""Machines whose latencies and intervals the pages have."""


def kinds() -> Makers:
    """Unit kinds and functions of the `machine` timing."""
    return {"timing": _timing, "settings": _settings, "kinds": _kinds, "functions": _functions}


def _timing() -> str:
    """Ports, latency and interval of every kind."""
    head = ["| kind | ports | latency | interval |", "|---|---|---|---|"]
    return "\n".join([*head, *(_timed(KINDS[name]) for name in sorted(KINDS))])


def _timed(kind: type[Kind]) -> str:
    sides = [
        ", ".join(f"`{x}`" for x in kind.streams if isinstance(x, way)) or "none"
        for way in (In, Out)
    ]
    cells = [f"[`{kind.name}`](#{kind.name})", f"{sides[0]} to {sides[1]}"]
    cells += [_cycles(kind, rule) for rule in ("latency", "interval")]
    return f"| {' | '.join(cells)} |"


def _cycles(kind: type[Kind], rule: str) -> str:
    """The formula of a rule, and its value on the presets where it depends on them."""
    text = formula(getattr(kind, rule))
    if text.isdigit() or text == "None":
        return text.replace("None", "by section")
    if "fn" in text:
        return f"`{text}`"
    values = [f"{_on(kind, rule, load(name).machine)} on `{name}`" for name in PRESETS]
    return f"`{text}`: {', '.join(values)}"


def _on(kind: type[Kind], rule: str, machine: Machine, fn: str = "") -> int:
    """Latency or interval, in cycles, of a unit that a machine's table describes."""
    table = {"rows_per_cycle": machine.rows_per_cycle, "lanes": machine.lanes_for(fn or kind.name)}
    unit = kind.of({k: v for k, v in table.items() if k in kind.params} | {"fn": fn})
    return getattr(unit, rule)(machine.t)


def _kinds() -> str:
    return "\n\n".join(_kind(KINDS[name]) for name in sorted(KINDS))


def _kind(kind: type[Kind]) -> str:
    """A section with one line for each port and each parameter."""
    text, *more = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
    lines = [f"### `{kind.name}`", "", " ".join(text.split())]
    for paragraph in more:
        lines += ["", " ".join(paragraph.split())]
    lines.append("")
    for x in kind.streams:
        lines.append(f"* {'input' if isinstance(x, In) else 'output'} `{x}`: {x.doc}")
    for x in kind.params.values():
        optional = "" if x.required else ", optional"
        allowed = "" if x.values is None else f" ({x.values[0]:,} to {x.values[-1]:,})"
        lines.append(f"* parameter `{x.key}`{optional}, {_held(x)}: {x.doc}{allowed}")
    return "\n".join(lines)


def _settings() -> str:
    """Every setting: what fits a slot, and its register."""
    head = ["| setting | what fits | register |", "|---|---|---|"]
    declared = {type(x.setting) for kind in KINDS.values() for x in kind.params.values()}
    rows = [
        f"| `{cls.__name__}` | {_first(cls)} | {cls.in_registers or 'none'} |"
        for cls in sorted(declared, key=lambda cls: cls.__name__)
        if not cls.__name__.startswith("_")  # of one kind
    ]
    return "\n".join([*head, *rows])


def _first(cls: type) -> str:
    """The first paragraph of a docstring, on a line."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())


def _held(x: Param) -> str:
    """Place of a parameter in a slot of an array: nowhere, in registers, or in any fabric's."""
    if not x.setting.in_registers:
        return "fixed"
    held = "run time" if x.runtime else "setting"
    if x.setting.most is REQUIRED or (x.setting.most is None and not x.runtime):
        return f"{held} ({x.setting.in_registers})"
    bits = sum(x.setting.registers(x.setting.most).values())
    if bits:
        return f"{held} ({bits} {'bit' if bits == 1 else 'bits'})"
    return held if x.runtime else f"{held} ({x.setting.in_registers})"


def _functions() -> str:
    on = [f"L, II on `{name}`" for name in PRESETS]
    head = [
        f"| function | operands | stages | {' | '.join(on)} | FLOP per element | |",
        f"|---|--:|--:|{'--:|' * len(on)}--:|---|",
    ]
    return "\n".join([*head, *map(_function, FUNCTIONS.values())])


def _function(f: Function) -> str:
    paces = []
    for name in PRESETS:
        machine = load(name).machine
        pace = [str(_on(KINDS["map"], rule, machine, f.name)) for rule in ("latency", "interval")]
        paces.append(", ".join(pace))
    cells = [f"`{f.name}`", f.arity, f.stages, *paces, f.flops_per_element, f.doc]
    return f"| {' | '.join(map(str, cells))} |"


def operators() -> Makers:
    """Every operator and every function of operators."""
    return {"operators": _operators}


def _operators() -> str:
    """A section for each operator by name, then the functions."""
    _, *sections = f"\n{operator_reference()}".split("\n## ")
    *ordered, last = (section.strip() for section in sections)
    return "\n\n".join(f"## {section}" for section in [*sorted(ordered), last])


def cli() -> Makers:
    """Every command with its arguments, from the parser itself."""
    return {"commands": _commands}


def _commands() -> str:
    return "\n\n".join(_command(name, parser) for name, parser in _parsers().items())


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    what = _help_of(name)
    lines = [f"## `penstock {name}`", "", f"{what[0].upper()}{what[1:]}."]
    for fence, takes_long in (("```sh", False), ("```sh long", True)):
        examples = [line for line in EXAMPLES.get(name, ()) if is_long(line) == takes_long]
        if examples:
            lines += ["", fence, *examples, "```"]
    rows = [
        f"| {_argument(a)} | {_meaning(a)} |"
        for a in parser._actions
        if a.dest not in ("help", "wide") and not isinstance(a, argparse._SubParsersAction)
    ]
    return "\n".join([*lines, "", "| argument | meaning |", "|---|---|", *rows])


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """Commands that do something, by their full name."""

    def walk(parser: argparse.ArgumentParser, prefix: str) -> dict:
        subs = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not subs:
            return {prefix: parser}
        found = {}
        for name, sub in subs[0].choices.items():
            found |= walk(sub, f"{prefix} {name}".strip())
        return found

    return walk(make_parser(), "")


def _help_of(name: str) -> str:
    """The line that the parent command prints about a command."""
    parser = make_parser()
    text = ""
    for word in name.split():
        subs = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        text = next(c.help or "" for c in subs._choices_actions if c.dest == word)
        parser = subs.choices[word]
    return text


def _argument(a: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, a.choices)) + "}" if a.choices else ""
    value = _cell(str(a.metavar or choices or a.dest.upper()))
    if not a.option_strings:
        return f"`[{value}]`" if a.nargs == "?" else f"`{value}`"
    return f"`{a.option_strings[-1]}`" if a.nargs == 0 else f"`{a.option_strings[-1]} {value}`"


def _cell(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("|", "\\|")


def _meaning(a: argparse.Action) -> str:
    text = _cell(a.help or "").replace("**", r"\*\*")
    notes = ["required"] if a.required and a.option_strings else []
    takes = a.option_strings and a.nargs != 0
    if takes and a.default not in (None, [], "") and "default" not in text:
        notes.append(f"default `{a.default}`")
    return f"{text} ({', '.join(notes)})".strip() if notes else text


def samples() -> Makers:
    """The samples that come with the package."""
    return {"samples": _samples}


def _samples() -> str:
    head = ["| name | copy | what it is | and then |", "|---|---|---|---|"]
    rows = [f"| `{name}` | `{s.file}` | {s.what} | `{s.then()}` |" for name, s in SAMPLES.items()]
    return "\n".join([*head, *rows])


def step_scripts() -> Makers:
    """The public names of the STeP authors' Python."""
    return {"names": _public_names}


def _public_names() -> str:
    """Operators and functions, which both timings have."""
    modules: dict[str, list[str]] = {"step_py.ops": [], "step_py.utility_ops": []}
    for name in ROWS:
        modules["step_py.utility_ops" if name in UTILITIES else "step_py.ops"].append(name)
    for module, rules in (("map_fn", MAP), ("map_accum_fn", MAP_ACCUM), ("accum_fn", ACCUM)):
        modules[f"step_py.functions.{module}"] = list(rules)
    modules["step_py.functions.init_fn"] = list(INIT)
    head = ["| module | on stepsim and machine |", "|---|---|"]
    rows = [f"| `{m}` | {', '.join(f'`{n}`' for n in names)} |" for m, names in modules.items()]
    return "\n".join([*head, *rows])


def layers() -> Makers:
    """The operations of PyTorch that are read."""
    return {"operations": _operations}


def _operations() -> str:
    rows = [f"| {k} | {', '.join(f'`{n}`' for n in names)} |" for k, names in CLASSES.items()]
    return "\n".join(["| class | operations |", "|---|---|", *rows])


def board() -> Makers:
    """The host's view of a design, and the boards."""
    return {"registers": _registers, "windows": _windows, "boards": _boards}


def _registers() -> str:
    rows = []
    for r in host_map.REGISTERS:
        rows.append(f"| `{r.address:02x}` | `{r.name}` | | {r.access} | {r.meaning} |")
        for f in r.fields:
            high = f.low + f.bits - 1
            bits = f"{f.low}" if f.bits == 1 else f"{high} to {f.low}"
            rows.append(f"| | `{f.name}` | {bits} | | {f.meaning} |")
    return "\n".join(["| address | register | bits | | meaning |", "|---|---|---|---|---|", *rows])


def _windows() -> str:
    rows = [
        f"| `{w.base:08x}` | `{w.end - 1:08x}` | `{w.name}` | {w.access} | {w.meaning} |"
        for w in host_map.WINDOWS
    ]
    return "\n".join(["| from | to | window | | meaning |", "|---|---|---|---|---|", *rows])


def _boards() -> str:
    rows = [
        f"| `{name}` | {b.part} | {b.oscillator_mhz:g} | {b.clock_mhz:g} | {b.baud:,} |"
        for name, b in BOARDS.items()
    ]
    head = ["| board | part | oscillator, MHz | design, MHz | baud |", "|---|---|--:|--:|--:|"]
    return "\n".join([*head, *rows])


def array() -> Makers:
    """The shipped arrays, and what an image of one sets."""
    return {"presets": _arrays, "sizes": _image}


def _arrays() -> str:
    names = ("preset", "sites", "slots", "local wires", "off-chip slots", "tracks, tile + small")
    lines = [f"| {' | '.join(names)} |", "|---|--:|--:|--:|--:|--:|"]
    for name in ("array_tiny", "array_small", "array_moe8"):
        array = load(name).array
        assert array is not None
        net = Network(array)
        tracks = f"{array.tracks['tile']} + {array.tracks['small']}"
        counts = f"{len(net.slots)} | {len(net.wires)} | {len(net.offchip)}"
        lines.append(f"| `{name}` | {array.rows} x {array.cols} | {counts} | {tracks} |")
    return "\n".join(lines)


def _image() -> str:
    structure = Structure(load("array_small"))
    lines = ["| slot or switch | number | registers | tables |", "|---|--:|--:|--:|"]
    for x in structure.sizes():
        lines += [f"| `{x.name}` | {x.number} | {x.bits:,} | {x.table_bits:,} |"]
    words = sum(block.layout.registers for block in structure.blocks)
    total = f"Its image has {4 * structure.words:,} bytes, {4 * words:,} of them for registers."
    return "\n".join([*lines, "", total])


def top() -> Makers:
    """The faults of a fabric."""
    return {"faults": _faults}


def _faults() -> str:
    """The bits of ``error``."""
    (error,) = (f for r in host_map.REGISTERS for f in r.fields if f.name == "error")
    rows = [f"| {int(f)} | {f.what} | {f.remedy or ''} |" for f in Fault if f < error.bits]
    return "\n".join(["| bit | fault of a unit | remedy |", "|--:|---|---|", *rows])


def figures() -> Makers:
    """Blocks of the page on the paper's figures."""
    return {"ledger": _ledger}


def _ledger() -> str:
    """Statements of the papers beside ours, from the stored summaries of figures."""
    stored = json.loads(
        Path(__file__).with_name("results").joinpath("figures.json").read_text(encoding="utf-8")
    )
    summaries = {
        name: [row | {"what": row["of"]} for row in case["rows"] if row["what"] == "summary"]
        for name, case in stored["cases"].items()
    }
    lines = ["| paper | place | statement | stated | ours | off |", "|---|---|---|--:|--:|--:|"]
    for row in ledger(summaries):
        ours, off = row["ours"], row["difference"]
        cells = [row["paper"], row["place"], row["what"], f"{row['stated']:.6g}"]
        cells += ["", ""] if ours is None else [f"{ours:.6g}", f"{off:+.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def timing() -> Makers:
    """Sizes of queues."""
    return {"queues": _queues}


def _queues() -> str:
    sizes = [
        ("`scratchpad`, writer", "references", writer.QUEUE),
        ("`scratchpad`, reader", "tiles", reader.QUEUE),
        ("`scratchpad`, reader, with `spill`", "absent tiles", limits.ABSENT),
        ("`load`, generator", "triggers", limits.TRIGGERS_AHEAD),
        ("`load`, assembly", "triggers", limits.TRIGGERS_BEHIND),
        ("`load`, assembly", "blocks", assembly.QUEUE),
        ("`store`, `random_store`", "blocks", packing.QUEUE),
        ("off-chip units with `deep`", "chunks", limits.CHUNKS_AHEAD),
        ("`random_store`", "addresses", limits.STORE_ADDRESSES),
        ("`random_store`", "acknowledgements due", limits.STORE_TILES),
    ]
    head = ["| queue of | holds | entries |", "|---|---|--:|"]
    return "\n".join([*head, *(f"| {unit} | {what} | {size} |" for unit, what, size in sizes)])
