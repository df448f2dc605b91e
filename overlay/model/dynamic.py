"""Dynamic and hybrid PEs and their networks, compiled: one pass over the PEs a cycle
(docs/overlay.md sections 3 to 5 and 7.1).

Within a pass a PE changes only its own state; what crosses to another router is collected and
applied after the pass, so every decision is judged on the state at the start of the cycle.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...model.compiling import jit
from ...model.records import at_address, fast, stamped, table, trailing_zeros
from ..core.config import ONLY
from .state import (
    CONSUMER,
    CONSUMER_BITS,
    PAIR,
    PE_BIT,
    PORTS,
    RING,
    SIDES,
    Context,
    Crossing,
    E,
    Fifo,
    N,
    Net,
    P,
    Pe,
    Push,
    Rest,
    S,
    Sender,
    W,
)


@fast
def drop_first(words, n):
    """Remove the first of `n` words; returns how many are left."""
    for i in range(n - 1):
        words[i] = words[i + 1]
    return n - 1


@fast
def blocked(net, pe, latency):
    """True if a hybrid PE's context has the ALU, or one the write at the end of an operation."""
    if net.context < 0:
        return False
    if Context(net, pe.contexts, net.context).issues:
        return True
    at = net.context + latency - 1
    return at < net.length and Context(net, pe.contexts, at).writes >= 0


@fast
def follow(net, pe, c):
    """Write of a hybrid PE's context."""
    if net.context < 0:
        return
    node = Context(net, pe.contexts, net.context).writes
    if node >= 0:
        table(net, net.written)[pe.base + node] = c
        if node < pe.n_senders:
            make_ready(net, pe, node)


@fast
def execute(net, pe, c):
    """A: the oldest trigger begins, and the result that is due is written; returns whether S has to
    wait.
    """
    stalls = net.forwards and pe.n_triggers > net.waiting - 2
    due = table(net, pe.due)
    if pe.n_triggers:
        triggers = table(net, pe.triggers)
        node = triggers[0]
        latency = table(net, net.latency)[pe.base + node]
        at = (c + latency - 1) % RING
        if due[at] >= 0 or blocked(net, pe, latency):
            stalls = stalls or not net.forwards
            pe.stalled += 1
        else:
            due[at] = node
            pe.n_due += 1
            pe.n_triggers = drop_first(triggers, pe.n_triggers)
    done = due[c % RING]
    pe.done = done
    if done >= 0:
        due[c % RING] = -1
        pe.n_due -= 1
        table(net, net.written)[pe.base + done] = c
        net.moved = 1
        if done < pe.n_senders:
            make_ready(net, pe, done)
        if table(net, net.shut)[pe.base + done]:
            pe.done = -1
    return stalls


@fast
def put_in(bits, tops, node):
    """A node enters a set of bits."""
    bits[node >> 6] |= np.int64(1) << (node & 63)
    tops[node >> 12] |= np.int64(1) << (node >> 6 & 63)


@fast
def take_lowest(bits, tops):
    """The lowest node of a set of bits leaves it."""
    top = 0
    while tops[top] == 0:
        top += 1
    word = top * 64 + trailing_zeros(tops[top])
    node = word * 64 + trailing_zeros(bits[word])
    bits[word] &= bits[word] - 1
    if bits[word] == 0:
        tops[top] &= tops[top] - 1
    return node


@fast
def make_ready(net, pe, node):
    """A node's result may be sent."""
    if net.forwards:
        put_in(table(net, pe.bits), table(net, pe.tops), node)
    else:
        table(net, pe.queue)[pe.queue_end] = node
        pe.queue_end += 1
    pe.n_ready += 1
    pe.peak_ready = max(pe.peak_ready, pe.n_ready)


@fast
def select(net, pe):
    """R: the next node to send."""
    pe.n_ready -= 1
    if net.forwards:
        node = take_lowest(table(net, pe.bits), table(net, pe.tops))
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
        node = select(net, pe)
        if not table(net, net.shut)[pe.base + node]:
            pe.node = node
            sender = Sender(net, pe.senders, node)
            pe.token = sender.token
            pe.last = sender.last
            pe.rest = sender.rest


@fast
def forward(net, pe, stalls):
    """The near word of the result that is written, where S can serve it now, or -1; where S cannot,
    its node will enter the near set.
    """
    pe.late = -1
    if pe.done < 0 or pe.done >= pe.n_nears:
        return np.int64(-1)
    word = table(net, pe.nears)[pe.done]
    if word >= 0 and (stalls or not has_room(net, pe, word)):
        pe.late = pe.done
        return np.int64(-1)
    return word


@fast
def has_room(net, pe, token):
    """True if every bank that a token needs has room for what may be chained to it."""
    n_chained = table(net, pe.n_chained)
    bank = (token >> 2) & (net.banks - 1)
    return n_chained[bank] < net.room and (not token & PAIR or n_chained[1 - bank] < net.room)


@fast
def meet(one, other):
    """True if two tokens need the same bank; -1 needs none."""
    if one < 0 or other < 0:
        return False
    return (one | other) & PAIR != 0 or ((one ^ other) >> 2) & 1 == 0


@fast
def near_token(net, pe, first):
    """The near word that stands before S, if it is served; or -1."""
    word = pe.near
    if word < 0 or meet(first, word) or not has_room(net, pe, word):
        return np.int64(-1)
    pe.near = -1
    return word


