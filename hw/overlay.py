"""The token-dataflow overlay: a mesh of PEs that the host loads, starts, and reads."""

from collections.abc import Mapping
from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, ClockSignal, Instance, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..overlay.core.config import LINKS, MEMORIES, Layout, Sizes, bits_for, memories
from ..overlay.core.config import Overlay as Config
from ..overlay.core.image import Image
from .export.module_key import module_key
from .export.place import place
from .noc.mesh import connect_mesh, links_of
from .noc.token import struct
from .units.token.layouts import host_layout
from .units.token.sequencer import Sequencer
from .units.token.tile import TILES

SETTLE_CYCLES = 3
"""Between ``start`` and the restart: the last word loaded has arrived, and the PEs have left the
run before.
"""


def load_layout(overlay: Config, sizes: Sizes) -> Layout:
    """A word to be loaded: ``pe`` (y * cols + x), ``memory`` (its number in
    :data:`~penstock.overlay.core.config.MEMORIES`), ``address``, ``data``.
    """
    host = host_layout(overlay, sizes)
    return Layout(
        (
            ("pe", bits_for(overlay.pes)),
            *((name, host[name].width) for name in ("memory", "address", "data")),
        )
    )


def load_words(image: Image) -> list[int]:
    """An image as words of the stream ``load``, in order."""
    names = MEMORIES[image.overlay.pe]
    words = [(pe, names.index(memory), at, data) for pe, memory, at, data in image.load()]
    layout = load_layout(image.overlay, image.sizes)
    columns = zip(*words, strict=True)
    return layout.pack({name: c for (name, _), c in zip(layout.fields, columns, strict=True)})


def look_layout(overlay: Config, sizes: Sizes) -> Layout:
    """A value to be read: ``pe`` and ``address``."""
    return Layout(
        (
            ("pe", bits_for(overlay.pes)),
            ("address", bits_for(memories(overlay, sizes)["value"].depth)),
        )
    )


