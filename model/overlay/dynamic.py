"""Dynamic PEs and their networks, compiled: one pass over the PEs a
cycle (docs/overlay.md sections 3 to 5; plain meaning: :mod:`.golden`).

Within a pass a PE changes only its own state; what crosses to another
router is collected and applied after the pass, so every decision is
judged on the state at the start of the cycle. Values do not matter to
the timing and are not carried here.

A consumer is a word: from bit 0 slot (2), node (24). A token is one:
its consumer, a second one, whether there is a second (1), PE.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...machine.overlay import CHAINED, LINKS, ONLY, RIGHT, WAITING
from ...machine.overlay_image import DynamicImage
from ..compiling import jit
from ..records import Words, at_address, fast, record, stamped, table, trailing_zeros

RING = 64
"""Cycles ahead for which a PE's writes are kept; above every latency."""

P, W, E, N, S = range(5)
PORTS = 5
SIDES = len(LINKS)

CONSUMER_BITS = 26
CONSUMER = (1 << CONSUMER_BITS) - 1
PAIR = 1 << 2 * CONSUMER_BITS
"""The bit of a token that has a second consumer."""
PE_BIT = 2 * CONSUMER_BITS + 1


@record
class Net:
    """What the PEs share; it lies at word 0."""

    rows: int
    cols: int
    hoplite: int
    critical: int
    fifo_depth: int
    wake: int
    waiting: int  # triggers that A holds
    room: int  # chained consumers that wait in a bank
    pes: int  # `Pe`s
    # by local address
    latency: int
    written: int
    present: int
    chain: int  # at 2 * address + (slot == RIGHT): the next consumer, or -1; 0: there are none
    fifos: int  # `Fifo`s, `PORTS` a router
    # what is applied after a pass
    pops: int  # FIFOs
    n_pops: int
    pushes: int  # `Push`es
    n_pushes: int
    # scratch of a pass
    wants: int  # output that each input of a router asks for, or -1
    served: int  # consumer that each bank serves, or -1
    moved: int  # something has, in this cycle
    left: int  # operations that have not been written
    cycles: int
    now: int  # the cycle
    log: int  # `Crossing`s, in order; 0: they are not kept
    n_log: int


@record
class Crossing:
    """A token that a router puts on a link to a neighbour."""

    cycle: int
    link: int
    token: int


@record
class Push:
    """A token for a FIFO."""

    fifo: int
    token: int


@record
class Fifo:
    """An input of a router, and the pointer of its output of the same name."""

    tokens: int
    head: int
    level: int
    pointer: int


@record
class Sender:
    """The first token of a sender, whether it is the last, and where the rest begin."""

    token: int
    last: int
    rest: int


@record
class Rest:
    """A further token of a sender."""

    token: int
    last: int


@record
class Pe:
    """A PE, and its router of a torus."""

    base: int  # its first local address
    n_senders: int
    n_sources: int
    senders: int  # `Sender`s
    rests: int  # `Rest`s
    # A: triggers, the oldest first; by cycle mod `RING` the node that is written, or -1
    triggers: int
    n_triggers: int
    due: int
    n_due: int
    # chained consumers that wait, by bank, the oldest first
    chained: int
    n_chained: int
    # generator: node (-1: none), its next token, whether that is the last
    node: int
    token: int
    last: int
    rest: int
    leaves: int  # the token does, in this cycle
    # ready set: sources and a queue, or bits by node and a bit for each word of them
    n_ready: int
    source: int
    queue: int
    queue_first: int
    queue_end: int
    bits: int
    tops: int
    held: int  # tokens in the FIFOs of its router
    west: int  # tokens on its links, or -1; and those of the next cycle
    north: int
    next_west: int
    next_north: int
    # results
    consumed: int
    generated: int
    peak_ready: int
    stalled: int
    deflected: int
    links: int  # tokens out of each port


TOKEN = np.dtype(
    [(name, np.int64) for name in ("cycle", "link", "pe", "node", "slot", "node2", "slot2")]
)
"""A token on a link: the cycle in which a router puts it there, the link's number (`LINKS`), the
PE, and its consumers there; ``node2`` -1: it has one.
"""


# ---- the image as words


