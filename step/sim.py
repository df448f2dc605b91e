"""Simulation by the public names: configurations, ``simulate``, ``serialize``, ``run_graph``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import networkx as nx

from ..frontend import Program, lower
from ..frontend.meaning.evaluator import evaluate64
from ..frontend.user_line import user_line
from ..machine.config import Config, load
from ..machine.deadlock import DeadlockError
from ..machine.dram import check_dram
from ..machine.errors import PenstockError, ProgramError
from ..machine.limits import CHANNEL_DEPTHS
from ..machine.unitgraph import UnitGraph
from ..model import stepsim
from ..runs import boundary
from .operator import STORES
from .translation import Translation

LINE_BYTES = 64
DEPTH = 1024
"""Depth of channels where a script gives none."""
BASE_DEPTH = ("Broadcast", "DynOffChipLoad", "LinearOffChipLoadRef")
"""Operators whose channels have the common depth, whatever ``config_dict`` says."""


@dataclass
class HBMConfig:
    """The off-chip memory."""

    addr_offset: int
    channel_num: int
    per_channel_latency: int
    per_channel_init_interval: int
    per_channel_outstanding: int
    per_channel_start_up_time: int


@dataclass
class SimConfig:
    """Channels, and whether values are computed."""

    channel_depth: int | None
    functional_sim: bool = True
    mock_bf16: bool = False
    config_dict: dict[int, int] | None = None


@dataclass
class Simulated:
    """A graph that a script has simulated.

    Attributes
    ----------
    line
        Line of the script.
    program, config
        The program and its machine, off-chip memory as the script says.
    cycles
        In the timing `stepsim`.
    """

    line: str
    program: Program
    config: Config
    cycles: int
    values: bool


@dataclass
class Session:
    """Settings of a script's runs, and what it has simulated.

    Attributes
    ----------
    machine
        Name of the configuration; None: by the script's type of numbers.
    settings
        Fields of its table [machine] with other values.
    onchip_bw
        Bytes a cycle of an on-chip memory unit.
    serialized
        Graphs by the file that stands for them.
    """

    name: str = "script"
    machine: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    onchip_bw: int = 64
    progress: Callable[[Simulated], None] = lambda _: None

    def __post_init__(self):
        self.simulated: list[Simulated] = []
        self.serialized: dict[str, tuple[nx.MultiDiGraph, bool]] = {}

    def config(self, hbm: HBMConfig, sim: SimConfig) -> Config:
        """The machine that a script asks for."""
        if hbm.addr_offset != LINE_BYTES:
            raise ProgramError(
                f"addr_offset is {hbm.addr_offset}",
                f"HBMConfig at {user_line()}",
                f"a request has {LINE_BYTES} bytes",
            )
        name = self.machine or ("paper_hdl_bf16" if sim.mock_bf16 else "fig8")
        base = load(name, self.settings)
        memory = {
            "kind": "pipe",
            "channels": hbm.channel_num,
            "latency": hbm.per_channel_latency,
            "interval": hbm.per_channel_init_interval,
            "start_up": hbm.per_channel_start_up_time,
        }
        depth = DEPTH if sim.channel_depth is None else sim.channel_depth
        if depth not in CHANNEL_DEPTHS:
            raise ProgramError(
                f"channel_depth is {depth}",
                f"SimConfig at {user_line()}",
                f"from {CHANNEL_DEPTHS.start} to {CHANNEL_DEPTHS.stop - 1}",
            )
        check_dram(replace(base.stepsim.dram, **memory), f"HBMConfig at {user_line()}")
        return replace(
            base,
            machine=replace(base.machine, dram=replace(base.machine.dram, **memory)),
            stepsim=replace(
                base.stepsim,
                fifo_depth=depth,
                onchip_bw=self.onchip_bw,
                element_bytes=2 if sim.mock_bf16 else 4,
                dram=replace(base.stepsim.dram, **memory),
            ),
        )

    def run(
        self,
        graph: nx.MultiDiGraph,
        hbm: HBMConfig,
        sim: SimConfig,
        functional: bool,
        line: str | None = None,
    ) -> int:
        """Cycles of a graph; values are computed and stored where ``functional``."""
        config = self.config(hbm, sim)
        made = Translation(graph, self.name, config.machine.dtype)
        program = made.program()
        units = as_scripted(lower(program.graph, config, "stepsim"), made, graph, sim)
        sources = boundary.source_tokens(program.graph, units, made.sources)
        try:
            cycles = int(stepsim.run(units, config, sources=sources).cycles)
        except DeadlockError as e:
            at = {u.name: made.made[u.node] for u in units.units}
            who = [f"{o.variable} ({type(o).__name__}) at {o.line}" for o in at.values()]
            named = dict(zip(at, who, strict=True))
            where = dict.fromkeys(named[s.unit] for s in e.deadlock.circle)
            raise DeadlockError(e.deadlock, e.why, e.where, e.remedy, e.units, [*where]) from None
        if functional:
            store(made)
        line = line or user_line()
        self.simulated.append(Simulated(line, program, config, cycles, functional))
        self.progress(self.simulated[-1])
        return cycles

    def run_kernel(self, graph: nx.MultiDiGraph, file: str) -> int:
        """Cycles of a kernel that says nothing of its machine: 32 channels, FIFOs of depth 2."""
        memory = HBMConfig(64, 32, 2, 2, 1, 14)
        return self.run(graph, memory, SimConfig(channel_depth=2), False, file)


def as_scripted(
    units: UnitGraph, made: Translation, graph: nx.MultiDiGraph, sim: SimConfig
) -> UnitGraph:
    """Units with the script's own order of ports, requests a cycle, switches and depths."""
    at = {o: i for i, o in enumerate(graph.nodes)}
    new = []
    for u in units.units:
        o = made.made[u.node]
        own: dict[str, Any] = {}
        if u.kind.offchip and hasattr(o, "par_dispatch"):
            own["par_dispatch"] = o.par_dispatch
        if u.kind.name in ("partition", "reassemble"):
            own["write_back_mu"] = bool(getattr(o, "write_back_mu", False))
        new.append(replace(u, kind=u.kind.but(**own)) if own else u)
    ports = sorted(
        units.ports, key=lambda i: (new[i].kind.offchip == "write", at[made.made[new[i].node]])
    )
    channels = list(units.channels)
    for c in channels if sim.config_dict else ():
        source, target = (made.made[new[end[0]].node] for end in (c.src, c.dst))
        control = type(target).__name__ == "FlatPartition" and c.dst[1] == 1
        kinds = {type(source).__name__, type(target).__name__}
        depth = (sim.config_dict or {}).get(source.instance_id)
        if depth and not control and not kinds.intersection(BASE_DEPTH):
            channels[c.id] = replace(c, depth=depth)
    return replace(units, units=tuple(new), channels=tuple(channels), ports=tuple(ports))


