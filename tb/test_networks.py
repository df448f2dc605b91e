"""Routers, switches and the sequencer alone, under stalls: each output in its cycle, as the
contract has it (docs/overlay.md sections 4, 5, 7 and 7.1; the kind ``hop``).
"""

from collections import deque

import numpy as np
import cocotb
import pytest
from penstock.overlay.core.config import (
    DECISION,
    DECISIONS,
    PORTS,
    SWITCH,
    SWITCH_CODES,
    Layout,
    Overlay,
    Sizes,
    memories,
)
from penstock.tb.tops import ComponentTop, simulate, small
from penstock.testing.agents import Bench
from penstock.testing.patterns import PAIRS, releases

TOKEN = Layout((("x", 2), ("y", 2), ("number", 12)))
HERE = (1, 2)
SIDE = 4
BEATS = 60
CYCLES = 1200
CONTEXTS = 16
REACH = ((0, 1, 2), (0, 2), (2, 1, 0))
OUTCOMES = 1 << DECISIONS
HYBRID = {
    "overlay": Overlay(rows=2, cols=2, pe="hybrid"),
    "sizes": Sizes(1, 1, 1, 1, contexts=64, segments=8 * OUTCOMES),
}


def components():
    from amaranth.hdl import unsigned
    from penstock.hw.beat import Payloads
    from penstock.hw.noc.hoplite_router import HopliteRouter
    from penstock.hw.noc.switch import Switch
    from penstock.hw.noc.tm_switch import TimeMultiplexedSwitch
    from penstock.hw.noc.token import struct
    from penstock.hw.noc.xy_router import XYRouter
    from penstock.hw.units.hop import Hop
    from penstock.hw.units.token.sequencer import Sequencer
    from penstock.machine.beat import Scalar
    from penstock.machine.kinds import copies

    token = struct(TOKEN)
    payloads = Payloads((Scalar(11),), (Scalar(11),) * 3)
    return {
        "xy2": XYRouter(token=token, fifo_depth=2),
        "xy3": XYRouter(token=token, fifo_depth=3),
        "hoplite": HopliteRouter(token=token),
        "multiplexed": TimeMultiplexedSwitch(width=8, contexts=CONTEXTS),
        "sequencer": Sequencer(**HYBRID),
        "switch": Switch(shape=unsigned(16), inputs=3, reach=REACH),
        "hop": Hop(kind=copies.Hop(n=3), t=2, config=small().machine, payloads=payloads),
    }


TOP = ComponentTop("networks", components)


class Source:
    """Beats of an input, each from its release cycle on."""

    def __init__(self, beats, pattern, seed):
        self.beats = deque(zip(releases(len(beats), pattern, seed).tolist(), beats, strict=True))

    def head(self, cycle):
        """The beat that is offered in a cycle, or None."""
        return self.beats[0][1] if self.beats and self.beats[0][0] <= cycle else None


class Sink:
    """Readiness of an output: for each beat from its release cycle on."""

    def __init__(self, pattern, seed):
        self.free = deque(releases(10 * BEATS, pattern, seed).tolist())

    def ready(self, cycle):
        return self.free[0] <= cycle


class Network:
    """Drivers of a component's streams, and its outputs by the contract."""

    def __init__(self, ins, outs, stalls):
        source, sink = stalls
        self.sources = {p: Source(beats, source, k) for k, (p, beats) in enumerate(ins.items())}
        self.sinks = {p: Sink(sink, k) for k, p in enumerate(outs)}

    def drive(self, cycle):
        """Inputs of a cycle."""
        for port, source in self.sources.items():
            beat = source.head(cycle)
            yield f"{port}_valid", int(beat is not None)
            yield f"{port}_payload", beat or 0
        for port, sink in self.sinks.items():
            yield f"{port}_ready", int(sink.ready(cycle))

    def taken(self, port):
        """A beat of an input is accepted."""
        return self.sources[port].beats.popleft()[1]

    def offer(self, port, beat, cycle):
        """Outputs of a stream; whether its beat is taken."""
        seen = {f"{port}_valid": int(beat is not None)}
        if beat is None:
            return seen, False
        moves = self.sinks[port].ready(cycle)
        if moves:
            self.sinks[port].free.popleft()
        return seen | {f"{port}_payload": beat}, moves

    def left(self):
        """Beats that have not left."""
        return sum(len(source.beats) for source in self.sources.values())