def tokens(image: DynamicImage, memory: str) -> np.ndarray:
    """The tokens of a fan-out memory."""

    def field(name: str) -> np.ndarray:
        return getattr(image, f"{memory}_{name}").astype(np.int64)

    token = field("pe") << PE_BIT | field("node") << 2 | field("slot")
    second = PAIR | (field("node2") << 2 | field("slot2")) << CONSUMER_BITS
    return np.where(field("node2") >= 0, token | second, token)


class State(Words):
    """The state of a run.

    Parameters
    ----------
    image
        What the PEs hold.
    crossings
        So many tokens on links are kept; with 0, none.

    """

    def __init__(self, image: DynamicImage, crossings: int = 0):
        super().__init__()
        o = image.overlay
        addresses = int(image.base[-1])
        self.alloc(Net.words)
        self.n = o.pes
        self.written_at = self.put(np.full(addresses, -1))
        self.crossings = crossings
        self.log_at = self.alloc(crossings * Crossing.words)
        chain = 0
        if len(image.chain_valid):
            consumer = image.chain_node.astype(np.int64) << 2 | image.chain_slot
            chain = self.put(np.where(image.chain_valid, consumer, -1))
        firsts = self.put(_rows(tokens(image, "first"), image.first_last, image.first_rest))
        rests = self.put(_rows(tokens(image, "rest"), image.rest_last))
        self.pes = self.records(Pe, [self._pe(image, p, firsts, rests) for p in range(o.pes)])
        fifos = [{"tokens": self.alloc(o.fifo_depth)} for _ in range(o.pes * PORTS)]
        own = {
            "rows": o.rows,
            "cols": o.cols,
            "hoplite": o.network == "hoplite",
            "critical": o.ready == "criticality",
            "fifo_depth": o.fifo_depth,
            "wake": o.wake,
            "waiting": WAITING if o.wake == 2 else 1,
            "room": CHAINED[o.wake],
            "pes": self.pes,
            "latency": self.put(o.latencies()[image.op]),
            "written": self.written_at,
            "present": self.alloc(addresses),
            "chain": chain,
            "fifos": self.records(Fifo, fifos),
            "pops": self.alloc(o.pes * PORTS),
            "pushes": self.alloc(o.pes * (PORTS + 1) * Push.words),
            "wants": self.alloc(PORTS),
            "served": self.alloc(2),
            "left": int(image.fires.sum()),
            "log": self.log_at if crossings else 0,
        }
        self.set(Net, 0, own)
        self.fill()

    def _pe(self, image: DynamicImage, p: int, firsts: int, rests: int) -> dict:
        o = image.overlay
        waiting = WAITING if o.wake == 2 else 1
        n = int(image.senders[p])
        first = int(image.first_base[p])
        words = -(-n // 64)
        seed = np.zeros(64 * 64 * -(-words // 64), np.uint8)
        n_ready = int(image.sources[p])
        if o.ready == "criticality":
            seed[:n] = image.seed[first : first + n]
            n_ready = int(seed.sum())
        bits = _words(seed)
        return {
            "base": image.base[p],
            "n_senders": n,
            "n_sources": image.sources[p],
            "senders": firsts + first * Sender.words,
            "rests": rests + int(image.rest_base[p]) * Rest.words,
            "triggers": self.alloc(waiting),
            "due": self.put(np.full(RING, -1)),
            "chained": self.alloc(2 * CHAINED[o.wake]),
            "n_chained": self.alloc(2),
            "node": -1,
            "n_ready": n_ready,
            "peak_ready": n_ready,
            "queue": self.alloc(n),
            "bits": self.put(bits),
            "tops": self.put(_words((bits != 0).astype(np.uint8))),
            "west": -1,
            "north": -1,
            "next_west": -1,
            "next_north": -1,
            "links": self.alloc(PORTS),
        }

    def results(self, name: str) -> np.ndarray:
        """A word of every PE."""
        return self.every(Pe, self.pes, self.n)[name].copy()

    def tokens(self) -> np.ndarray:
        """What was on the links: :data:`TOKEN` [crossings]."""
        log = self.every(Crossing, self.log_at, self.crossings)
        token = log["token"]
        out = np.zeros(len(token), TOKEN)
        out["cycle"] = log["cycle"]
        out["link"] = log["link"]
        out["pe"] = token >> PE_BIT
        for second, names in enumerate((("node", "slot"), ("node2", "slot2"))):
            consumer = token >> second * CONSUMER_BITS & CONSUMER
            there = not second or token & PAIR != 0
            out[names[0]] = np.where(there, consumer >> 2, -1)
            out[names[1]] = np.where(there, consumer & 3, 0)
        return out


def _rows(*columns: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(c, np.int64) for c in columns], axis=1).reshape(-1)


def _words(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits, bitorder="little").view(np.int64)


# ---- stages


@fast
def drop_first(words, n):
    """Remove the first of `n` words; returns how many are left."""
    for i in range(n - 1):
        words[i] = words[i + 1]
    return n - 1


@fast
def execute(net, pe, c):
    """A: the oldest trigger begins, and the result that is due is
    written; returns whether S has to wait.
    """
    stalls = net.wake == 2 and pe.n_triggers > net.waiting - 2
    due = table(net, pe.due)
    if pe.n_triggers:
        triggers = table(net, pe.triggers)
        node = triggers[0]
        at = (c + table(net, net.latency)[pe.base + node] - 1) % RING
        if due[at] >= 0:
            stalls = stalls or net.wake == 1
            pe.stalled += 1
        else:
            due[at] = node
            pe.n_due += 1
            pe.n_triggers = drop_first(triggers, pe.n_triggers)
    done = due[c % RING]
    if done >= 0:
        due[c % RING] = -1
        pe.n_due -= 1
        table(net, net.written)[pe.base + done] = c
        net.left -= 1
        net.cycles = c + 1
        net.moved = 1
        if done < pe.n_senders:
            make_ready(net, pe, done)
    return stalls


@fast
def make_ready(net, pe, node):
    """A node's result may be sent."""
    if net.critical:
        table(net, pe.bits)[node >> 6] |= np.int64(1) << (node & 63)
        table(net, pe.tops)[node >> 12] |= np.int64(1) << (node >> 6 & 63)
    else:
        table(net, pe.queue)[pe.queue_end] = node
        pe.queue_end += 1
    pe.n_ready += 1
    pe.peak_ready = max(pe.peak_ready, pe.n_ready)


@fast
def select(net, pe):
    """R: the next node to send."""
    pe.n_ready -= 1
    if net.critical:
        tops = table(net, pe.tops)
        bits = table(net, pe.bits)
        top = 0
        while tops[top] == 0:
            top += 1
        word = top * 64 + trailing_zeros(tops[top])
        node = word * 64 + trailing_zeros(bits[word])
        bits[word] &= bits[word] - 1
        if bits[word] == 0:
            tops[top] &= tops[top] - 1
    elif pe.source < pe.n_sources:
        node = pe.source
        pe.source += 1
    else:
        node = table(net, pe.queue)[pe.queue_first]
        pe.queue_first += 1
    return node


@fast
def generate(net, pe):
    """G: the next token of the node that is sent, or of another node."""
    if pe.leaves:
        net.moved = 1
        pe.generated += 1
        if pe.last:
            pe.node = -1
        else:
            further = Rest(net, pe.rests, pe.rest)
            pe.token = further.token
            pe.last = further.last
            pe.rest += 1
    if pe.node < 0 and pe.n_ready:
        net.moved = 1
        pe.node = select(net, pe)
        sender = Sender(net, pe.senders, pe.node)
        pe.token = sender.token
        pe.last = sender.last
        pe.rest = sender.rest


@fast
def crossing(net, p, out, token):
    """A token is put on a link of router `p`."""
    if net.log:
        one = Crossing(net, net.log, net.n_log)
        one.cycle = net.now
        one.link = SIDES * p + out - 1  # `LINKS` are the ports but P
        one.token = token
        net.n_log += 1


@fast
def torus(net, pe, p, eats):
    """The router of a torus (`hoplite`); returns the token that its PE takes, or -1."""
    x = p % net.cols
    remote = pe.node >= 0 and pe.token >> PE_BIT != p
    turns = (pe.token >> PE_BIT) % net.cols == x  # of the generator's token
    down = pe.north
    along = pe.west
    if down < 0:
        if along >= 0 and (along >> PE_BIT) % net.cols == x:
            down = along
            along = np.int64(-1)
        elif remote and turns:
            down = pe.token
            pe.leaves = 1
    if along >= 0:
        if (along >> PE_BIT) % net.cols == x:
            pe.deflected += 1
    elif remote and not turns:
        along = pe.token
        pe.leaves = 1
    links = table(net, pe.links)
    taken = np.int64(-1)
    if down >= 0:
        net.moved = 1
        if down >> PE_BIT == p and eats:
            taken = down
            links[P] += 1
        else:
            if down >> PE_BIT == p:
                pe.deflected += 1
            Pe(net, net.pes, (p + net.cols) % (net.rows * net.cols)).next_north = down
            links[S] += 1
            crossing(net, p, S, down)
    if along >= 0:
        net.moved = 1
        Pe(net, net.pes, p - x + (x + 1) % net.cols).next_west = along
        links[E] += 1
        crossing(net, p, E, along)
    return taken


@fast
def route(net, token, p):
    """The output of router `p` that leads to a token's PE: first along its row."""
    to = token >> PE_BIT
    across = to % net.cols - p % net.cols
    if across:
        return E if across > 0 else W
    down = to // net.cols - p // net.cols
    if down:
        return S if down > 0 else N
    return P


@fast
def neighbour(net, p, out):
    """The FIFO that an output of router `p` feeds."""
    if out == W:
        return (p - 1) * PORTS + E
    if out == E:
        return (p + 1) * PORTS + W
    if out == N:
        return (p - net.cols) * PORTS + S
    return (p + net.cols) * PORTS + N


@fast
def push(net, fifo, token):
    """After the pass a token is in a FIFO."""
    one = Push(net, net.pushes, net.n_pushes)
    one.fifo = fifo
    one.token = token
    net.n_pushes += 1


@fast
def first_of(net, fifo):
    one = Fifo(net, net.fifos, fifo)
    return table(net, one.tokens)[one.head]


@fast
def mesh(net, pe, p, eats):
    """The router of a mesh; returns the token that its PE takes, or -1."""
    taken = np.int64(-1)
    if pe.held:
        wants = table(net, net.wants)
        for i in range(PORTS):
            wants[i] = -1
            if Fifo(net, net.fifos, p * PORTS + i).level:
                wants[i] = route(net, first_of(net, p * PORTS + i), p)
        for out in range(PORTS):
            token = pass_on(net, pe, p, out, wants, eats)
            if token >= 0 and out == P:
                taken = token
    remote = pe.node >= 0 and pe.token >> PE_BIT != p
    if remote and Fifo(net, net.fifos, p * PORTS + P).level < net.fifo_depth:
        push(net, p * PORTS + P, pe.token)
        pe.leaves = 1
    return taken


@fast
def pass_on(net, pe, p, out, wants, eats):
    """One output of a router of a mesh; returns the token that leaves there, or -1."""
    output = Fifo(net, net.fifos, p * PORTS + out)
    for k in range(PORTS):
        i = (output.pointer + k) % PORTS
        if wants[i] == out:
            token = first_of(net, p * PORTS + i)
            if out == P:
                if not eats:
                    break
            else:
                to = neighbour(net, p, out)
                if Fifo(net, net.fifos, to).level >= net.fifo_depth:
                    break
                push(net, to, token)
                crossing(net, p, out, token)
            table(net, net.pops)[net.n_pops] = p * PORTS + i
            net.n_pops += 1
            table(net, pe.links)[out] += 1
            output.pointer = (i + 1) % PORTS
            return token
    return np.int64(-1)


@fast
def own_token(net, pe, p):
    """A token of the generator for its own PE, where every bank that it needs has room; or -1."""
    if pe.node < 0 or pe.token >> PE_BIT != p:
        return np.int64(-1)
    n_chained = table(net, pe.n_chained)
    bank = (pe.token >> 2) & (net.wake - 1)
    if n_chained[bank] >= net.room or (pe.token & PAIR and n_chained[1 - bank] >= net.room):
        return np.int64(-1)
    pe.leaves = 1
    return pe.token


@fast
def serve(net, pe, token, stalls):
    """S: a token, and in banks that it leaves free a chained consumer."""
    served = table(net, net.served)
    served[0] = -1
    served[1] = -1
    older = np.int64(0)
    if token >= 0:
        bank = (token >> 2) & (net.wake - 1)
        served[bank] = token & CONSUMER
        if token & PAIR:
            served[1 - bank] = token >> CONSUMER_BITS & CONSUMER
            older = bank
    if not stalls:
        n_chained = table(net, pe.n_chained)
        for bank in range(net.wake):
            if served[bank] < 0 and n_chained[bank]:
                chained = table(net, pe.chained + bank * net.room)
                served[bank] = chained[0]
                n_chained[bank] = drop_first(chained, n_chained[bank])
    for i in range(net.wake):
        bank = older ^ i
        if served[bank] >= 0:
            consume(net, pe, served[bank], bank)


@fast
def consume(net, pe, consumer, bank):
    """An operand is there: the second one, or the only one, is a trigger."""
    net.moved = 1
    pe.consumed += 1
    node = consumer >> 2
    slot = consumer & 3
    present = table(net, net.present + pe.base)
    if slot == ONLY or present[node]:
        present[node] = 0
        table(net, pe.triggers)[pe.n_triggers] = node
        pe.n_triggers += 1
    else:
        present[node] = 1
    if net.chain:
        following = table(net, net.chain)[2 * (pe.base + node) + (1 if slot == RIGHT else 0)]
        if following >= 0:
            n_chained = table(net, pe.n_chained)
            table(net, pe.chained + bank * net.room)[n_chained[bank]] = following
            n_chained[bank] += 1


@fast
def idle(net, pe):
    """Whether nothing can happen in a PE and its router."""
    n_chained = table(net, pe.n_chained)
    on_links = pe.west >= 0 or pe.north >= 0 or pe.held > 0
    has_work = pe.n_ready or pe.node >= 0 or pe.n_triggers or pe.n_due
    return not on_links and not has_work and n_chained[0] == 0 and n_chained[1] == 0


@fast
def step(net, pe, p, c):
    """A cycle of a PE and its router."""
    pe.leaves = 0
    stalls = execute(net, pe, c)
    n_chained = table(net, pe.n_chained)
    eats = not stalls and n_chained[0] < net.room and n_chained[1] < net.room
    if net.hoplite:
        token = torus(net, pe, p, eats)
    else:
        token = mesh(net, pe, p, eats)
    if not stalls and token < 0:
        token = own_token(net, pe, p)
    serve(net, pe, token, stalls)
    generate(net, pe)


@fast
def apply_fifos(net):
    """After a pass: what leaves the FIFOs, and what enters them."""
    for k in range(net.n_pops):
        f = table(net, net.pops)[k]
        fifo = Fifo(net, net.fifos, f)
        fifo.head = (fifo.head + 1) % net.fifo_depth
        fifo.level -= 1
        Pe(net, net.pes, f // PORTS).held -= 1
        net.moved = 1
    for k in range(net.n_pushes):
        one = Push(net, net.pushes, k)
        fifo = Fifo(net, net.fifos, one.fifo)
        table(net, fifo.tokens)[(fifo.head + fifo.level) % net.fifo_depth] = one.token
        fifo.level += 1
        Pe(net, net.pes, one.fifo // PORTS).held += 1


@fast
def apply_links(net):
    """After a pass: what is on the links of a torus."""
    for p in range(net.rows * net.cols):
        pe = Pe(net, net.pes, p)
        pe.west = pe.next_west
        pe.north = pe.next_north
        pe.next_west = -1
        pe.next_north = -1


net_at = at_address(Net)


def _run(address):
    net = net_at(address)
    quiet = 0
    c = -1
    while net.left > 0:
        c += 1
        net.now = c
        net.moved = 0
        net.n_pops = 0
        net.n_pushes = 0
        for p in range(net.rows * net.cols):
            pe = Pe(net, net.pes, p)
            if not idle(net, pe):
                step(net, pe, p, c)
        if net.hoplite:
            apply_links(net)
        else:
            apply_fifos(net)
        quiet = 0 if net.moved else quiet + 1
        if quiet > 2 * RING:
            return -c - 1
    return net.cycles


run = stamped(
    jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)(_run), Path(__file__)
)
"""Run a :class:`State`, by the address of its words, to the end; returns cycles, or -(cycle) - 1
when nothing has moved for long.
"""
