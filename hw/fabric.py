"""The whole machine for one unit graph."""

import re

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..machine.capacity import check_capacity
from ..machine.config import Config, shaping
from ..machine.limits import REGISTER_BITS, UNIT_BITS
from ..machine.unitgraph import Channel, UnitGraph, validate
from .beat import Payloads, beat_layout
from .export.module_key import ModuleKey, module_key
from .export.place import between_instances, place
from .export.sidecar import Register, program
from .registry import component
from .stream import connect, share
from .top import channel_probe, fault_probe, memory_ports, observe, post_probe
from .units.fifo import Fifo
from .units.unit import Unit


class Fabric(wiring.Component):
    """Every unit of a unit graph, a FIFO per channel, configuration registers, off-chip
    interconnect and counters.

    Parameters
    ----------
    graph : UnitGraph
        A lowered program. Its run-time parameters become the initial values of the registers, or
        constants where the machine has none.
    config : Config
        The machine.
    probes : bool
        Put an instance of ``penstock_probe`` on every channel, and one of ``penstock_post_probe``
        on every unit that posts, and one of ``penstock_fault_probe`` on every unit and the
        interconnect. The test bench defines them. Such a fabric cannot run in Amaranth's simulator.

    Members
    -------
    The ports of docs/top.md; ``src<unit>`` and ``snk<unit>`` are streams of whole beats. Fabrics
    without off-chip units have no ``mem_`` ports.

    Attributes
    ----------
    registers : list of Register
        Run-time registers; empty where the machine has none.
    sidecar : dict
        What the JSON sidecar says of the program: units, tensors, memory ports, sources and sinks
        by name.

    Raises
    ------
    LoweringError
        It has more of something than a fabric holds (:mod:`penstock.machine.capacity`).

    Timing
    ------
    docs/timing.md. ``done`` and ``stat_data`` are combinational;
    ``error`` shows a fault from the cycle after it.
    """

    def __init__(self, graph: UnitGraph, config: Config, *, probes: bool = False):
        validate(graph)
        check_capacity(graph, config.machine)
        if graph.t != config.machine.t:
            raise ValueError(
                f"Tile edge of the graph must be that of the configuration, {config.machine.t}, "
                f"not {graph.t!r}"
            )
        self.graph = graph
        self.config = config
        self.probes = bool(probes)
        self._machine = shaping(config.machine)
        self._units = [self._unit(u.id) for u in graph.units]
        self._fifos = [Fifo(shape=beat_layout(c.payload), depth=c.depth) for c in graph.channels]
        self._parameters = self._address_map()
        self.registers = self._parameters if self._machine.registers else []
        members = {
            "cfg_we": In(1),
            "cfg_addr": In(REGISTER_BITS),
            "cfg_data": In(32),
            "cycle": Out(32),
            "done": Out(1),
            "error": Out(8),
            "stat_addr": In(UNIT_BITS + 2),
            "stat_data": Out(32),
        }
        for u in graph.units:
            if u.kind.name == "source":
                members[f"src{u.id}"] = In(
                    stream.Signature(beat_layout(graph.outputs(u.id)[0].payload))
                )
            if u.kind.name == "sink":
                members[f"snk{u.id}"] = Out(
                    stream.Signature(beat_layout(graph.inputs(u.id)[0].payload))
                )
        if graph.ports:
            from .memory.interconnect import Interconnect

            self._interconnect = Interconnect(
                ports=self._directions(), config=self._machine, tags=self._tags()
            )
            members |= {
                name: member
                for name, member in self._interconnect.signature.members.items()
                if name.startswith("mem_")
            }
        self._join()
        super().__init__(members)

    @property
    def sidecar(self) -> dict:
        """Entries of the JSON sidecar besides ports and modules."""
        return {"graph": self.graph.name, "registers": self.registers, **program(self.graph)}

    def _payloads(self, u: int) -> Payloads:
        return Payloads(
            tuple(c.payload for c in self.graph.inputs(u)),
            tuple(c.payload for c in self.graph.outputs(u)),
        )

    def _directions(self) -> list[str]:
        """``read`` or ``write`` for every off-chip port."""
        return [self.graph.units[u].kind.offchip for u in self.graph.ports]

    def _tags(self) -> list[int]:
        """Tags of every off-chip port (docs/timing.md section 5, random stores)."""
        return [getattr(self._units[u].port.signature, "tags", 1) for u in self.graph.ports]

    def _unit(self, u: int) -> Unit:
        unit = self.graph.units[u]
        more = (
            {"posts": len(self.graph.posters(u)), "drops": self.graph.drops(u)}
            if unit.kind.memory
            else {}
        )
        return component(unit.kind.name)(
            kind=unit.kind, t=self.graph.t, config=self._machine, payloads=self._payloads(u), **more
        )

    def _unit_module(self, u: int) -> ModuleKey:
        """Key of a unit's module: equal for units that differ in run-time parameters only."""
        unit = self.graph.units[u]
        kind = unit.kind
        fixed = {k: v for k, v in kind.stated.items() if k not in (*kind.runtime, kind.posts)}
        payloads = self._payloads(u)
        further = {f"input{k}": payload for k, payload in enumerate(payloads.inputs)}
        further |= {f"output{k}": payload for k, payload in enumerate(payloads.outputs)}
        further |= {
            "posts": kind.posts_to() is not None,
            "posters": len(self.graph.posters(u)),
            "drops": self.graph.drops(u),
            "t": self.graph.t,
            "machine": self._machine.of_parts,
        }
        return module_key(kind.name, fixed, further)

    def _address_map(self) -> list[Register]:
        registers: list[Register] = []
        for unit, component_ in zip(self.graph.units, self._units, strict=True):
            for name, bits in component_.cfg_layout().items():
                if name in unit.kind.params:
                    param = name
                    index = None
                    value = getattr(unit.kind, name)
                else:
                    param, _, number = name.rpartition("_")
                    index = int(number)
                    value = getattr(unit.kind, param)[index]
                if not 0 <= value < 2**bits:
                    raise ValueError(
                        f"Parameter {name!r} of unit {unit.name!r} must fit in {bits} bits, not "
                        f"{value!r}"
                    )
                registers.append(
                    {
                        "unit": unit.id,
                        "param": param,
                        "index": index,
                        "addr": len(registers),
                        "bits": bits,
                        "init": value,
                    }
                )
        return registers

    def elaborate(self, platform):
        m = Module()
        between_instances(self.hands_on)
        for u, unit in zip(self.graph.units, self._units, strict=True):
            name = f"u{u.id}_{_identifier(u.name)}"
            m.submodules[name] = place(unit, self._unit_module(u.id), name)
            if u.kind.name == "source":
                connect(m, wiring.flipped(getattr(self, f"src{u.id}")), unit.port)
            if u.kind.name == "sink":
                connect(m, unit.port, wiring.flipped(getattr(self, f"snk{u.id}")))
            if u.kind.memory:
                for k, poster in enumerate(self.graph.posters(u.id)):
                    m.d.comb += getattr(unit, f"post{k}").eq(self._units[poster].post)
        for c, fifo in zip(self.graph.channels, self._fifos, strict=True):
            name = fifo_name(c)
            key = module_key("fifo", {"depth": c.depth, "payload": c.payload})
            m.submodules[name] = place(fifo, key, name)
            if self.probes:
                m.submodules[f"p{c.id}"] = channel_probe(
                    c.id, c.payload, self.cycle, fifo.i, fifo.o, Const(fifo.depth, 32)
                )
        if self.probes:
            for memory in self.graph.memories():
                for u in self.graph.posters(memory):
                    post = self._units[u].post
                    m.submodules[f"post{u}"] = post_probe(u, self.cycle, post)
        errors = [unit.error for unit in self._units]
        if self.graph.ports:
            errors.append(self._memory(m))
        if self.probes:
            for u, error in enumerate(errors):
                m.submodules[f"fault{u}"] = fault_probe(u, self.cycle, error)
        self._configure(m)
        observe(m, self, self._units, errors, counters=self._machine.counters)
        return m

    def _join(self):
        """Give both ends of every channel its streams, ``w`` into the FIFO and ``r`` out of it, and
        both ends of every memory port its signals.
        """
        handed: list[Value] = []
        for c, fifo in zip(self.graph.channels, self._fifos, strict=True):
            source = self._units[c.src[0]]
            sink = self._units[c.dst[0]]
            given = share(source, source.output_names[c.src[1]], fifo, "i", name=f"c{c.id}w")
            taken = share(fifo, "o", sink, sink.input_names[c.dst[1]], name=f"c{c.id}r")
            handed += [Value.cast(given.payload), Value.cast(taken.payload)]
        for p, u in enumerate(self.graph.ports):
            port = share(
                self._units[u],
                "port",
                self._interconnect,
                f"port{p}",
                name=f"interconnect__port{p}",
            )
            handed.append(Value.cast(port.request.payload))
            if "group" in port.signature.members:
                handed.append(Value.cast(port.group.payload))
        self.hands_on = [value for value in handed if isinstance(value, Signal)]

    def _memory(self, m: Module) -> Value:
        key = module_key(
            "interconnect",
            {"ports": len(self.graph.ports)},
            {
                "directions": self._directions(),
                "tags": self._tags(),
                "machine": self._machine.of_parts,
            },
        )
        m.submodules.interconnect = place(self._interconnect, key, "interconnect")
        memory = self._interconnect
        memory_ports(m, self, memory)
        return memory.error

    def _configure(self, m: Module):
        """Give each unit its run-time parameters: registers, or constants."""
        for r in self._parameters:
            name = r["param"] if r["index"] is None else f"{r['param']}_{r['index']}"
            given = self._units[r["unit"]].cfg[name]
            if not self._machine.registers:
                m.d.comb += given.eq(Const(r["init"], r["bits"]))
                continue
            register = Signal(
                r["bits"], init=r["init"], reset_less=True, name=f"cfg{r['unit']}_{name}"
            )
            with m.If(self.cfg_we & (self.cfg_addr == r["addr"])):
                m.d.sync += register.eq(self.cfg_data)
            m.d.comb += given.eq(register)


def fifo_name(channel: Channel) -> str:
    """Name of the FIFO of a channel, an instance in the fabric."""
    return f"c{channel.id}_{_identifier(channel.name)}"


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
