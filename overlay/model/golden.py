"""The meaning of docs/overlay.md in plain Python, values included: what the compiled model, and the
images themselves, are tested against.

Each cycle first decides everything on the state at its start, then changes the state. Slow and
literal on purpose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..core.config import (
    CHAINED,
    LEFT,
    ONLY,
    PORTS,
    RIGHT,
    SWITCH_CODES,
    WAITING,
    WRITE_ALU,
    WRITE_NET,
)
from ..core.image import DynamicImage, StaticImage

Apply = Callable[[int, int, int], int]
"""(operation code, first operand's bits, second operand's bits) -> the result's bits."""


@dataclass
class Token:
    pe: int
    node: int
    slot: int
    node2: int = -1
    slot2: int = 0
    value: int = 0


@dataclass
class Pe:
    """State of one dynamic PE."""

    value: list[int]
    token: dict[int, int] = field(default_factory=dict)  # present: the key exists
    # A: node, operands; the oldest first
    triggers: list[tuple[int, int, int]] = field(default_factory=list)
    # cycle of writing -> node, result
    due: dict[int, tuple[int, int]] = field(default_factory=dict)
    # by bank: node, slot, value; the oldest first
    chained: tuple[deque, deque] = field(default_factory=lambda: (deque(), deque()))
    # the generator's node's tokens, the next one first
    sending: list[Token] = field(default_factory=list)
    queue: deque = field(default_factory=deque)
    bits: set = field(default_factory=set)
    # local = forward: the near set, and the node whose consumers stand before S
    near: set = field(default_factory=set)
    waits: int | None = None
    source: int = 0
    fifos: list[deque] = field(default_factory=lambda: [deque() for _ in PORTS])
    pointers: list[int] = field(default_factory=lambda: [0] * len(PORTS))
    link_w: Token | None = None
    link_n: Token | None = None


def fan_out(image: DynamicImage, p: int, node: int) -> list[Token]:
    """A sender's tokens, without value, as the memories list them."""

    def token(memory: str, at: int) -> Token:
        fields = ("pe", "node", "slot", "node2", "slot2")
        return Token(*(int(getattr(image, f"{memory}_{name}")[at]) for name in fields))

    at = image.first_base[p] + node
    out = [token("first", at)]
    last = image.first_last[at]
    k = image.rest_base[p] + image.first_rest[at]
    while not last:
        out.append(token("rest", k))
        last = image.rest_last[k]
        k = k + 1
    return out


def consumers(t: Token) -> list[tuple[int, int]]:
    """Node and slot of each consumer of a token."""
    return [(t.node, t.slot)] + ([(t.node2, t.slot2)] if t.node2 >= 0 else [])