def place(token):
    return token % SIDE, token // SIDE % SIDE


def tokens(rng, port):
    """Tokens that may come in at a port of the router at `HERE`."""
    x, y = HERE
    ranges = {"W": (range(x, SIDE), range(SIDE)), "E": (range(x + 1), range(SIDE))}
    ranges |= {"N": ([x], range(y, SIDE)), "S": ([x], range(y + 1))}
    xs, ys = ranges.get(port, (range(SIDE), range(SIDE)))
    to = [(a, b) for a in xs for b in ys if port != "P" or (a, b) != HERE]
    picked = [to[k] for k in rng.integers(0, len(to), BEATS)]
    fields = {"x": [a for a, _ in picked], "y": [b for _, b in picked]}
    return TOKEN.pack(fields | {"number": rng.integers(0, 1 << 12, BEATS).tolist()})


class XY(Network):
    """A FIFO an input, along x first, round robin at each output."""

    def __init__(self, rng, stalls, depth):
        ins = {f"{port.lower()}_i": tokens(rng, port) for port in PORTS}
        super().__init__(ins, [f"{port.lower()}_o" for port in PORTS], stalls)
        self.depth = depth
        self.fifos = {port: deque() for port in PORTS}
        self.first = dict.fromkeys(PORTS, 0)

    def drive(self, cycle):
        yield from {"x": HERE[0], "y": HERE[1], "clear": 0}.items()
        yield from super().drive(cycle)

    @staticmethod
    def route(token):
        (x, y), (to_x, to_y) = HERE, place(token)
        if to_x != x:
            return "E" if to_x > x else "W"
        return "P" if to_y == y else "S" if to_y > y else "N"

    def step(self, cycle):
        out = {}
        room = {port: len(fifo) < self.depth for port, fifo in self.fifos.items()}
        heads = {port: fifo[0] for port, fifo in self.fifos.items() if fifo}
        for name in PORTS:
            turn = PORTS[self.first[name] :] + PORTS[: self.first[name]]
            asks = [p for p in turn if p in heads and self.route(heads[p]) == name]
            seen, moves = self.offer(f"{name.lower()}_o", heads[asks[0]] if asks else None, cycle)
            out |= seen
            if moves:
                self.fifos[asks[0]].popleft()
                self.first[name] = (PORTS.index(asks[0]) + 1) % len(PORTS)
        for port, fits in room.items():
            side = f"{port.lower()}_i"
            out[f"{side}_ready"] = int(fits)
            if fits and self.sources[side].head(cycle) is not None:
                self.fifos[port].append(self.taken(side))
        return out

    def left(self):
        return super().left() + sum(map(len, self.fifos.values()))


class Hoplite(Network):
    """Links without back-pressure; a token of the PE waits for a free output."""

    def __init__(self, rng, stalls):
        super().__init__({"p_i": tokens(rng, "P")}, ["p_o"], stalls)
        self.links = {
            "w_i": Source(tokens(rng, ""), stalls[0], 8),
            "n_i": Source(tokens(rng, "N") + tokens(rng, "S"), stalls[0], 9),
        }
        self.next = {"e_o": None, "s_o": None}

    def drive(self, cycle):
        yield from {"x": HERE[0], "y": HERE[1]}.items()
        yield from super().drive(cycle)
        for port, source in self.links.items():
            token = source.head(cycle)
            yield port, 0 if token is None else token << 1 | 1

    def step(self, cycle):
        out = {p: None if t is None else t << 1 | 1 for p, t in self.next.items()}
        along, down = (source.head(cycle) for source in self.links.values())
        for source in self.links.values():
            if source.head(cycle) is not None:
                source.beats.popleft()
        own = self.sources["p_i"].head(cycle)
        if down is None and along is not None and place(along)[0] == HERE[0]:
            along, down = None, along
        here = down if down is not None and place(down) == HERE else None
        seen, moves = self.offer("p_o", here, cycle)
        turns = own is not None and place(own)[0] == HERE[0]
        leaves = own is not None and (down if turns else along) is None
        if moves:
            down = None
        if leaves:
            self.taken("p_i")
            along, down = (along, own) if turns else (own, down)
        self.next = {"e_o": along, "s_o": down}
        if own is not None:
            out["p_i_ready"] = int(leaves)
        return out | seen


