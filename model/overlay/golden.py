"""The meaning of docs/overlay.md in plain Python, values included: what the compiled model, and the
images themselves, are tested against.

Each cycle first decides everything on the state at its start, then changes the state. Slow and
literal on purpose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...machine.overlay import (
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
from ...machine.overlay_image import DynamicImage, StaticImage

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
    triggers: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # A: node, operands; the oldest first
    due: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # cycle of writing -> node, result
    chained: tuple[deque, deque] = field(
        default_factory=lambda: (deque(), deque())
    )  # by bank: node, slot, value; the oldest first
    sending: list[Token] = field(
        default_factory=list
    )  # the generator's node's tokens, the next one first
    queue: deque = field(default_factory=deque)
    bits: set = field(default_factory=set)
    source: int = 0
    fifos: list[deque] = field(default_factory=lambda: [deque() for _ in PORTS])
    pointers: list[int] = field(default_factory=lambda: [0] * len(PORTS))
    link_w: Token | None = None
    link_n: Token | None = None


def fan_out(image: DynamicImage, p: int, node: int) -> list[Token]:
    """A sender's tokens, without value, as the memories list them."""
    at = image.first_base[p] + node
    out = [
        Token(
            int(image.first_pe[at]),
            int(image.first_node[at]),
            int(image.first_slot[at]),
            int(image.first_node2[at]),
            int(image.first_slot2[at]),
        )
    ]
    last = image.first_last[at]
    k = image.rest_base[p] + image.first_rest[at]
    while not last:
        out.append(
            Token(
                int(image.rest_pe[k]),
                int(image.rest_node[k]),
                int(image.rest_slot[k]),
                int(image.rest_node2[k]),
                int(image.rest_slot2[k]),
            )
        )
        last = image.rest_last[k]
        k = k + 1
    return out


