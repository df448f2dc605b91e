"""The tables of docs/synthesis.md, for `docs/generate.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain

from made.clocks import FABRIC, FAST, LEAN, MACHINE, PROGRAM, SLOW
from made.clocks import RECORD as CLOCKS
from made.slots import RECORD as SLOTS
from made.synthesis import BY_PARTS, DESIGNS, EDGES, RECORD, SMALLEST, machine
from penstock.frontend import build, lower
from penstock.machine.config import PIPELINES
from penstock.machine.kinds import KINDS
from tables import frame

COSTS = {"LUT": "lut", "FF": "ff", "block RAM": "bram", "DSP": "dsp"}
"""Columns, and what of a row they have."""
GRADES = (SLOW, FAST)
RATES = [f"MHz, grade {speed}" for speed in GRADES]
"""Columns of clock rates."""
AIM = 80
"""MHz of every unit in the deep form."""
FABRIC_AIM = 60
"""MHz of the fabric of `PROGRAM` in that form."""
DEVICE = {"LUT": 83_640, "block RAM": 208, "DSP": 156}
"""What an ECP5-85F has."""


def units() -> str:
    """Units of each kind and function, t = 2 beside t = 4."""
    found = RECORD.rows("unit ")
    edges = sorted({row["t"] for row in found})
    costs = {(row["name"], row["t"]): row for row in found}
    body = []
    for name in sorted({row["name"] for row in found}):
        of = [
            [elements(name, t), *(costs.get((name, t), {}).get(key) for key in COSTS.values())]
            for t in edges
        ]
        body.append((f"`{name}`", *map(_number, chain.from_iterable(of))))
    columns = ("elements a cycle", *COSTS)
    return _table(["unit", *(f"{what}, t = {t}" for t in edges for what in columns)], body, 1)


def elements(name: str, t: int) -> int | None:
    """How many a unit that has lanes takes in a cycle."""
    kind, _, function = name.partition(" ")
    lanes = {"map": function, "accum": kind}.get(kind)
    return machine(t).machine.lanes_for(lanes) if lanes else None


def of_kinds() -> dict[str, Callable[[], str]]:
    """The block of docs/kinds.md."""
    return {"costs": costs}


def costs() -> str:
    """A line for each kind and function: what it takes at both edges of
    tiles, and the clock of its deep form.
    """
    found = {(row["name"], row["t"]): row for row in RECORD.rows("unit ")}
    rates = rates_of_kinds()
    names = sorted({name for name, _ in found} | rates.keys())
    body = []
    for name in names:
        kind, _, rest = name.partition(" ")
        rate = rates.get(name, {})
        title = f"[`{kind}`](#{kind})"
        if rest:
            title += f" `{rest}`"
        cells = (
            title,
            *(_cost(found.get((name, t))) for t in EDGES),
            *(_mhz(rate.get(speed)) for speed in GRADES),
        )
        body.append(cells)
    takes = [f"{' / '.join(COSTS)}, t = {t}" for t in EDGES]
    return _table(["unit", *takes, *RATES], body, 1)


def rates_of_kinds() -> dict[str, dict[str, dict]]:
    """Kind and function -> the slowest of its rows on the lean machine,
    by grade.
    """
    found: dict[str, dict[str, dict]] = {}
    for row in CLOCKS.rows():
        name = row["name"]
        kind = name.partition(" ")[0]
        if row["machine"] != LEAN or kind not in KINDS:
            continue
        if kind == "scratchpad":
            name = kind
        speed = row["speed"]
        best = found.setdefault(name, {})
        if speed not in best or row["mhz"] < best[speed]["mhz"]:
            best[speed] = row
    return found


def _cost(row: dict | None) -> str:
    if row is None:
        return ""
    cells = (row[key] for key in COSTS.values())
    return " / ".join(map(_number, cells))


def interconnects() -> str:
    """Memory sides, with their logic."""
    found = RECORD.rows("interconnect")
    body = [(row["sizes"], *(_number(row[key]) for key in COSTS.values())) for row in found]
    return _table(["interconnect of a load and a store", *COSTS], body, 1)


def rings() -> str:
    """The memories of rings."""
    found = RECORD.rows("ring")
    body = [(row["sizes"], _number(row["bram"])) for row in found]
    return _table(["ring of a load", "block RAM"], body, 1)


def lean() -> str:
    """Memory side and fabric of the lean machine."""
    body = []
    for row in RECORD.rows("lean "):
        share = f"{row['lut'] / DEVICE['LUT']:.0%}"
        costs = (_number(row[key]) for key in COSTS.values())
        body.append((f"`{row['name']}`", str(row["t"]), *costs, share))
    return _table(["part", "t", *COSTS, "of an ECP5-85F's LUT"], body, 1)


def fabrics() -> str:
    """Fabrics as a whole, with the cells that their LUTs are."""
    body = []
    for row in sorted(RECORD.rows("fabric"), key=lambda row: (row["t"], row["group"])):
        how = "part by part" if row["group"] == BY_PARTS else "as a whole"
        numbers = [row["t"], *(row[key] for key in COSTS.values()), *row["cells"].values()]
        body.append((row["name"], how, *map(_number, numbers)))
    return _table(["fabric", "synthesised", "t", *COSTS, "LUT4", "CCU2C", "DPR16X4"], body, 2)


def parts(t: int) -> Counter[str]:
    """The units of the smallest design, by kind and function."""
    design = DESIGNS[SMALLEST]
    config = machine(t)
    graph = lower(build(design.program, design.points[0], config).graph, config)
    names = ([unit.kind, unit.params.get("fn")] for unit in graph.units)
    return Counter(" ".join(word for word in name if word) for name in names)


def alone(t: int, what: str) -> tuple[int, list[str]]:
    """What all units of the smallest design take, without channels and
    memory side, and those that have not been synthesised.
    """
    rows = RECORD.rows("unit ")
    key = COSTS[what]
    costs = {row["name"]: row[key] for row in rows if row["t"] == t}
    count = parts(t)
    known = sum(n * costs[name] for name, n in count.items() if name in costs)
    return round(known), sorted(count.keys() - costs.keys())


def whole(t: int, group: str = "fabric") -> dict | None:
    """The row of the smallest design's fabric."""
    rows = RECORD.rows("fabric")
    return next((row for row in rows if (row["t"], row["group"]) == (t, group)), None)


