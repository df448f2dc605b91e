"""Loads, stores and the interconnect in Amaranth's simulator, with a DRAM of lines."""

import warnings

from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from ..hw.beat import Payloads
from ..hw.memory.interconnect import Interconnect, response_lanes
from ..hw.memory.load import Load
from ..hw.memory.store import Store
from ..machine.beat import Tile
from ..machine.kinds import kind_of
from .offchip_model import LINE, Dram, LoadModel, StoreModel, run


class Bench:
    """``ports``: list of ("load" | "store", Place, options of the model).

    One instance may run many times.
    """

    def __init__(self, ports, *, t, config):
        self.ports = ports
        self.t = t
        self.config = config
        self.m = m = Module()
        m.domains.sync = self.domain = ClockDomain()
        m.submodules.interconnect = self.net = Interconnect(
            ports=[kind_of(kind).offchip for kind, *_ in ports], config=config
        )
        self.units = []
        for p, (kind, place, _) in enumerate(ports):
            tile = Tile(t, "fp32" if place.element_bytes == 4 else "bf16")
            if kind == "load":
                unit = Load(
                    params={"rank": len(place.shape)},
                    t=t,
                    config=config,
                    payloads=Payloads((), (tile,)),
                )
            else:
                unit = Store(params={}, t=t, config=config, payloads=Payloads((tile,), ()))
            m.submodules[f"unit{p}"] = unit
            wiring.connect(m, unit.port, getattr(self.net, f"port{p}"))
            self.units.append(unit)

    def models(self):
        kinds = {"load": LoadModel, "store": StoreModel}
        lanes = self.config.port_lanes
        groups = {"load": {"groups": self.config.load_lines // lanes}, "store": {}}
        return [
            kinds[kind](place=place, t=self.t, lanes=lanes, **groups[kind], **options)
            for kind, place, options in self.ports
        ]

    def compare(self, *, seed, moves, delays=(1, 12), resets=0):
        """Run model and RTL; ``resets``: first run the RTL for this many cycles and reset it.

        Returns the log.
        """
        lanes = response_lanes(self.config)
        want = run(
            self.models(),
            policy=self.config.arbitration,
            dram=Dram(lanes, seed, delays=delays),
            moves=moves,
        )
        got = []
        cycles = want[-1][0] + 40  # some more: nothing may follow
        sim = Simulator(self.m)
        sim.add_clock(1e-6)

        async def bench(ctx):
            for count, log in ([(resets, [])] if resets else []) + [(cycles, got)]:
                ctx.set(self.domain.rst, 1)
                for unit, (kind, place, _) in zip(self.units, self.ports, strict=False):
                    for name, value in place.cfg(load=kind == "load").items():
                        ctx.set(getattr(unit.cfg, name), value)
                for _ in range(3):
                    await ctx.tick()
                ctx.set(self.domain.rst, 0)
                await self._run(ctx, count, log, Dram(lanes, seed, delays=delays), moves)

        sim.add_testbench(bench)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sim.run()
        for a, b in zip(want, got, strict=False):
            assert a == b, f"expected {show(a)}, got {show(b)}"
        assert len(want) == len(got), (
            f"expected {len(want)} events, got {len(got)}: {[show(x) for x in (want + got)[-3:]]}"
        )
        return want

    async def _run(self, ctx, cycles, log, dram, moves):
        net, memory = self.net, self.memory = self.net, self.image()
        beats = [
            [x for x, _ in m.beats] if isinstance(m, StoreModel) else None for m in self.models()
        ]
        done = [False] * len(self.ports)
        for cycle in range(cycles):
            reaching = []
            valid = ctx.get(net.mem_req_valid)
            if valid:
                port = ctx.get(net.mem_req_port)
                write = ctx.get(net.mem_req_write)
                group = ctx.get(net.mem_req_group)
                assert write == (self.ports[port][0] == "store")
                for lane in range(self.config.port_lanes):
                    if valid >> lane & 1:
                        address = ctx.get(net.mem_req_addr[lane])
                        assert address % LINE == 0
                        if write:
                            word = ctx.get(net.mem_req_data[lane])
                            mask = ctx.get(net.mem_req_mask[lane])
                            for byte in range(LINE):
                                if mask >> byte & 1:
                                    memory[address + byte] = word >> 8 * byte & 0xFF
                        line = int.from_bytes(memory[address : address + LINE], "little")
                        reaching.append((port, group * self.config.port_lanes + lane, line))
            delivered = dram.step(cycle, reaching)
            for n in range(dram.lanes):
                port, tag, line = delivered[n] if n < len(delivered) else (0, 0, 0)
                ctx.set(net.mem_rsp_port[n], port)
                ctx.set(net.mem_rsp_tag[n], tag)
                ctx.set(net.mem_rsp_data[n], line)
            ctx.set(net.mem_rsp_valid, (1 << len(delivered)) - 1)
            for p, unit in enumerate(self.units):
                if beats[p] is None:
                    ctx.set(unit.data.ready, moves(p, cycle))
                else:
                    ctx.set(unit.data.valid, bool(beats[p]) and moves(p, cycle))
                    ctx.set(unit.data.payload.as_value(), beats[p][0] if beats[p] else 0)
            for p, unit in enumerate(self.units):
                assert ctx.get(unit.error) == ctx.get(net.error) == 0
                busy = False
                if beats[p] is not None and not done[p] and ctx.get(unit.done):
                    done[p] = True
                    log.append((cycle, "done", p, 0))
                stream = unit.data
                if ctx.get(stream.valid) and ctx.get(stream.ready):
                    busy = True
                    log.append((cycle, "beat", p, ctx.get(stream.payload.as_value())))
                    if beats[p]:
                        beats[p].pop(0)
                request = unit.port.request
                if ctx.get(request.valid) and ctx.get(request.ready):
                    busy = True
                    first, pitch, mask = (
                        ctx.get(request.payload[x]) for x in ("address", "pitch", "mask")
                    )
                    lines = tuple(
                        first + lane * pitch
                        for lane in range(self.config.port_lanes)
                        if mask >> lane & 1
                    )
                    log.append((cycle, "grant", p, lines))
                assert ctx.get(unit.busy) == busy
                offers = ctx.get(request.valid) or (beats[p] is None and ctx.get(unit.data.valid))
                assert ctx.get(unit.blocked) == (offers and not busy)
            await ctx.tick()

    def image(self):
        """Memory before a run: the loads' tensors, 0xA5 elsewhere."""
        size = max(place.base + place.pitch * place.tensor_rows for _, place, _ in self.ports)
        memory = bytearray(b"\xa5" * size)
        for kind, place, _ in self.ports:
            if kind == "load":
                put(memory, place, [range(place.tensor_cols)] * place.tensor_rows)
        return memory

    def stored(self, written):
        """Memory as it has to be after a run; ``written[p]``: columns of each row that the store at
        port p wrote.
        """
        memory = self.image()
        for p, rows in written.items():
            put(memory, self.ports[p][1], rows)
        return memory


def put(memory, place, rows):
    for row, columns in enumerate(rows):
        for col in columns:
            at = place.base + row * place.pitch + col * place.element_bytes
            memory[at : at + place.element_bytes] = place.tensor[row][col].to_bytes(
                place.element_bytes, "little"
            )


def show(event):
    cycle, what, port, detail = event
    return (
        f"{what} {detail if isinstance(detail, tuple) else hex(detail)} at port {port} in cycle "
        f"{cycle}"
    )