class Dynamic:
    """Dynamic PEs that run an image; a cycle is :meth:`step` of each, then all of ``later``."""

    def __init__(self, image: DynamicImage, latency: np.ndarray, apply: Apply):
        self.image = image
        self.overlay = image.overlay
        self.latency = latency
        self.apply = apply
        base = image.base
        self.pes = [
            Pe([int(v) for v in image.value[base[p] : base[p + 1]]])
            for p in range(image.overlay.pes)
        ]
        for p, pe in enumerate(self.pes if self.overlay.forwards else ()):
            seed = image.seed[image.first_base[p] : image.first_base[p + 1]]
            pe.bits = set(np.flatnonzero(seed).tolist())
            near = image.near_seed[image.near_base[p] : image.near_base[p + 1]]
            pe.near = set(np.flatnonzero(near).tolist())
        self.written = np.full(base[-1], -1, np.int64)
        self.left = int(image.fires.sum())
        self.cycles = 0
        self.later: list[Callable[[], None]] = []

    def run(self, limit: int) -> None:
        """Run to the end, or raise TimeoutError."""
        c = 0
        while self.left:
            if c >= limit:
                raise TimeoutError(f"not done after {limit} cycles")
            for p, pe in enumerate(self.pes):
                self.step(p, pe, c)
            for change in self.later:
                change()
            self.later.clear()
            c += 1

    def step(self, p: int, pe: Pe, c: int) -> None:
        """One PE and its router."""
        stall = self.begin(p, pe, c)
        written = self.write(p, pe, c)
        full = [len(chain) >= CHAINED for chain in pe.chained]

        def has_room(t: Token) -> bool:
            return not stall and not any(full[bank] for bank in self.banks(t))

        # what is forwarded comes first; where S cannot take it now, it waits in the near set
        result = None if written is None else self.near_word(p, pe, written)
        late = written if result and not has_room(result) else None
        first = None if late is not None else result
        taken = self.banks(first) if first else set()

        def eats(t: Token) -> bool:
            return not stall and not any(full) and not taken & self.banks(t)

        offered = pe.sending[0] if pe.sending else None
        remote = offered if offered and offered.pe != p else None
        router = self.torus if self.overlay.network == "hoplite" else self.mesh
        token, leaves = router(p, pe, remote, eats)
        waiting = None if pe.waits is None else self.near_word(p, pe, pe.waits)
        if token is None and waiting and has_room(waiting) and not taken & self.banks(waiting):
            token = waiting
            pe.waits = None
        if token is None and offered and not remote and has_room(offered):
            token = offered
            leaves = True
        self.serve(p, pe, [t for t in (first, token) if t], stall)
        if leaves:
            pe.sending.pop(0)
        if not pe.sending:
            self.select(p, pe)
        if pe.waits is None and pe.near:
            pe.waits = min(pe.near)
            pe.near.remove(pe.waits)
        if late is not None:
            pe.near.add(late)

    def bank(self, node: int) -> int:
        return node % self.overlay.banks

    def banks(self, t: Token) -> set[int]:
        """The banks that a token needs."""
        return {self.bank(node) for node, _ in consumers(t)}

    def near_word(self, p: int, pe: Pe, node: int) -> Token | None:
        """A node's consumers at its own PE, as a token."""
        image = self.image
        if node >= image.nears[p]:
            return None
        at = image.near_base[p] + node
        fields = ("node", "slot", "node2", "slot2")
        found = Token(p, *(int(getattr(image, f"near_{name}")[at]) for name in fields))
        found.value = pe.value[node]
        return None if found.node < 0 else found

    # ---- A

    def begin(self, p: int, pe: Pe, c: int) -> bool:
        """The oldest trigger; whether S has to wait."""
        stall = self.overlay.forwards and len(pe.triggers) > WAITING - 2
        if pe.triggers:
            node, a, b = pe.triggers[0]
            at = self.image.base[p] + node
            when = c + int(self.latency[at]) - 1
            if when not in pe.due:
                pe.due[when] = node, self.apply(int(self.image.op[at]), a, b)
                pe.triggers.pop(0)
            elif not self.overlay.forwards:
                stall = True
        return stall

    def write(self, p: int, pe: Pe, c: int) -> int | None:
        """An operation's value is there, and may be selected, in the cycle of its writing; returns
        its node.
        """
        if c not in pe.due:
            return None
        node, result = pe.due.pop(c)
        pe.value[node] = result
        self.written[self.image.base[p] + node] = c
        self.left -= 1
        self.cycles = c + 1
        if node < self.image.senders[p]:
            pe.bits.add(node) if self.overlay.forwards else pe.queue.append(node)
        return node

    # ---- network

    def torus(self, p: int, pe: Pe, remote: Token | None, eats: Callable[[Token], bool]):
        """The token that is taken, and whether the offered one leaves."""
        cols = self.overlay.cols
        here = p % cols
        leaves = False
        down = pe.link_n
        along = pe.link_w
        turns = remote is not None and remote.pe % cols == here
        if not down:
            if along and along.pe % cols == here:
                down = along
                along = None
            elif turns:
                down = remote
                leaves = True
        if not along and remote and not turns:
            along = remote
            leaves = True
        token = None
        if down and down.pe == p and eats(down):
            token = down
            down = None
        south = self.pes[(p + cols) % self.overlay.pes]
        east = self.pes[p - here + (here + 1) % cols]
        self.later.append(lambda: setattr(south, "link_n", down))
        self.later.append(lambda: setattr(east, "link_w", along))
        return token, leaves

    def route(self, t: Token, p: int) -> int:
        """First along the row, then along the column."""
        cols = self.overlay.cols
        dx = t.pe % cols - p % cols
        dy = t.pe // cols - p // cols
        if dx:
            return PORTS.index("E" if dx > 0 else "W")
        if dy:
            return PORTS.index("S" if dy > 0 else "N")
        return PORTS.index("P")

    def neighbour(self, p: int, out: int) -> deque:
        """The FIFO that an output feeds."""
        cols = self.overlay.cols
        step, port = {"W": (-1, "E"), "E": (1, "W"), "N": (-cols, "S"), "S": (cols, "N")}[
            PORTS[out]
        ]
        return self.pes[p + step].fifos[PORTS.index(port)]

    def mesh(self, p: int, pe: Pe, remote: Token | None, eats: Callable[[Token], bool]):
        """The token that is taken, and whether the offered one leaves."""
        depth = self.overlay.fifo_depth
        token = None
        heads = [self.route(f[0], p) if f else None for f in pe.fifos]
        for out in range(len(PORTS)):
            asking = [(pe.pointers[out] + k) % len(PORTS) for k in range(len(PORTS))]
            chosen = next((i for i in asking if heads[i] == out), None)
            if chosen is None:
                continue
            first = pe.fifos[chosen][0]
            if PORTS[out] == "P":
                if not eats(first):
                    continue
                token = first
            else:
                to = self.neighbour(p, out)
                if len(to) >= depth:
                    continue
                self.later.append(partial(to.append, first))
            self.later.append(pe.fifos[chosen].popleft)
            pe.pointers[out] = (chosen + 1) % len(PORTS)
        if not remote or len(pe.fifos[0]) >= depth:
            return token, False
        self.later.append(partial(pe.fifos[0].append, remote))
        return token, True

    # ---- S

    def serve(self, p: int, pe: Pe, tokens: list[Token], stall: bool) -> None:
        """Tokens, and in banks that they leave free a chained consumer."""
        served = [
            (self.bank(node), node, slot, token.value)
            for token in tokens
            for node, slot in consumers(token)
        ]
        if not stall:
            taken = {bank for bank, *_ in served}
            served += [
                (bank, *pe.chained[bank].popleft())
                for bank in range(self.overlay.banks)
                if pe.chained[bank] and bank not in taken
            ]
        if len(served) == 2 and not any(token.node2 >= 0 for token in tokens):
            served.sort(key=lambda s: s[0])
        for one in served:
            self.consume(p, pe, *one)

    def consume(self, p: int, pe: Pe, bank: int, node: int, slot: int, value: int) -> None:
        """An operand is there: the second one, or the only one, is a trigger."""
        image = self.image
        if slot == ONLY:
            pe.triggers.append((node, value, 0))
        elif node in pe.token:
            other = pe.token.pop(node)
            pe.triggers.append((node, value, other) if slot == LEFT else (node, other, value))
        else:
            pe.token[node] = value
        at = 2 * (image.base[p] + node) + (slot == RIGHT)
        if len(image.chain_valid) and image.chain_valid[at]:
            following = int(image.chain_node[at]), int(image.chain_slot[at]), value
            pe.chained[bank].append(following)

    # ---- G and R

    def select(self, p: int, pe: Pe) -> None:
        """The next node to send."""
        if self.overlay.forwards:
            if not pe.bits:
                return
            node = min(pe.bits)
            pe.bits.remove(node)
        elif pe.source < self.image.sources[p]:
            node = pe.source
            pe.source += 1
        elif pe.queue:
            node = pe.queue.popleft()
        else:
            return
        pe.sending = fan_out(self.image, p, node)
        for t in pe.sending:
            t.value = pe.value[node]