def fit() -> str:
    """What the smallest design takes of a device, at both sizes of
    tiles.
    """
    lines = []
    for t in EDGES:
        if row := whole(t):
            told = f"the fabric takes {_shares(row)}"
        elif row := whole(t, BY_PARTS):
            told = f"the parts of the fabric, each by itself, take {_shares(row)}"
        else:
            told = _units_alone(t)
        lines.append(f"* Tiles of {t} x {t}: {told}.")
    return "\n".join(lines)


def _shares(row: dict) -> str:
    taken = []
    for what, most in DEVICE.items():
        n = row[COSTS[what]]
        taken.append(f"{n:,.0f} {what} ({n / most:.0%})")
    return ", ".join(taken)


def _units_alone(t: int) -> str:
    taken, missing = alone(t, "LUT")
    without = ""
    if missing:
        without = f", without {', '.join(missing)},"
    share = taken / DEVICE["LUT"]
    return f"the units alone{without} take {taken:,} LUT ({share:.0%}), channels come on top"


def description() -> str:
    """What `sim_configs/small_fpga.toml` says of itself."""
    small, own = EDGES
    row = whole(small)
    made = whole(own)
    needs = f"{made['lut']:,}" if made else f"at least {alone(own, 'LUT')[0]:,}"
    taken = ""
    if row:
        taken = f"{row['lut']:,} with {small} x {small} tiles, "
    return (
        f"{own} x {own} tiles of bf16, one memory channel. "
        f"An ECP5-85F has {DEVICE['LUT']:,} LUT; "
        f"swiglu takes {taken}"
        f"{needs} with {own} x {own}."
    )


def slots() -> str:
    """A slot beside the dedicated unit."""
    columns = ("unit_lut", "slot_lut", "unit_ff", "slot_ff", "registers")
    body = [(f"`{row['name']}`", *(_number(row[key]) for key in columns)) for row in SLOTS.rows()]
    head = ["kind", "LUT, unit", "LUT, slot", "FF, unit", "FF, slot", "bits of settings"]
    return _table(head, body, 1)