class Copies(Network):
    """Streams without a register: a beat moves when all outputs that it feeds are ready."""

    def __init__(self, rng, stalls, ins, outs, fed, constants):
        beats = {port: (rng.integers(0, 1 << 15, BEATS) | 1 << 15).tolist() for port in ins}
        super().__init__(beats, outs, stalls)
        self.fed = dict(zip(outs, fed, strict=True))
        self.constants = constants

    def drive(self, cycle):
        yield from self.constants.items()
        yield from super().drive(cycle)

    def step(self, cycle):
        out = {}
        for port, source in self.sources.items():
            mine = [to for to, by in self.fed.items() if by == port]
            moves = bool(mine) and all(self.sinks[to].ready(cycle) for to in mine)
            out[f"{port}_ready"] = int(moves)
            beat = source.head(cycle) if moves else None
            for to in mine:
                out |= self.offer(to, beat, cycle)[0]
            if beat is not None:
                self.taken(port)
        return out | {f"{to}_valid": 0 for to, by in self.fed.items() if by is None}

    def left(self):
        return sum(len(self.sources[port].beats) for port in set(self.fed.values()) if port)


class Multiplexed:
    """Contexts are loaded; then each holds two cycles after it was fetched."""

    def __init__(self, rng, stalls):
        self.rng = rng
        self.codes = {name: rng.integers(0, len(c), CONTEXTS) for name, c in SWITCH_CODES.items()}
        self.words = SWITCH.pack(self.codes)
        self.fetched = deque(maxlen=2)
        self.given = {}
        self.registers = {}

    def drive(self, cycle):
        loads = cycle < CONTEXTS
        word = self.words[cycle] if loads else 0
        yield "write", loads | cycle % CONTEXTS << 1 | word << 1 + (CONTEXTS - 1).bit_length()
        self.fetch = 0 if loads else int(self.rng.integers(CONTEXTS))
        yield "fetch", self.fetch
        self.given = {port: int(self.rng.integers(256)) for port in PORTS}
        yield from ((f"{port.lower()}_i", value) for port, value in self.given.items())

    def step(self, cycle):
        seen = dict(self.registers)
        if cycle >= CONTEXTS + 2:
            now = self.fetched[0]
            for name, codes in SWITCH_CODES.items():
                (port,) = (p for p, code in codes.items() if code == self.codes[name][now])
                self.registers[f"{name}_o"] = self.given[port]
            seen["p_o"] = self.registers.pop("p_o")
        self.fetched.append(self.fetch)
        return seen

    def left(self):
        return 0