def dynamic(
    image: DynamicImage, latency: np.ndarray, apply: Apply, limit: int = 10**7
) -> tuple[int, np.ndarray, np.ndarray]:
    """Cycles, the cycle in which each local address is written (-1: never), and all values; raises
    TimeoutError at ``limit`` cycles.
    """
    machine = Dynamic(image, latency, apply)
    machine.run(limit)
    values = [v for pe in machine.pes for v in pe.value]
    return machine.cycles, machine.written, np.array(values, np.uint64)


def static(
    image: StaticImage, latency_of: Callable[[int], int], apply: Apply
) -> tuple[int, np.ndarray]:
    """Cycles and all values of a static image, context by context; raises ValueError where two
    results are due, or one without its write.
    """
    o = image.overlay
    rows = o.rows
    cols = o.cols
    values = [
        [int(v) for v in image.value[image.base[p] : image.base[p + 1]]] for p in range(o.pes)
    ]
    pick = {
        out: {code: port for port, code in codes.items()} for out, codes in SWITCH_CODES.items()
    }
    links = [dict.fromkeys("wens", 0) for _ in range(o.pes)]
    due: list[dict[int, int]] = [{} for _ in range(o.pes)]
    for c in range(image.length):
        new = []
        writes = []
        for p in range(o.pes):
            x = p % cols
            y = p // cols
            word = {n: int(a[p, c]) for n, a in image.context.items()}
            inputs = {
                # a PE without values sends what nobody takes
                "P": values[p][word["send"]] if values[p] else 0,
                "W": links[p - 1]["e"] if x else 0,
                "E": links[p + 1]["w"] if x < cols - 1 else 0,
                "N": links[p - cols]["s"] if y else 0,
                "S": links[p + cols]["n"] if y < rows - 1 else 0,
            }
            out = {o: inputs[pick[o][int(image.switch[o][p, c])]] for o in "wensp"}
            new.append({k: out[k] for k in "wens"})
            if latency_of(word["op"]):
                when = c + latency_of(word["op"]) - 1
                if when in due[p]:
                    raise ValueError(f"PE {p}: two results are due in cycle {when}")
                due[p][when] = apply(word["op"], values[p][word["a"]], values[p][word["b"]])
            if (c in due[p]) != (word["write"] == WRITE_ALU):
                raise ValueError(f"PE {p}: result and write do not meet in cycle {c}")
            if word["write"] == WRITE_ALU:
                writes.append((p, word["address"], due[p].pop(c)))
            elif word["write"] == WRITE_NET:
                writes.append((p, word["address"], out["p"]))
        links = new
        for p, address, v in writes:
            values[p][address] = v
    if any(due):
        raise ValueError("a result is due after the last cycle")
    return image.length, np.array([v for pe in values for v in pe], np.uint64)
