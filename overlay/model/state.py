"""The state of dynamic PEs and their networks, as the words that compiled code works on
(:mod:`.dynamic`).

Values do not matter to the timing and are not carried here. A consumer is a word: from bit 0 slot
(2), node (24). A token is one: its consumer, a second one, whether there is a second (1), PE. A
near word is a token without a PE.
"""

from __future__ import annotations

import numpy as np

from ...model.records import Words, record
from ..core.config import CHAINED, LINKS, WAITING, WRITE_NONE
from ..core.image import DynamicImage, HybridImage

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
    """State that the PEs share; it lies at word 0."""

    rows: int
    cols: int
    hoplite: int
    fifo_depth: int
    banks: int
    shut: int  # by local address: its value is not sent in this run
    waiting: int  # triggers that A holds
    room: int  # chained consumers that wait in a bank
    pes: int  # `Pe`s
    # by local address
    latency: int
    written: int
    present: int
    chain: int  # at 2 * address + (slot & 1): the next consumer, or -1; 0: there are none
    forwards: int  # results reach consumers at their own PE without a token
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
    now: int  # the cycle
    log: int  # `Crossing`s, in order; 0: they are not kept
    n_log: int
    # contexts of hybrid PEs: how many hold; the one that does and that of the cycle before, or -1
    length: int
    context: int
    before: int


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
class Context:
    """Work of a PE and its switch in a cycle: whether an operation is issued, the address that is
    written (-1: none), the links that are held (bits).
    """

    issues: int
    writes: int
    holds: int


@record
class Pe:
    """A PE, and its router of a torus."""

    base: int  # its first local address
    contexts: int  # `Context`s
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
    # near set: bits likewise; near words by node, and of one the word that stands before S
    near_bits: int
    near_tops: int
    n_near: int
    nears: int
    n_nears: int
    near: int  # or -1
    done: int  # node written in this cycle, or -1
    late: int  # node that enters the near set after this cycle, or -1
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


def tokens(words: np.ndarray) -> np.ndarray:
    """Words of a fan-out memory as tokens, or -1."""
    pe, node, slot, node2, slot2 = (
        words[name].astype(np.int64) for name in ("pe", "node", "slot", "node2", "slot2")
    )
    token = pe << PE_BIT | node << 2 | slot
    second = PAIR | (node2 << 2 | slot2) << CONSUMER_BITS
    return np.where(node < 0, -1, np.where(node2 >= 0, token | second, token))


class State(Words):
    """The state of a run.

    Parameters
    ----------
    image
        What the PEs hold.
    crossings
        So many tokens on links are kept; with 0, none.
    """

    def __init__(self, image: DynamicImage, sends: np.ndarray, crossings: int = 0):
        super().__init__()
        o = image.overlay
        addresses = int(image.base[-1])
        self.alloc(Net.words)
        self.n = o.pes
        self.written_at = self.put(np.full(addresses, -1))
        self.crossings = crossings
        self.log_at = self.alloc(crossings * Crossing.words)
        chain = self.put(tokens(image.chain)) if len(image.chain) else 0
        firsts = self.put(_rows(tokens(image.first), image.first["last"], image.first["rest"]))
        rests = self.put(_rows(tokens(image.rest), image.rest["last"]))
        nears = self.put(tokens(image.near))
        own_pes = [self._pe(image, p, firsts, rests) for p in range(o.pes)]
        for p, one in enumerate(own_pes):
            one |= self._near(image, p, nears)
            if isinstance(image, HybridImage):
                one |= {"contexts": self.put(_contexts(image, p))}
        self.pes = self.records(Pe, own_pes)
        fifos = [{"tokens": self.alloc(o.fifo_depth)} for _ in range(o.pes * PORTS)]
        own = {
            "rows": o.rows,
            "cols": o.cols,
            "hoplite": o.network == "hoplite",
            "fifo_depth": o.fifo_depth,
            "banks": o.banks,
            "waiting": WAITING if o.forwards else 1,
            "room": CHAINED,
            "pes": self.pes,
            "latency": self.put(o.latencies()[image.op]),
            "written": self.written_at,
            "present": self.alloc(addresses),
            "chain": chain,
            "forwards": o.forwards,
            "fifos": self.records(Fifo, fifos),
            "pops": self.alloc(o.pes * PORTS),
            "pushes": self.alloc(o.pes * (PORTS + 1) * Push.words),
            "wants": self.alloc(PORTS),
            "served": self.alloc(2),
            "shut": self.put(~sends),
            "log": self.log_at if crossings else 0,
            "length": image.length if isinstance(image, HybridImage) else 0,
            "context": -1,
        }
        self.set(Net, 0, own)
        self.fill()

    def _pe(self, image: DynamicImage, p: int, firsts: int, rests: int) -> dict:
        o = image.overlay
        waiting = WAITING if o.forwards else 1
        n = int(image.senders[p])
        first = int(image.first_base[p])
        words = -(-n // 64)
        seed = np.zeros(64 * 64 * -(-words // 64), np.uint8)
        n_ready = int(image.sources[p])
        if o.forwards:
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
            "chained": self.alloc(2 * CHAINED),
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

    def _near(self, image: DynamicImage, p: int, nears: int) -> dict:
        """The near set of a PE."""
        first = int(image.near_base[p])
        n = int(image.nears[p])
        seed = np.zeros(64 * 64 * -(-n // 4096), np.uint8)
        seed[:n] = image.near_seed[first : first + n]
        bits = _words(seed)
        return {
            "near_bits": self.put(bits),
            "near_tops": self.put(_words((bits != 0).astype(np.uint8))),
            "n_near": int(seed.sum()),
            "nears": nears + first,
            "n_nears": n,
            "near": -1,
            "done": -1,
            "late": -1,
        }

    def results(self, name: str) -> np.ndarray:
        """A word of every PE."""
        return self.every(Pe, self.pes, self.n)[name].copy()

    def tokens(self) -> np.ndarray:
        """Tokens on the links: :data:`TOKEN` [crossings]."""
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


def _contexts(image: HybridImage, p: int) -> np.ndarray:
    """A PE's :class:`Context` records."""
    context = {name: words[p] for name, words in image.context.items()}
    address = context["address"].astype(np.int64)
    writes = np.where(context["write"] == WRITE_NONE, -1, address)
    return _rows(context["op"] != 0, writes, image.switch["held"][p])


def _words(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits, bitorder="little").view(np.int64)
