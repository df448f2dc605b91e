"""Machine configurations: one frozen, validated class; every field with its unit and source.

Presets are TOML files in sim_configs/.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from .. import sim_configs as package
from ..system.reading import is_table, read_text
from .array.description import Array
from .array.description import from_table as array_from
from .beat import ELEMENT_BITS, FLOATS, LINE_BYTES
from .dram import Dram, check_dram, check_ranges, power_of_two
from .errors import ConfigError, nearest
from .hbm2 import Hbm2
from .limits import (
    ADDRESS_BITS,
    CHANNEL_DEPTHS,
    CHUNKS_AHEAD,
    FRAMES,
    LOAD_LINES,
    PAGES,
    QUEUES,
    RATES,
    RESPONSE_LANES,
    SIZE_BITS,
    described,
    meaning,
    within,
)
from .timings import TIMINGS, current_name
from .widths import Widths

COUNTED_KINDS = ("matmul", "map")
"""Unit kinds of which a program node may have several."""
UNITS = range(1, 257)
"""How many of them."""
TABLES = (*TIMINGS, "defaults", "array")
"""Of a configuration."""

PIPELINES = ("short", "deep")
"""Forms of the datapaths."""

OF_TOP = ("counters", "registers")
"""Fields of a machine that shape the top of a fabric, and none of its parts."""
OF_GRAPH = (*OF_TOP, "spill")
"""Likewise, and those that shape a unit graph alone."""

_LINE = range(LINE_BYTES, LINE_BYTES + 1)
"""Bytes of a line of the timing `stepsim`."""


@dataclass(frozen=True)
class Machine:
    """The fabric (timing `machine`)."""

    t: int = described(16, "physical tile edge in elements, a power of two (paper section 4.5: 16)")
    dtype: str = described(
        "fp32", "operand elements off-chip and at matmul inputs: `fp32` or `bf16`"
    )
    channel_depth: int = described(2, "beats per channel (published HDL: 2)", CHANNEL_DEPTHS)
    rows_per_cycle: int = described(
        16, "rows of a tile product a matmul unit makes per cycle; t = one tile per cycle"
    )
    pipelines: str = described(
        "short",
        "stages of the arithmetic, queues before off-chip ports: `short` (few cycles), or "
        "`deep` (a faster clock on an FPGA)",
    )
    lanes: dict[str, Any] = field(
        default_factory=dict,
        metadata=meaning(
            "elements per cycle of element-wise and accumulate units; "
            "`default` or a function's name"
        ),
    )
    units: dict[str, Any] = field(
        default_factory=dict,
        metadata=meaning(
            "units per program node by kind (`matmul`, `map`); a node's own count overrides it"
        ),
    )
    accum_tiles: int = described(64, "accumulator memory of an accumulate unit in tiles", QUEUES)
    pages: int = described(64, "pages of a scratchpad (published: 32 sets)", PAGES)
    frames: int = described(8, "tiles per scratchpad page (published: 8)", FRAMES)
    buffers: int = described(
        2,
        "buffers that each writer of a scratchpad may hold at a time; 0: as many as there are "
        "pages for",
        range(PAGES.stop),
    )
    spill: int = described(
        0,
        "bytes of off-chip memory, for each scratchpad, for the tiles of a buffer that has all of "
        "its pages; 0: a writer waits for a page",
        range(1 << ADDRESS_BITS),
    )
    sized: bool = described(
        False,
        "whether a scratchpad has pages for these buffers only, where their size is known "
        "before the run; else all have `pages`, and programs of other sizes share their "
        "hardware",
    )
    port_lanes: int = described(
        4, "lines an off-chip port moves per cycle (published par_dispatch: 4)", QUEUES
    )
    load_lines: int = described(
        256, "ring of a load unit in lines: requests in flight and not yet assembled", LOAD_LINES
    )
    arbitration: str = described("need", "off-chip ports: `need` (graph order) or `round_robin`")
    address_bits: int = described(
        ADDRESS_BITS,
        "bits of byte addresses and pitches in off-chip units",
        range(12, ADDRESS_BITS + 1),
    )
    size_bits: int = described(
        SIZE_BITS,
        "bits of sizes, counts and steps in off-chip units; positions have 4 more",
        range(6, SIZE_BITS + 1),
    )
    counters: bool = described(
        True,
        "whether every unit has counters of busy, blocked and starved cycles, and a scratchpad "
        "one of its pages; without them `stat_data` is 0",
    )
    registers: bool = described(
        True,
        "whether a program's sizes and addresses are registers that a host writes; without "
        "them they are constants of the hardware, which runs this program alone",
    )
    dram: Dram = field(default_factory=Dram, metadata=meaning("off-chip memory"))

    @property
    def widths(self) -> Widths:
        """Widths of lines, addresses and sizes."""
        return Widths(8 * self.dram.line_bytes, self.address_bits, self.size_bits)

    @property
    def response_lanes(self) -> int:
        """Lines that the off-chip memory delivers in a cycle at most.

        A channel of `pipe` or `trace` delivers one; one of `hbm2` what it has read and what it has
        written, in every tick, up to `responses` in all; `ideal` as many as reach it in a cycle.
        """
        dram = self.dram
        if dram.kind in ("pipe", "trace"):
            return dram.channels
        if dram.kind == "hbm2":
            return min(dram.hbm2.responses, 2 * dram.hbm2.channels * math.ceil(dram.ratio))
        return self.port_lanes

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BITS[self.dtype] // 8

    def lanes_for(self, name: str) -> int:
        """Lanes of the units that run function ``name`` ('accum' for accumulators)."""
        return self.lanes.get(name, self.lanes.get("default", self.t * self.t))

    @property
    def deep(self) -> bool:
        """True if datapaths have their deep pipelines."""
        return self.pipelines == "deep"

    @property
    def chunks_ahead(self) -> int:
        """Chunks that wait before an off-chip port."""
        return CHUNKS_AHEAD if self.deep else 0

    def units_for(self, kind: str) -> int:
        return self.units.get(kind, 1)

    @property
    def of_parts(self) -> list[tuple[str, Any]]:
        """Name and value of each field that shapes a fabric's parts."""
        return sorted(one for one in vars(self).items() if one[0] not in OF_GRAPH)