class Overlay(wiring.Component):
    """A mesh of token PEs: dynamically or statically scheduled, or both.

    Parameters
    ----------
    overlay : penstock.overlay.core.config.Overlay
        The machine.
    sizes : penstock.overlay.core.config.Sizes
        With ``overlay.memories``, the depths of the memories of every PE.
    classes : Mapping[int, frozenset[str]]
        PE (y * cols + x) -> classes of operations that it does.
    probes : bool
        Put an instance of ``penstock_write_probe`` on every value memory, and one of
        ``penstock_link_probe`` or ``penstock_wire_probe`` (static) on every link. The test bench
        defines them. Such an overlay cannot run in Amaranth's simulator.

    Members
    -------
    load : In(stream.Signature({pe, memory, address, data}))
        A word for a memory or register; taken while idle.
    start : In(1)
        Begins a run, while idle.
    running : Out(1)
        A run is going on: cycle 0 is the first cycle in which it is high.
    idle : Out(1)
        The overlay may be loaded, started and read.
    cycles : Out(32)
        Of the last run, while idle.
    look : In(stream.Signature({pe, address}))
        Asks for a word of a value memory; taken while idle.
    value : Out({valid, data})
        The words asked for, in order.

    Timing
    ------
    Loading and reading: one word a cycle; a value comes ``LOOK_CYCLES`` after its address was
    taken. A run begins ``START_CYCLES`` after ``start``. ``idle`` rises the cycle after the run
    ended. Source: docs/overlay.md section 2.
    """

    LOOK_CYCLES = 4

    def __init__(
        self,
        *,
        overlay: Config,
        sizes: Sizes,
        classes: Mapping[int, frozenset[str]],
        probes: bool = False,
    ):
        self.overlay = overlay
        self.probes = bool(probes)
        self.sizes = sizes
        self.classes = {pe: frozenset(classes[pe]) for pe in range(overlay.pes)}
        make = TILES[overlay.pe]
        self.tiles = {
            (pe % overlay.cols, pe // overlay.cols): make(
                overlay=overlay, sizes=sizes, classes=sorted(self.classes[pe]), probed=self.probes
            )
            for pe in range(overlay.pes)
        }
        tile = self.tiles[0, 0]
        self.restart_cycles = tile.RESTART_CYCLES
        self.START_CYCLES = 1 + SETTLE_CYCLES + self.restart_cycles
        super().__init__(
            {
                "load": In(stream.Signature(struct(load_layout(overlay, sizes)))),
                "start": In(1),
                "running": Out(1),
                "idle": Out(1),
                "cycles": Out(32),
                "look": In(stream.Signature(struct(look_layout(overlay, sizes)))),
                "value": Out(data.StructLayout({"valid": 1, "data": overlay.width})),
            }
        )

    @property
    def sidecar(self) -> dict:
        """Facts for a user of the Verilog: the machine, its memories and word formats, the
        start-up.
        """
        return {
            "overlay": self.overlay.to_dict(),
            "start_cycles": self.START_CYCLES,
            "look_cycles": self.LOOK_CYCLES,
            "memories": [
                {
                    "name": spec.name,
                    "number": MEMORIES[self.overlay.pe].index(spec.name),
                    "depth": spec.depth,
                    "loaded": spec.loaded,
                    "fields": dict(spec.layout.fields),
                }
                for spec in memories(self.overlay, self.sizes).values()
            ],
        }

    def elaborate(self, platform):
        m = Module()
        for (x, y), tile in self.tiles.items():
            classes = sorted(self.classes[y * self.overlay.cols + x])
            key = module_key(
                "tile",
                {"pe": self.overlay.pe} | ({"probed": True} if self.probes else {}),
                {"classes": "_".join(classes), "overlay": self.overlay, "sizes": self.sizes},
            )
            m.submodules[f"tile_{x}_{y}"] = place(tile, key, f"tile_{x}_{y}")
        network = {
            "rows": self.overlay.rows,
            "cols": self.overlay.cols,
            "torus": self.overlay.torus,
        }
        connect_mesh(m, self.tiles, **network)
        if self.probes:
            self._probe(m, network)
        restart = Signal()
        done = Signal(self.overlay.pes + 1)
        self._control(m, restart, done)

        bus = Signal(self.load.payload.shape())
        full = Signal()
        m.d.sync += [bus.eq(self.load.payload), full.eq(self.load.valid & self.load.ready)]
        place_of = {(x, y): y * self.overlay.cols + x for x, y in self.tiles}
        for (x, y), tile in self.tiles.items():
            m.d.comb += [
                tile.host.valid.eq(full & (bus.pe == place_of[x, y])),
                tile.host.memory.eq(bus.memory),
                tile.host.address.eq(bus.address),
                tile.host.data.eq(bus.data),
                tile.restart.eq(restart),
                tile.running.eq(self.running),
                done[place_of[x, y]].eq(tile.done),
            ]
            if hasattr(tile, "x"):
                m.d.comb += [tile.x.eq(x), tile.y.eq(y)]
        if self.overlay.pe == "hybrid":
            self._sequence(m, restart, done[-1], bus, full)
        else:
            m.d.comb += done[-1].eq(1)
        self._read(m)
        return m

    def _probe(self, m: Module, network: Mapping) -> None:
        """Probes on value memories and links; a link's number is 4 * PE + its place in LINKS."""
        for (x, y), tile in self.tiles.items():
            pe = y * self.overlay.cols + x
            m.submodules[f"write{pe}"] = self._instance(
                "penstock_write_probe",
                pe,
                valid=tile.probe.valid,
                address=tile.probe.address,
                data=tile.probe.data,
            )
        for (x, y), side, _ in links_of(self.tiles, **network):
            number = len(LINKS) * (y * self.overlay.cols + x) + LINKS.index(side)
            link = getattr(self.tiles[x, y], f"{side}_o")
            if self.overlay.pe == "static":
                probe = self._instance("penstock_wire_probe", number, value=link)
            elif self.overlay.torus:
                probe = self._instance(
                    "penstock_link_probe", number, valid=link.valid, ready=1, token=link.token
                )
            else:
                probe = self._instance(
                    "penstock_link_probe",
                    number,
                    valid=link.valid,
                    ready=link.ready,
                    token=link.payload,
                )
            m.submodules[f"link{number}"] = probe

    def _instance(self, name: str, number: int, **inputs) -> Instance:
        wires = {port: Value.cast(value) for port, value in inputs.items()}
        widths = {n: len(w) for n, w in wires.items() if n not in ("valid", "ready")}
        return Instance(
            name,
            p_ID=number,
            **{f"p_{port.upper()}": bits for port, bits in widths.items()},
            i_clk=ClockSignal(),
            i_running=self.running,
            **{f"i_{port}": wire for port, wire in wires.items()},
        )

    def _control(self, m: Module, restart: Signal, done: Signal) -> None:
        wait = Signal(range(max(SETTLE_CYCLES, self.restart_cycles)))
        count = Signal(32)
        m.d.comb += [self.load.ready.eq(self.idle), self.look.ready.eq(self.idle)]
        with m.FSM(name="run"):
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [wait.eq(SETTLE_CYCLES - 1), count.eq(0)]
                with m.If(self.start):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += wait.eq(Mux(wait == 0, self.restart_cycles - 1, wait - 1))
                with m.If(wait == 0):
                    m.next = "RESTART"
            with m.State("RESTART"):
                m.d.comb += restart.eq(1)
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.running.eq(1)
                with m.If(done.all()):
                    m.d.sync += self.cycles.eq(count)
                    m.next = "IDLE"
                with m.Else():
                    m.d.sync += count.eq(count + 1)

    def _sequence(self, m: Module, restart: Signal, done: Value, bus, full: Signal) -> None:
        """The sequencer of hybrid PEs; its words are loaded as those of PE 0."""
        m.submodules.sequencer = sequencer = Sequencer(overlay=self.overlay, sizes=self.sizes)
        number = MEMORIES["hybrid"].index("segment")
        m.d.comb += [
            sequencer.write.valid.eq(full & (bus.pe == 0) & (bus.memory == number)),
            sequencer.write.address.eq(bus.address),
            sequencer.write.data.eq(bus.data),
            sequencer.restart.eq(restart),
            sequencer.running.eq(self.running),
            sequencer.decided.eq(reduce(or_, (tile.decided for tile in self.tiles.values()))),
            done.eq(sequencer.done),
            *(tile.fetches.eq(sequencer.o) for tile in self.tiles.values()),
        ]

    def _read(self, m: Module) -> None:
        """Address register, memory, a mux within each row, a mux over the rows."""
        rows = self.overlay.rows
        cols = self.overlay.cols
        look = self.look
        address = Signal.like(look.payload.address)
        asked = Signal(self.LOOK_CYCLES - 1)
        column = [Signal(range(cols), name=f"column{k}") for k in range(2)]
        row = [Signal(range(rows), name=f"row{k}") for k in range(3)]
        m.d.sync += [
            address.eq(look.payload.address),
            asked.eq(Cat(look.valid & look.ready, asked)),
            column[0].eq(look.payload.pe % cols if cols > 1 else 0),
            column[1].eq(column[0]),
            row[0].eq(look.payload.pe // cols if rows > 1 else 0),
            row[1].eq(row[0]),
            row[2].eq(row[1]),
        ]
        values = []
        for y in range(rows):
            held = Signal(self.overlay.width, name=f"row{y}_value")
            m.d.sync += held.eq(Array(self.tiles[x, y].value for x in range(cols))[column[1]])
            values.append(held)
        for tile in self.tiles.values():
            m.d.comb += tile.look.eq(address)
        m.d.sync += [self.value.data.eq(Array(values)[row[2]]), self.value.valid.eq(asked[-1])]
