"""Components to synthesise by themselves: the distinct ones of a fabric, and one between
registers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .beat import beat_layout
from .export.module_key import module_key
from .fabric import Fabric
from .memory.interconnect import Interconnect
from .units.fifo import Fifo


@dataclass
class Part:
    """Components of a fabric that are one module."""

    name: str  # the kind of a unit, with its function; or what else it is
    units: list[str]  # names of the units, or of the channels
    make: Callable[[], wiring.Component]  # a component of its own, not that of the fabric


def parts(fabric: Fabric) -> list[Part]:
    """Units by module in the order of the graph, then channels by payload and depth, then the
    off-chip interconnect. The fabric's registers and counters are not among them.
    """
    found: dict[str, Part] = {}
    graph = fabric.graph
    for u in graph.units:
        name = " ".join(str(x) for x in (u.kind.name, getattr(u.kind, "fn", None)) if x)
        part = Part(name, [], lambda u=u: fabric._unit(u.id))
        found.setdefault(fabric._unit_module(u.id).name, part).units.append(u.name)
    for c in graph.channels:
        key = module_key("fifo", {"depth": c.depth, "payload": c.payload})
        part = Part(
            f"channel of {c.depth}",
            [],
            lambda c=c: Fifo(shape=beat_layout(c.payload), depth=c.depth),
        )
        found.setdefault(key.name, part).units.append(c.name)
    if graph.ports:
        net = fabric._interconnect

        def interconnect() -> Interconnect:
            return Interconnect(ports=net.directions, config=net.config, tags=net.tags)

        found["interconnect"] = Part("interconnect", ["memory"], interconnect)
    return list(found.values())


class Registered(wiring.Component):
    """A component with a register on every port.

    Place and route of a part alone times paths between registers only; with a register on each of
    its ports every path of the part is one. Not for use in a design: handshakes do not survive it.

    Timing
    ------
    One cycle later in and out.
    """

    def __init__(self, part: wiring.Component):
        self.part = part
        super().__init__(part.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = self.part
        for (_, member, outer), (_, _, inner) in zip(
            self.signature.flatten(self), self.part.signature.flatten(self.part), strict=True
        ):
            m.d.sync += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m


class SideBySide(wiring.Component):
    """Components by name, each with its ports under that name."""

    def __init__(self, parts: Mapping[str, wiring.Component]):
        self._parts = dict(parts)
        super().__init__({name: Out(part.signature) for name, part in parts.items()})

    def elaborate(self, platform):
        m = Module()
        for name, part in self._parts.items():
            m.submodules[name] = part
            wiring.connect(m, part, wiring.flipped(getattr(self, name)))
        return m