@dataclass(frozen=True)
class Stepsim:
    """The published simulator's parameters (timing `stepsim`; the paper's section 4.3 and its
    artifact).
    """

    compute_bw: int = described(4096, "FLOP per cycle of each higher-order operator", RATES)
    fifo_depth: int = described(
        1, "channel depth (None in the published scripts means 1024)", CHANNEL_DEPTHS
    )
    par_dispatch: int = described(4, "64-B requests a memory operator sends per cycle", QUEUES)
    onchip_bw: int = described(256, "bytes per cycle of an on-chip memory unit", RATES)
    element_bytes: int = described(4, "bytes per element off-chip (4, or 2 for bf16)", range(1, 9))
    dram: Dram = field(default_factory=Dram, metadata=meaning("the HBM node"))


@dataclass(frozen=True)
class Config:
    """A named machine with both timings; neither table is derived from the other."""

    name: str
    machine: Machine
    stepsim: Stepsim
    defaults: dict[str, Any] = field(
        default_factory=dict
    )  # program name -> sizes that suit this machine where the user gives none
    array: Array | None = None  # for all programs; None: each program has a fabric of its own


def _build(cls: type[Any], data: Any, where: str) -> Any:
    if not is_table(data):
        raise ConfigError(f"must be a table, not {data!r}", where)
    known = {f.name: f for f in fields(cls)}
    for key in data:
        if key not in known:
            raise ConfigError(
                f"unknown field {key!r}", where, remedy=nearest(key, known, "known fields:")
            )
    kw = {}
    for key, value in data.items():
        factory = known[key].default_factory
        default = known[key].default if factory is MISSING else factory()
        if is_dataclass(default):
            value = _build(type(default), value, f"{where}.{key}")
        elif type(value) is int and type(default) is float:
            value = float(value)
        elif type(value) is not type(default):
            raise ConfigError(
                f"must be of type {type(default).__name__}, not {value!r}"[:120], f"{where}.{key}"
            )
        kw[key] = value
    return cls(**kw)


def _check_memory(m: Machine, at: str) -> None:
    """The memory, and whether its lines suit the machine."""
    check_dram(m.dram, f"{at}.dram")
    if m.dram.line_bytes < 4 * m.t:
        raise ConfigError(
            f"line_bytes must be at least 4 t = {4 * m.t}, a row of an fp32 tile, not "
            f"{m.dram.line_bytes!r}",
            f"{at}.dram",
        )
    if m.response_lanes not in RESPONSE_LANES:
        raise ConfigError(
            f"delivers {m.response_lanes} lines a cycle",
            f"{at}.dram",
            f"this machine takes at most {RESPONSE_LANES[-1]} lines a cycle",
            f"use at most {RESPONSE_LANES[-1]} channels; the timing `stepsim` takes more",
        )