def clocks() -> str:
    """Units with short and with deep pipelines: clocks at both grades,
    and the critical path at the slower one.
    """
    body = []
    for rows in by_part().values():
        row = rows.get(SLOW) or rows[FAST]
        cells = (
            _title(row),
            _program(row),
            row.get("machine", MACHINE),
            row["pipelines"],
            _cell(row["path"]),
            *(_mhz(rows.get(speed)) for speed in GRADES),
            *(_number(row[key]) for key in COSTS.values()),
        )
        body.append(cells)
    about = ["unit", "program", "machine", "pipelines", "critical path"]
    return _table([*about, *RATES, *COSTS], body, len(about))


def by_part() -> dict[tuple, dict[str, dict]]:
    """What is placed and routed -> its rows by grade."""
    found: dict[tuple, dict[str, dict]] = {}
    for row in CLOCKS.rows():
        about = (_title(row), _program(row), row["machine"], row["pipelines"], row.get("part"))
        found.setdefault(about, {})[row["speed"]] = row
    return found


def _title(row: dict) -> str:
    """The unit, or the fabric."""
    bare = ", without counters and registers" if row.get("bare") else ""
    return f"`{row['name']}`{bare}"


def _program(row: dict) -> str:
    """Whose it is; how many units it has of a node, where it deals."""
    units = row.get("units", 1)
    dealt = f" x{units}" if units > 1 else ""
    return f"{row.get('program', PROGRAM)}{dealt}"


def _cell(path: str) -> str:
    """A path as a cell has it."""
    return path.replace(">", "\\>")


def _mhz(row: dict | None) -> str:
    return f"{row['mhz']:.1f}" if row else ""


def fabric_clocks() -> str:
    """The fabric of `PROGRAM` on the lean machine, beside what is aimed
    at.
    """
    body = []
    for (title, *what), rows in by_part().items():
        if not title.startswith(f"`{FABRIC}`"):
            continue
        if what[:2] != [PROGRAM, LEAN]:
            continue
        rates = (_mhz(rows.get(speed)) for speed in GRADES)
        seeds = (rows[speed]["seeds"] if speed in rows else "" for speed in GRADES)
        body.append((title, str(FABRIC_AIM), *rates, *seeds))
    by_seed = [f"by seed, grade {speed}" for speed in GRADES]
    return _table(["swiglu", "aim", *RATES, *by_seed], body, 1)


def missed() -> str:
    """What is below its aim, of the deep form at the slowest grade."""
    deep = [
        row for row in CLOCKS.rows() if (row["pipelines"], row["speed"]) == (PIPELINES[1], SLOW)
    ]
    units = [row for row in deep if row["name"] != FABRIC]
    fabrics = [row for row in deep if row["name"] == FABRIC and row["program"] == PROGRAM]
    below = {AIM: units, FABRIC_AIM: fabrics}
    return "\n".join(f"* Below {aim} MHz: {_slower(rows, aim)}." for aim, rows in below.items())


def _slower(rows: list[dict], aim: int) -> str:
    slow = (f"{_title(row)}{_owner(row)} {_mhz(row)} MHz" for row in rows if row["mhz"] < aim)
    return "; ".join(slow) or "none"


def _owner(row: dict) -> str:
    """Its program as a text has it; nothing where it has none."""
    program = _program(row)
    return f" ({program})" if program else ""


def _table(head: list[str], body: list[tuple], texts: int) -> str:
    return frame(head, body, [n >= texts for n in range(len(head))])


def _number(n: float | None) -> str:
    return "" if n is None else f"{n:,.0f}"


def blocks() -> dict[str, Callable[[], str]]:
    """The blocks of docs/synthesis.md."""
    return {
        "units": units,
        "clocks": clocks,
        "fabric clocks": fabric_clocks,
        "missed": missed,
        "slots": slots,
        "interconnects": interconnects,
        "rings": rings,
        "fabrics": fabrics,
        "lean": lean,
        "fit": fit,
    }
