"""A PE and its router or switch: what the mesh is made of."""

from collections.abc import Iterable

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....overlay.core.config import MEMORIES, Overlay, Sizes, memories, packet
from ...noc.hoplite_router import HopliteRouter
from ...noc.hybrid_router import HybridRouter
from ...noc.tm_switch import TimeMultiplexedSwitch
from ...noc.token import struct
from ...noc.xy_router import XYRouter
from .dynamic_pe import DynamicPE
from .hybrid_pe import HybridPE
from .layouts import host_layout
from .static_pe import StaticPE


class Tile(wiring.Component):
    """Base of tiles: a PE with the ports of
    :mod:`~penstock.hw.units.token`, and links to the neighbours.

    Parameters
    ----------
    overlay : Overlay
    sizes : Sizes
    classes : iterable of str
        Classes of operations of this tile's PE.
    probed : bool
        Whether there is a port ``probe``, the PE's.
    with_alu : bool
        Without it, the PE's ports of operands and results are the tile's: to be timed apart.

    Members
    -------
    x, y : In
        The tile's place (dynamic, hybrid).
    host, look, value, restart, running, done, probe, alu_op, alu_a, alu_b, alu_o
        See the PEs. ``restart`` is high for ``RESTART_CYCLES``.
    fetches, decided
        The PE's (hybrid).
    w_i, e_i, n_i, s_i, w_o, e_o, n_o, s_o
        Links, as the router has them.

    Timing
    ------
    Outputs come from registers and memories of the tile only, so tiles
    may be simulated, placed and timed one by one.
    """

    def __init__(
        self,
        *,
        overlay: Overlay,
        sizes: Sizes,
        classes: Iterable[str],
        probed: bool = False,
        with_alu: bool = True,
    ):
        self.overlay = overlay
        self.sizes = sizes
        self.probed = probed
        self.pe = {"dynamic": DynamicPE, "static": StaticPE, "hybrid": HybridPE}[overlay.pe](
            overlay=overlay, sizes=sizes, classes=classes, probed=probed, with_alu=with_alu
        )
        self.router = self.make_router()
        links = {
            name: member
            for name, member in self.router.signature.members.items()
            if name[0] in "wens" and name[1:] in ("_i", "_o")
        }
        own = self.pe.signature.members
        place = {n: own[n] for n in ("x", "y", "fetches", "decided") if n in own}
        alu = {
            name: member
            for name, member in self.pe.signature.members.items()
            if name.startswith("alu_")
        }
        self.RESTART_CYCLES = self.pe.RESTART_CYCLES
        super().__init__(
            {
                **place,
                "host": In(host_layout(overlay, sizes)),
                "look": In(self.pe.look.shape()),
                "value": Out(overlay.width),
                "restart": In(1),
                "running": In(1),
                "done": Out(1),
                **links,
                **alu,
                **({"probe": Out(self.pe.probe.shape())} if probed else {}),
            }
        )

    def make_router(self) -> wiring.Component:
        raise NotImplementedError

    def elaborate(self, platform):
        m = Module()
        m.submodules.pe, m.submodules.router = pe, router = self.pe, self.router
        m.d.comb += [
            pe.host.eq(self.host),
            pe.look.eq(self.look),
            self.value.eq(pe.value),
            pe.restart.eq(self.restart),
            pe.running.eq(self.running),
        ]
        if self.probed:
            m.d.comb += self.probe.eq(pe.probe)
        for name, member in self.signature.members.items():
            if name.startswith("alu_"):
                inner = getattr(pe, name)
                outer = getattr(self, name)
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
            if name[1:] not in ("_i", "_o"):
                continue
            if member.is_signature:
                if member.flow == In:
                    wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(router, name))
                else:
                    wiring.connect(m, getattr(router, name), wiring.flipped(getattr(self, name)))
            elif member.flow == In:
                m.d.comb += getattr(router, name).eq(getattr(self, name))
            else:
                m.d.comb += getattr(self, name).eq(getattr(router, name))
        self.wire(m)
        return m

    def wire(self, m: Module) -> None:
        """Connects PE and router."""
        raise NotImplementedError


class DynamicTile(Tile):
    """A dynamic PE with a buffered or a deflection router."""

    def make_router(self):
        token = struct(packet(self.overlay, self.sizes))
        return (
            XYRouter(token=token, fifo_depth=self.overlay.fifo_depth)
            if self.overlay.network == "mesh"
            else HopliteRouter(token=token)
        )

    def wire(self, m):
        pe = self.pe
        router = self.router
        wiring.connect(m, pe.o, router.p_i)
        wiring.connect(m, router.p_o, pe.i)
        m.d.comb += self.done.eq(pe.done & router.idle)
        m.d.comb += [unit.x.eq(self.x) for unit in (pe, router)] + [
            unit.y.eq(self.y) for unit in (pe, router)
        ]
        if isinstance(router, XYRouter):
            m.d.comb += router.clear.eq(self.restart)


class _ContextTile(Tile):
    """Base of tiles whose routers follow contexts."""

    def wire(self, m):
        router = self.router
        host = self.host
        number = MEMORIES[self.overlay.pe].index("switch")
        m.d.comb += [
            router.fetch.eq(self.pe.fetch),
            router.write.valid.eq(host.valid & (host.memory == number)),
            router.write.address.eq(host.address),
            router.write.data.eq(host.data),
        ]


class StaticTile(_ContextTile):
    """A static PE with a time-multiplexed switch."""

    def make_router(self):
        return TimeMultiplexedSwitch(
            width=self.overlay.width, contexts=memories(self.overlay, self.sizes)["switch"].depth
        )

    def wire(self, m):
        super().wire(m)
        pe = self.pe
        router = self.router
        m.d.comb += [router.p_i.eq(pe.o), pe.i.eq(router.p_o), self.done.eq(pe.done)]


class HybridTile(_ContextTile):
    """A hybrid PE with a switch and a router on the same links."""

    def make_router(self):
        contexts = memories(self.overlay, self.sizes)["switch"]
        return HybridRouter(
            token=struct(packet(self.overlay, self.sizes)),
            fifo_depth=self.overlay.fifo_depth,
            width=self.overlay.width,
            contexts=contexts.depth,
            layout=contexts.layout,
        )

    def wire(self, m):
        super().wire(m)
        pe = self.pe
        router = self.router
        wiring.connect(m, pe.token_o, router.p_i)
        wiring.connect(m, router.p_o, pe.token_i)
        m.d.comb += [
            router.value_i.eq(pe.o),
            pe.i.eq(router.value_o),
            router.active.eq(pe.active),
            router.clear.eq(self.restart),
            self.done.eq(pe.done & router.idle),
            pe.fetches.eq(self.fetches),
            self.decided.eq(pe.decided),
        ] + [
            port.eq(of)
            for unit in (pe, router)
            for port, of in ((unit.x, self.x), (unit.y, self.y))
        ]


TILES = {"dynamic": DynamicTile, "static": StaticTile, "hybrid": HybridTile}
"""Tiles by kind of PE."""