def _check_spill(config: Config, at: str) -> None:
    m = config.machine
    block = m.t * m.dram.line_bytes
    if 0 < m.spill < block:
        raise ConfigError(
            f"spill must be 0 or at least t x line_bytes = {block}, a block of tiles, not "
            f"{m.spill!r}",
            at,
        )
    if m.spill and config.array is not None:
        raise ConfigError(
            f"spill must be 0, not {m.spill!r}: scratchpads of an array have no off-chip memory",
            at,
            remedy="raise pages, or leave out the array",
        )


def check(config: Config, where: str = "config") -> Config:
    """Validate every field; raises ConfigError naming the field and the constraint."""
    m = config.machine
    at = f"{where}: machine"
    if not power_of_two(m.t) or not 2 <= m.t <= 16:
        raise ConfigError(f"t must be a power of two from 2 to 16, not {m.t!r}", at)
    if m.dtype not in FLOATS:
        raise ConfigError(f"dtype must be one of {', '.join(FLOATS)}, not {m.dtype!r}", at)
    if not 1 <= m.rows_per_cycle <= m.t or m.t % m.rows_per_cycle:
        raise ConfigError(f"rows_per_cycle must divide t = {m.t}, not {m.rows_per_cycle!r}", at)
    for name, n in m.lanes.items():
        if type(n) is not int or n < 1 or (m.t * m.t) % n:
            raise ConfigError(f"lanes.{name} must divide t*t = {m.t * m.t}, not {n!r}", at)
    for name, n in m.units.items():
        if name not in COUNTED_KINDS:
            raise ConfigError(
                f"unknown kind {name!r}",
                f"{at}.units",
                remedy=nearest(name, COUNTED_KINDS, "kinds with a count:"),
            )
        within(f"units.{name}", n, UNITS, at, ConfigError)
    check_ranges(m, at)
    if not power_of_two(m.port_lanes) or m.port_lanes > m.t:
        raise ConfigError(
            f"port_lanes must be a power of two of at most t = {m.t}, not {m.port_lanes!r}", at
        )
    if (
        m.load_lines % m.port_lanes
        or m.load_lines // m.port_lanes < 2
        or not power_of_two(m.load_lines)
    ):
        raise ConfigError(
            f"load_lines must be a power of two of at least 2 x port_lanes, not {m.load_lines!r}",
            at,
        )
    if not power_of_two(m.frames):
        raise ConfigError(f"frames must be a power of two, not {m.frames!r}", at)
    if m.pipelines not in PIPELINES:
        raise ConfigError(
            f"pipelines must be one of {', '.join(PIPELINES)}, not {m.pipelines!r}", at
        )
    if m.arbitration not in ("need", "round_robin"):
        raise ConfigError(f"arbitration must be 'need' or 'round_robin', not {m.arbitration!r}", at)
    for name in OF_TOP:
        if config.array is not None and not getattr(m, name):
            raise ConfigError(f"{name} must be true: an array is for all programs", at)
    _check_memory(m, at)
    _check_spill(config, at)
    check_dram(config.stepsim.dram, f"{where}: stepsim.dram")
    within(
        "line_bytes", config.stepsim.dram.line_bytes, _LINE, f"{where}: stepsim.dram", ConfigError
    )
    check_ranges(config.stepsim, f"{where}: stepsim")
    return config


def _tables(data: dict[str, Any], where: str) -> dict[str, Any]:
    """The tables of a configuration by today's names."""
    tables = {current_name(key): table for key, table in data.items()}
    if len(tables) < len(data):
        raise ConfigError(
            "has the tables [stepsim] and [published]", where, remedy="keep [stepsim]: one timing"
        )
    return tables


def from_dict(data: dict[str, Any], name: str, where: str | None = None) -> Config:
    """Build and validate a configuration from parsed TOML."""
    where = where or f"config {name}"
    data = _tables(data, where)
    for key in data:
        if key not in (*TABLES, "description"):
            raise ConfigError(
                f"unknown table {key!r}", where, remedy=nearest(key, TABLES, "known tables:")
            )
    defaults = data.get("defaults", {})
    if not is_table(defaults) or not all(map(is_table, defaults.values())):
        raise ConfigError(
            f"must hold one table of parameters per program, not {defaults!r}",
            f"{where}: defaults",
            remedy="write [defaults.swiglu]",
        )
    array = data.get("array")
    machine = _build(Machine, data.get("machine", {}), f"{where}: machine")
    return check(
        Config(
            name,
            machine,
            _build(Stepsim, data.get("stepsim", {}), f"{where}: stepsim"),
            defaults,
            None if array is None else array_from(array, name, f"{where}: array", machine),
        ),
        where,
    )