def dynamic(
    image: DynamicImage, latency: np.ndarray, apply: Apply, limit: int = 10**7
) -> tuple[int, np.ndarray, np.ndarray]:
    """Cycles, the cycle in which each local address is written (-1: never), and all values; raises
    TimeoutError at ``limit`` cycles.
    """
    o = image.overlay
    cols = o.cols
    critical = o.ready == "criticality"
    hoplite = o.network == "hoplite"
    base = image.base
    pes = [Pe([int(v) for v in image.value[base[p] : base[p + 1]]]) for p in range(o.pes)]
    if critical:
        for p, pe in enumerate(pes):
            pe.bits = set(
                np.flatnonzero(image.seed[image.first_base[p] : image.first_base[p + 1]]).tolist()
            )
    written = np.full(base[-1], -1, np.int64)
    left = int(image.fires.sum())
    c = 0
    cycles = 0

    def bank(node: int) -> int:
        return node % o.wake

    def consumers(t: Token) -> list[tuple[int, int]]:
        return [(t.node, t.slot)] + ([(t.node2, t.slot2)] if t.node2 >= 0 else [])

    def route(t: Token, p: int) -> int:
        dx = t.pe % cols - p % cols
        dy = t.pe // cols - p // cols
        return PORTS.index(
            "E" if dx > 0 else "W" if dx < 0 else "S" if dy > 0 else "N" if dy < 0 else "P"
        )

    neighbour = {
        1: lambda p: (p - 1, 2),
        2: lambda p: (p + 1, 1),
        3: lambda p: (p - cols, 4),
        4: lambda p: (p + cols, 3),
    }
    while left:
        if c >= limit:
            raise TimeoutError(f"not done after {limit} cycles")
        later: list[Callable[[], None]] = []
        for p, pe in enumerate(pes):
            # A
            stall = o.wake == 2 and len(pe.triggers) > WAITING - 2
            if pe.triggers:
                node, u, v = pe.triggers[0]
                when = c + int(latency[base[p] + node]) - 1
                if when not in pe.due:
                    pe.due[when] = node, apply(int(image.op[base[p] + node]), u, v)
                    pe.triggers.pop(0)
                elif o.wake == 1:
                    stall = True
            # an operation's value is there, and may be selected, in the cycle of its writing
            if c in pe.due:
                node, result = pe.due.pop(c)
                pe.value[node] = result
                written[base[p] + node] = c
                left -= 1
                cycles = c + 1
                if node < image.senders[p]:
                    pe.bits.add(node) if critical else pe.queue.append(node)
            full = [len(chain) >= CHAINED[o.wake] for chain in pe.chained]
            can_consume = not stall and not any(full)
            offered = pe.sending[0] if pe.sending else None
            remote = offered is not None and offered.pe != p
            leaves = False
            token = None
            # network
            if hoplite:
                w = pe.link_w
                n = pe.link_n
                y = e = None
                here = p % cols
                if n:
                    y = n
                elif w and w.pe % cols == here:
                    y = w
                    w = None
                elif remote and offered.pe % cols == here:
                    y = offered
                    leaves = True
                if w:
                    e = w
                elif remote and offered.pe % cols != here:
                    e = offered
                    leaves = True
                if y and y.pe == p and can_consume:
                    token = y
                    y = None
                south = pes[(p + cols) % o.pes]
                east = pes[p - here + (here + 1) % cols]
                later.append(lambda s=south, y=y: setattr(s, "link_n", y))
                later.append(lambda s=east, e=e: setattr(s, "link_w", e))
            else:
                heads = [route(f[0], p) if f else None for f in pe.fifos]
                for out in range(len(PORTS)):
                    asking = [(pe.pointers[out] + k) % 5 for k in range(5)]
                    asking = [i for i in asking if heads[i] == out]
                    if not asking:
                        continue
                    if out == 0:
                        if not can_consume:
                            continue
                        token = pe.fifos[asking[0]][0]
                    else:
                        q, port = neighbour[out](p)
                        if len(pes[q].fifos[port]) >= o.fifo_depth:
                            continue
                        later.append(
                            lambda f=pes[q].fifos[port], t=pe.fifos[asking[0]][0]: f.append(t)
                        )
                    later.append(pe.fifos[asking[0]].popleft)
                    pe.pointers[out] = (asking[0] + 1) % 5
                if remote and len(pe.fifos[0]) < o.fifo_depth:
                    later.append(lambda f=pe.fifos[0], t=offered: f.append(t))
                    leaves = True
            # S
            if (
                not stall
                and token is None
                and offered
                and not remote
                and not any(full[bank(node)] for node, _ in consumers(offered))
            ):
                token = offered
                leaves = True
            serve = (
                [(bank(node), node, slot, token.value) for node, slot in consumers(token)]
                if token
                else []
            )
            if not stall:
                serve += [
                    (k, *pe.chained[k].popleft())
                    for k in range(o.wake)
                    if pe.chained[k] and k not in {s[0] for s in serve}
                ]
            if len(serve) == 2 and not (token and token.node2 >= 0):
                serve.sort(key=lambda s: s[0])
            for k, node, slot, value in serve:
                if slot == ONLY:
                    pe.triggers.append((node, value, 0))
                elif node in pe.token:
                    other = pe.token.pop(node)
                    pe.triggers.append(
                        (node, value, other) if slot == LEFT else (node, other, value)
                    )
                else:
                    pe.token[node] = value
                at = 2 * (base[p] + node) + (slot == RIGHT)
                if len(image.chain_valid) and image.chain_valid[at]:
                    pe.chained[k].append(
                        (int(image.chain_node[at]), int(image.chain_slot[at]), value)
                    )
            # G and R
            if leaves:
                pe.sending.pop(0)
            if not pe.sending:
                node = None
                if critical:
                    node = min(pe.bits, default=None)
                    pe.bits.discard(node)
                elif pe.source < image.sources[p]:
                    node = pe.source
                    pe.source = pe.source + 1
                elif pe.queue:
                    node = pe.queue.popleft()
                if node is not None:
                    pe.sending = fan_out(image, p, node)
                    for t in pe.sending:
                        t.value = pe.value[node]
        for change in later:
            change()
        c += 1
    return cycles, written, np.array([v for pe in pes for v in pe.value], np.uint64)


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
                "P": values[p][word["send"]],
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