class Segments:
    """Runs, each of other segments; conditions are sent in any cycle that has a context."""

    SPEC = memories(**HYBRID)["segment"]
    RESTART = 5

    def __init__(self, rng, stalls):
        self.rng = rng
        self.draw(0)

    def draw(self, cycle):
        """Words that are loaded from a cycle on, and the contexts of the run that follows."""
        depth = self.SPEC.depth
        length = self.rng.integers(1, 2 * DECISION, depth)
        length[-OUTCOMES:] = 0
        first = self.rng.integers(0, 64 - 2 * DECISION, depth)
        following = np.arange(depth) // OUTCOMES * OUTCOMES + OUTCOMES
        following = following % depth | self.rng.integers(0, OUTCOMES, depth) % 3
        self.words = self.SPEC.layout.pack({"first": first, "length": length, "next": following})
        self.begin = cycle + depth + self.RESTART
        self.sent = self.rng.integers(0, OUTCOMES, length.sum())
        self.sent[self.rng.random(len(self.sent)) < 0.7] = 0
        self.contexts = []
        segment = 0
        counted = 0
        while length[segment]:
            self.contexts += range(first[segment], first[segment] + length[segment])
            in_time = max(counted, len(self.contexts) - DECISION + 1)
            conditions = np.bitwise_or.reduce(self.sent[counted:in_time])
            segment = following[segment] | conditions
            counted = in_time

    def drive(self, cycle):
        end = len(self.contexts)
        if cycle > self.begin + end + DECISION:
            self.draw(cycle)
        at = cycle - self.begin
        load = at + self.RESTART + len(self.words)
        loads = 0 <= load < len(self.words)
        shift = 1 + (len(self.words) - 1).bit_length()
        yield "write", 1 | load << 1 | self.words[load] << shift if loads else 0
        yield "restart", int(-self.RESTART <= at < 0)
        yield "running", int(0 <= at <= end)
        yield "decided", int(self.sent[at - 1]) if 0 < at <= end else 0

    def step(self, cycle):
        at = cycle - self.begin
        end = len(self.contexts)
        now, soon, later = (
            self.contexts[k] if 0 <= k < end else None for k in (at, at + 2, at + 4)
        )
        width = dict(self.SPEC.layout.fields)["first"]
        seen = {
            ("o", 0, width): later,
            ("o", width, width): soon,
            ("o", 2 * width, 1): int(soon is not None),
            ("o", 2 * width + 1, 1): int(now is not None),
            "done": int(at >= end) if at >= 0 else None,
        }
        return {output: value for output, value in seen.items() if value is not None}

    def left(self):
        return 0


def switch(rng, stalls):
    """The array's switch, set at random."""
    chosen = [int(rng.integers(0, len(inputs) + 1)) for inputs in REACH]
    fed = [f"i{REACH[k][c - 1]}" if c else None for k, c in enumerate(chosen)]
    outs = [f"o{k}" for k in range(len(REACH))]
    cfg = chosen[0] | chosen[1] << 2 | chosen[2] << 4
    return Copies(rng, stalls, ["i0", "i1", "i2"], outs, fed, {"cfg": cfg})


def hop(rng, stalls):
    outs = [f"copies_{k}" for k in range(3)]
    return Copies(rng, stalls, ["data"], outs, ["data"] * 3, {})


NETWORKS = {
    "xy2": lambda rng, stalls: XY(rng, stalls, 2),
    "xy3": lambda rng, stalls: XY(rng, stalls, 3),
    "hoplite": Hoplite,
    "multiplexed": Multiplexed,
    "sequencer": Segments,
    "switch": switch,
    "hop": hop,
}


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP, {})


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(name=list(NETWORKS), stalls=PAIRS)
async def test_outputs_equal_the_contracts(dut, name, stalls):
    rng = np.random.default_rng([cocotb.RANDOM_SEED % 2**32, *map(len, stalls)])
    model = NETWORKS[name](rng, stalls)
    bench = Bench(dut)
    for port, _ in model.drive(-1):
        getattr(dut, f"{name}_{port}").value = 0
    await bench.reset()
    for cycle in range(CYCLES):
        for port, value in model.drive(cycle):
            getattr(dut, f"{name}_{port}").value = value
        await bench.edge
        for output, expected in model.step(cycle).items():
            port, *field = output if isinstance(output, tuple) else (output,)
            value = getattr(dut, f"{name}_{port}").value
            if field:
                value = value[sum(field) - 1 : field[0]]
            place = f"{name} {output}, cycle {cycle}"
            if expected is None:  # a link without a token
                value, expected = value[0], 0
            assert value.is_resolvable, f"{place}: {value}"
            assert int(value) == expected, f"{place}: model {expected:#x}, RTL {int(value):#x}"
        if not model.left() and cycle > 300:
            return
    raise AssertionError(f"{model.left()} beats have not left {name} by cycle {CYCLES}")