def presets_dir() -> Path:

    return Path(package.__path__[0])


def path_of(name: str, where: str | None = None) -> Path:
    """The file of a preset by its name, or of a path; ``where`` names it."""
    path = Path(name)
    if path.suffix != ".toml":
        path = presets_dir() / f"{name}.toml"
        if not path.exists():
            known = sorted(p.stem for p in presets_dir().glob("*.toml"))
            raise ConfigError(
                f"no configuration named {name!r}",
                where,
                remedy=f"{nearest(name, known)}; or give the path of a .toml file",
            )
    return path


def load(name: str, settings: Mapping[str, Any] | None = None) -> Config:
    """Read a preset by name, or a TOML file by path.

    Parameters
    ----------
    name
        The preset or the file.
    settings
        Fields of the table ``[machine]`` by dotted name (``dram.interval``), which take the place
        of the file's; the configuration's name ends with them.
    """
    path = path_of(name)
    data = _read(path)
    shown = "".join(f" {dotted}={value}" for dotted, value in (settings or {}).items())
    for dotted, value in (settings or {}).items():
        data = _over(data, {"machine": _nested(dotted, value)})
    return from_dict(data, path.stem + shown, f"{path}{shown and ' with --machine'}{shown}")


def _read(path: Path, readers: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The tables of a file over those of its ``base``; ``readers``: files that are based on it."""
    try:
        data = tomllib.loads(read_text(path))
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply", str(path)) from None
    except ValueError as e:  # TOMLDecodeError, and what int() says of thousands of digits
        raise ConfigError(f"not valid TOML: {e}", str(path)) from None
    data = _tables(data, str(path))
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"base must be a preset's name or a path, not {base!r}"[:120], str(path))
    place = path.parent / base if base.endswith(".toml") else path_of(base, str(path))
    readers = (*readers, path.resolve())
    if place.resolve() in readers:
        raise ConfigError(
            f"base {base!r} leads back to {place.name}", str(path), remedy="break the circle"
        )
    return _over(_read(place, readers), data)


def _over(base: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A table with other values for some fields, those of its inner tables likewise."""
    inner = {
        name: _over(base[name], value)
        for name, value in fields.items()
        if is_table(value) and is_table(base.get(name))
    }
    return {**base, **fields, **inner}


def _nested(name: str, value: Any) -> dict[str, Any]:
    """A dotted field of the machine as nested tables; ConfigError for an unknown one."""
    table, _, rest = name.partition(".")
    known = list(_names(Machine))
    if name not in known and (f"{table}.*" not in known or not rest.isidentifier()):
        last = name.rpartition(".")[2]
        near = [n for n in known if n.count(".") < 2 or n.endswith(f".{last}")]
        raise ConfigError(
            f"unknown field {name!r}", "--machine", remedy=nearest(name, near, "known fields:")
        )
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def _names(cls: type[Any]) -> Iterator[str]:
    """Dotted names of a table's fields; ``NAME.*`` for a table with names of its own."""
    for f in fields(cls):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if is_dataclass(default):
            yield from (f"{f.name}.{inner}" for inner in _names(type(default)))
        else:
            yield f"{f.name}.*" if is_table(default) else f.name


def shaping(machine: Machine) -> Machine:
    """A machine as its hardware sees it: without the timing of the off-chip memory, which is the
    memory's own.

    Machines for which it is equal have the same Verilog. A `trace` is to it a `pipe` of as many
    channels.
    """
    dram = machine.dram
    seen = Dram(
        kind="pipe" if dram.kind == "trace" else dram.kind,
        channels=dram.channels,
        line_bytes=dram.line_bytes,
        hbm2=Hbm2(responses=machine.response_lanes),
    )
    return replace(machine, dram=seen, spill=0)


def dram_from(table: dict[str, Any]) -> Dram:
    """The off-chip memory of a table, as :func:`dataclasses.asdict` makes it of one."""
    return _build(Dram, table, "dram")


def to_dict(config: Config) -> dict[str, Any]:
    return asdict(config)
