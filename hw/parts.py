"""The distinct components of a fabric."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.lib import wiring

from .beat import beat_layout
from .fabric import Fabric
from .memory.interconnect import Interconnect
from .module_key import module_key
from .units.fifo import Fifo


@dataclass
class Part:
    """Components of a fabric that are one module.

    Attributes
    ----------
    name
        The kind of a unit, with its function; or what else it is.
    units
        Names of the units, or of the channels.
    make
        A component of its own, not that of the fabric.
    """

    name: str
    units: list[str]
    make: Callable[[], wiring.Component]


def parts(fabric: Fabric) -> list[Part]:
    """Units by module in the order of the graph, then channels by payload and depth, then the
    off-chip interconnect. The fabric's registers and counters are not among them.
    """
    found: dict[str, Part] = {}
    graph = fabric.graph
    for u in graph.units:
        name = " ".join(str(x) for x in (u.kind, u.params.get("fn")) if x)
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