def store(made: Translation) -> None:
    """Write what a graph stores: NAME.npy, and its shape in NAME.json."""
    outputs = evaluate64(made.graph, made.inputs, made.sources)
    for o, tensor in made.stores:
        if tensor.name in outputs and hasattr(o, "get_untiled_shape"):
            named = type(o).__name__ in STORES
            shape = made.shape_of(o) if named else tuple(map(int, o.underlying.shape))
            name = o.store_file_name if named else str(o)
            np.save(f"{name}.npy", outputs[tensor.name].astype(np.float32).reshape(shape))
            Path(f"{name}.json").write_text(json.dumps(list(shape)), encoding="utf-8")


SESSIONS: list[Session] = [Session()]
"""The script that runs is the last one's."""


def simulate(
    graph: nx.MultiDiGraph,
    logging: bool,
    hbm_config: HBMConfig,
    sim_config: SimConfig,
    protobuf_file: str,
    db_name: str | None = None,
) -> tuple[int, int, int]:
    """Run a graph; returns its cycles, and the run's time in ms and in whole s."""
    serialize(graph, protobuf_file, sim_config.functional_sim)
    passed, cycles, ms, s = run_graph(protobuf_file, logging, hbm_config, sim_config, db_name)
    print(f"Result: {passed}")
    print(f"Cycles: {cycles}")
    print(f"Duration: {ms} ms, {s} s")
    return cycles, ms, s


def serialize(graph: nx.MultiDiGraph, protobuf_file: str, functional: bool = True) -> None:
    """Have a file stand for a graph in the calls of :func:`run_graph` that follow."""
    SESSIONS[-1].serialized[os.path.abspath(protobuf_file)] = graph, functional


def run_graph(
    protobuf_file: str,
    logging: bool,
    hbm_config: HBMConfig,
    sim_config: SimConfig,
    db_name: str | None = None,
) -> tuple[bool, int, int, int]:
    """Run the graph that a file stands for: True, its cycles, and the run's time in ms and s."""
    start = perf_counter()
    found = SESSIONS[-1].serialized.get(os.path.abspath(protobuf_file))
    if found is None:
        raise PenstockError("no graph", str(protobuf_file), remedy="call serialize(graph, FILE)")
    cycles = SESSIONS[-1].run(found[0], hbm_config, sim_config, found[1])
    ms = int((perf_counter() - start) * 1000)
    return True, cycles, ms, ms // 1000