@fast
def select_near(net, pe):
    """The next near word, and what enters the near set."""
    if pe.near < 0 and pe.n_near:
        net.moved = 1
        node = take_lowest(table(net, pe.near_bits), table(net, pe.near_tops))
        pe.near = table(net, pe.nears)[node]
        pe.n_near -= 1
    if pe.late >= 0:
        put_in(table(net, pe.near_bits), table(net, pe.near_tops), pe.late)
        pe.n_near += 1


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
def torus(net, pe, p, eats, first):
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
        if down >> PE_BIT == p and eats and not meet(first, down):
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
def mesh(net, pe, p, eats, first):
    """The router of a mesh; returns the token that its PE takes, or -1."""
    taken = np.int64(-1)
    if pe.held:
        wants = table(net, net.wants)
        for i in range(PORTS):
            wants[i] = -1
            if Fifo(net, net.fifos, p * PORTS + i).level:
                wants[i] = route(net, first_of(net, p * PORTS + i), p)
        for out in range(PORTS):
            token = pass_on(net, pe, p, out, wants, eats, first)
            if token >= 0 and out == P:
                taken = token
    remote = pe.node >= 0 and pe.token >> PE_BIT != p
    if remote and Fifo(net, net.fifos, p * PORTS + P).level < net.fifo_depth:
        push(net, p * PORTS + P, pe.token)
        pe.leaves = 1
    return taken


@fast
def pass_on(net, pe, p, out, wants, eats, first):
    """One output of a router of a mesh; returns the token that leaves there, or -1."""
    if out != P and net.before >= 0:
        if Context(net, pe.contexts, net.before).holds >> (out - 1) & 1:
            return np.int64(-1)
    output = Fifo(net, net.fifos, p * PORTS + out)
    for k in range(PORTS):
        i = (output.pointer + k) % PORTS
        if wants[i] == out:
            token = first_of(net, p * PORTS + i)
            if out == P:
                if not eats or meet(first, token):
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
    if not has_room(net, pe, pe.token):
        return np.int64(-1)
    pe.leaves = 1
    return pe.token


@fast
def place(net, token):
    """A token's consumers in their banks; returns the bank of the first of two, or 0."""
    if token < 0:
        return np.int64(0)
    served = table(net, net.served)
    bank = (token >> 2) & (net.banks - 1)
    served[bank] = token & CONSUMER
    if token & PAIR:
        served[1 - bank] = token >> CONSUMER_BITS & CONSUMER
        return bank
    return np.int64(0)


@fast
def serve(net, pe, first, token, stalls):
    """S: what is forwarded, a token, and in banks that they leave free a chained consumer."""
    served = table(net, net.served)
    served[0] = -1
    served[1] = -1
    older = place(net, first) | place(net, token)
    if not stalls:
        n_chained = table(net, pe.n_chained)
        for bank in range(net.banks):
            if served[bank] < 0 and n_chained[bank]:
                chained = table(net, pe.chained + bank * net.room)
                served[bank] = chained[0]
                n_chained[bank] = drop_first(chained, n_chained[bank])
    for i in range(net.banks):
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
    if slot >= ONLY or present[node]:
        present[node] = 0
        table(net, pe.triggers)[pe.n_triggers] = node
        pe.n_triggers += 1
    else:
        present[node] = 1
    if net.chain:
        following = table(net, net.chain)[2 * (pe.base + node) + (slot & 1)]
        if following >= 0:
            n_chained = table(net, pe.n_chained)
            table(net, pe.chained + bank * net.room)[n_chained[bank]] = following
            n_chained[bank] += 1


@fast
def idle(net, pe):
    """True if nothing can happen in a PE and its router."""
    n_chained = table(net, pe.n_chained)
    on_links = pe.west >= 0 or pe.north >= 0 or pe.held > 0
    has_work = pe.n_ready or pe.node >= 0 or pe.n_triggers or pe.n_due
    has_work = has_work or pe.n_near or pe.near >= 0
    return not on_links and not has_work and n_chained[0] == 0 and n_chained[1] == 0


@fast
def step(net, pe, p, c):
    """A cycle of a PE and its router."""
    pe.leaves = 0
    stalls = execute(net, pe, c)
    follow(net, pe, c)
    n_chained = table(net, pe.n_chained)
    eats = not stalls and n_chained[0] < net.room and n_chained[1] < net.room
    first = forward(net, pe, stalls)
    if net.hoplite:
        token = torus(net, pe, p, eats, first)
    else:
        token = mesh(net, pe, p, eats, first)
    if not stalls and token < 0:
        token = near_token(net, pe, first) if net.forwards else own_token(net, pe, p)
    serve(net, pe, first, token, stalls)
    generate(net, pe)
    select_near(net, pe)


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


@fast
def advance(net, c):
    """The context of this cycle, if there is one."""
    net.before = net.context
    net.context = -1
    if c < net.length:
        net.context = c
        net.moved = 1


net_at = at_address(Net)


def _run(address):
    net = net_at(address)
    quiet = 0
    c = -1
    while True:
        c += 1
        net.now = c
        net.moved = 0
        net.n_pops = 0
        net.n_pushes = 0
        busy = 0
        advance(net, c)
        for p in range(net.rows * net.cols):
            pe = Pe(net, net.pes, p)
            if net.context >= 0 or not idle(net, pe):
                busy = 1
                step(net, pe, p, c)
        if not busy:
            return c
        if net.hoplite:
            apply_links(net)
        else:
            apply_fifos(net)
        quiet = 0 if net.moved else quiet + 1
        if quiet > 2 * RING:
            return -c - 1


run = stamped(
    jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)(_run),
    Path(__file__),
    Path(__file__).with_name("state.py"),
)
"""Run a :class:`~.state.State`, by the address of its words, to the end; returns cycles, or
-(cycle) - 1 when nothing has moved for long.
"""
