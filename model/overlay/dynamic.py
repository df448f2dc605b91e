"""Dynamic PEs and their networks, compiled: one pass over the PEs a cycle (docs/overlay.md sections
3 to 5; plain meaning: :mod:`.golden`).

Within a pass a PE changes only its own state; what crosses to another router is collected and
applied after the pass, so every decision is judged on the state at the start of the cycle. Values
do not matter to the timing and are not carried here.

A token is one int64: from bit 0 slot (2), node (24), second slot (2), second node (24), whether
there is a second (1), PE.
"""

from __future__ import annotations

import numba
import numpy as np

RING = 64
"""Cycles ahead for which a PE's writes are kept; above every latency."""

P, W, E, N, S = range(5)

CONSUMER = 0x3FFFFFF
"""Mask of a consumer in a token, node and slot: local addresses below 2^24."""


@numba.njit(cache=True, inline="always")
def _lowest(x):
    """Index of the lowest set bit of a non-zero word."""
    n = 0
    if x & np.uint64(0xFFFFFFFF) == 0:
        n += 32
        x >>= np.uint64(32)
    if x & np.uint64(0xFFFF) == 0:
        n += 16
        x >>= np.uint64(16)
    if x & np.uint64(0xFF) == 0:
        n += 8
        x >>= np.uint64(8)
    if x & np.uint64(0xF) == 0:
        n += 4
        x >>= np.uint64(4)
    if x & np.uint64(0x3) == 0:
        n += 2
        x >>= np.uint64(2)
    if x & np.uint64(0x1) == 0:
        n += 1
    return n


@numba.njit(cache=True, inline="always")
def _token(pe, node, slot, node2, slot2):
    t = np.int64(pe) << 53 | np.int64(node) << 2 | np.int64(slot)
    if node2 >= 0:
        t |= np.int64(1) << 52 | np.int64(node2) << 28 | np.int64(slot2) << 26
    return t


@numba.njit(cache=True)
def run(
    rows,
    cols,
    hoplite,
    critical,
    depth,
    wake,
    waiting,
    room,
    base,
    latency,
    senders,
    sources,
    fires,
    first_base,
    first_pe,
    first_node,
    first_slot,
    first_node2,
    first_slot2,
    first_last,
    first_rest,
    rest_base,
    rest_pe,
    rest_node,
    rest_slot,
    rest_node2,
    rest_slot2,
    rest_last,
    chain_valid,
    chain_node,
    chain_slot,
    seed,
    written,
    links,
    consumed,
    generated,
    peak_ready,
    stalled,
    deflected,
):
    """Run to the end; returns cycles, or -(cycle) - 1 when nothing has moved for long.

    Outputs, zeroed by the caller: ``written`` (cycle by local address, -1 before), ``links``
    [routers, 5] tokens out of each port, ``consumed``, ``generated``, ``peak_ready``, ``stalled``
    (cycles in which A's oldest trigger waits) [PEs], ``deflected`` [PEs].
    """
    pes = rows * cols
    chained = len(chain_valid) > 0
    present = np.zeros(base[pes], np.uint8)
    # A: triggers in order, the oldest first
    a_node = np.empty((pes, waiting), np.int64)
    a_count = np.zeros(pes, np.int64)
    # chained consumers that wait, by bank, the oldest first
    chain = np.empty((pes, 2, room), np.int64)
    chains = np.zeros((pes, 2), np.int64)
    serve = np.empty(2, np.int64)
    odd = wake - 1
    pend = np.full((pes, RING), -1, np.int64)
    pending = np.zeros(pes, np.int64)
    # generator: node (-1 empty), token, index of the next rest entry, last
    g_node = np.full(pes, -1, np.int64)
    g_token = np.zeros(pes, np.int64)
    g_next = np.zeros(pes, np.int64)
    g_last = np.zeros(pes, np.uint8)
    # ready sets
    next_source = np.zeros(pes, np.int64)
    queue = np.empty(first_base[pes], np.int64)
    q_head = first_base[:pes].copy()
    q_tail = first_base[:pes].copy()
    ready = np.zeros(pes, np.int64)
    word_base = np.zeros(pes + 1, np.int64)
    top_base = np.zeros(pes + 1, np.int64)
    for p in range(pes):
        words = (senders[p] + 63) // 64
        word_base[p + 1] = word_base[p] + words
        top_base[p + 1] = top_base[p] + (words + 63) // 64
    bits = np.zeros(word_base[pes], np.uint64)
    tops = np.zeros(top_base[pes], np.uint64)
    one = np.uint64(1)
    for p in range(pes):
        if critical:
            for i in range(senders[p]):
                if seed[first_base[p] + i]:
                    bits[word_base[p] + i // 64] |= one << np.uint64(i % 64)
                    tops[top_base[p] + i // 4096] |= one << np.uint64(i // 64 % 64)
                    ready[p] += 1
        else:
            ready[p] = sources[p]
        peak_ready[p] = ready[p]
    # network
    fifo = np.empty((pes * 5, depth), np.int64)
    head = np.zeros(pes * 5, np.int64)
    level = np.zeros(pes * 5, np.int64)
    held = np.zeros(pes, np.int64)
    pointer = np.zeros(pes * 5, np.int64)
    pops = np.empty(pes * 5, np.int64)
    push_to = np.empty(pes * 6, np.int64)
    push_token = np.empty(pes * 6, np.int64)
    link_w = np.full(pes, -1, np.int64)
    link_n = np.full(pes, -1, np.int64)
    next_w = np.full(pes, -1, np.int64)
    next_n = np.full(pes, -1, np.int64)
    want = np.empty(5, np.int64)

    left = 0
    for p in range(pes):
        left += fires[p]
    cycles = 0
    quiet = 0
    c = -1
    while left > 0:
        c += 1
        moved = False
        npop = 0
        npush = 0
        for p in range(pes):
            on_links = link_w[p] >= 0 or link_n[p] >= 0 if hoplite else held[p] > 0
            if (
                not on_links
                and ready[p] == 0
                and g_node[p] < 0
                and a_count[p] == 0
                and pending[p] == 0
                and chains[p, 0] == 0
                and chains[p, 1] == 0
            ):
                continue
            # A
            stall = wake == 2 and a_count[p] > waiting - 2
            if a_count[p] > 0:
                node = a_node[p, 0]
                at = (c + latency[base[p] + node] - 1) % RING
                if pend[p, at] >= 0:
                    stall = stall or wake == 1
                    stalled[p] += 1
                else:
                    pend[p, at] = node
                    pending[p] += 1
                    a_count[p] -= 1
                    for k in range(a_count[p]):
                        a_node[p, k] = a_node[p, k + 1]
            done = pend[p, c % RING]
            if done >= 0:
                pend[p, c % RING] = -1
                pending[p] -= 1
                written[base[p] + done] = c
                left -= 1
                cycles = c + 1
                moved = True
                if done < senders[p]:
                    if critical:
                        bits[word_base[p] + done // 64] |= one << np.uint64(done % 64)
                        tops[top_base[p] + done // 4096] |= one << np.uint64(done // 64 % 64)
                    else:
                        queue[q_tail[p]] = done
                        q_tail[p] += 1
                    ready[p] += 1
                    peak_ready[p] = max(peak_ready[p], ready[p])
            # network of this PE's router
            may_eat = not stall and chains[p, 0] < room and chains[p, 1] < room
            token = np.int64(-1)
            remote = g_node[p] >= 0 and g_token[p] >> 53 != p
            leaves = False
            x = p % cols
            y = p // cols
            if hoplite:
                south = ((y + 1) % rows) * cols + x
                east = y * cols + (x + 1) % cols
                tn = link_n[p]
                tw = link_w[p]
                out_y = np.int64(-1)
                out_e = np.int64(-1)
                if tn >= 0:
                    out_y = tn
                elif tw >= 0 and (tw >> 53) % cols == x:
                    out_y = tw
                    tw = -1
                elif remote and (g_token[p] >> 53) % cols == x:
                    out_y = g_token[p]
                    leaves = True
                if tw >= 0:
                    out_e = tw
                    if (tw >> 53) % cols == x:
                        deflected[p] += 1
                elif remote and (g_token[p] >> 53) % cols != x:
                    out_e = g_token[p]
                    leaves = True
                if out_y >= 0:
                    moved = True
                    if out_y >> 53 == p and may_eat:
                        token = out_y
                        links[p, P] += 1
                    else:
                        if out_y >> 53 == p:
                            deflected[p] += 1
                        next_n[south] = out_y
                        links[p, S] += 1
                if out_e >= 0:
                    moved = True
                    next_w[east] = out_e
                    links[p, E] += 1
            else:
                if held[p] > 0:
                    for i in range(5):
                        f = p * 5 + i
                        want[i] = -1
                        if level[f] > 0:
                            to = fifo[f, head[f]] >> 53
                            tx = to % cols
                            ty = to // cols
                            want[i] = (
                                E
                                if tx > x
                                else W
                                if tx < x
                                else S
                                if ty > y
                                else N
                                if ty < y
                                else P
                            )
                    for o in range(5):
                        asked = -1
                        for k in range(5):
                            i = (pointer[p * 5 + o] + k) % 5
                            if want[i] == o:
                                asked = i
                                break
                        if asked < 0:
                            continue
                        t = fifo[p * 5 + asked, head[p * 5 + asked]]
                        if o == P:
                            if not may_eat:
                                continue
                            token = t
                        else:
                            # the neighbour's FIFO that this output feeds
                            f = (
                                (p - 1) * 5 + E
                                if o == W
                                else (p + 1) * 5 + W
                                if o == E
                                else (p - cols) * 5 + S
                                if o == N
                                else (p + cols) * 5 + N
                            )
                            if level[f] >= depth:
                                continue
                            push_to[npush] = f
                            push_token[npush] = t
                            npush += 1
                        pops[npop] = p * 5 + asked
                        npop += 1
                        links[p, o] += 1
                        pointer[p * 5 + o] = (asked + 1) % 5
                if remote and level[p * 5 + P] < depth:
                    push_to[npush] = p * 5 + P
                    push_token[npush] = g_token[p]
                    npush += 1
                    leaves = True
            # S: a token, and in banks that it leaves free a chained consumer
            if not stall and token < 0 and g_node[p] >= 0 and not remote:
                bank = (g_token[p] >> 2) & odd
                if chains[p, bank] < room and (
                    not g_token[p] >> 52 & 1 or chains[p, 1 - bank] < room
                ):
                    token = g_token[p]
                    leaves = True
            serve[:] = -1
            older = 0
            if token >= 0:
                bank = (token >> 2) & odd
                serve[bank] = token & CONSUMER
                if token >> 52 & 1:
                    serve[1 - bank] = token >> 26 & CONSUMER
                    older = bank
            if not stall:
                for k in range(wake):
                    if serve[k] < 0 and chains[p, k] > 0:
                        serve[k] = chain[p, k, 0]
                        chains[p, k] -= 1
                        for i in range(chains[p, k]):
                            chain[p, k, i] = chain[p, k, i + 1]
            for i in range(wake):
                k = older ^ i
                if serve[k] < 0:
                    continue
                moved = True
                consumed[p] += 1
                node = serve[k] >> 2
                slot = serve[k] & 3
                if slot == 2 or present[base[p] + node]:
                    present[base[p] + node] = 0
                    a_node[p, a_count[p]] = node
                    a_count[p] += 1
                else:
                    present[base[p] + node] = 1
                if chained:
                    link = 2 * (base[p] + node) + (1 if slot == 1 else 0)
                    if chain_valid[link]:
                        chain[p, k, chains[p, k]] = np.int64(chain_node[link]) << 2 | np.int64(
                            chain_slot[link]
                        )
                        chains[p, k] += 1
            # G, R
            if leaves:
                moved = True
                generated[p] += 1
                if not g_last[p]:
                    at = rest_base[p] + g_next[p]
                    g_token[p] = _token(
                        rest_pe[at], rest_node[at], rest_slot[at], rest_node2[at], rest_slot2[at]
                    )
                    g_last[p] = rest_last[at]
                    g_next[p] += 1
                else:
                    g_node[p] = -1
            if g_node[p] < 0 and ready[p] > 0:
                if critical:
                    top = top_base[p]
                    while tops[top] == 0:
                        top += 1
                    word = (top - top_base[p]) * 64 + _lowest(tops[top])
                    node = word * 64 + _lowest(bits[word_base[p] + word])
                    bits[word_base[p] + word] &= ~(one << np.uint64(node % 64))
                    if bits[word_base[p] + word] == 0:
                        tops[top] &= ~(one << np.uint64(word % 64))
                elif next_source[p] < sources[p]:
                    node = next_source[p]
                    next_source[p] += 1
                else:
                    node = queue[q_head[p]]
                    q_head[p] += 1
                ready[p] -= 1
                moved = True
                at = first_base[p] + node
                g_node[p] = node
                g_token[p] = _token(
                    first_pe[at], first_node[at], first_slot[at], first_node2[at], first_slot2[at]
                )
                g_last[p] = first_last[at]
                g_next[p] = first_rest[at]
        for k in range(npop):
            f = pops[k]
            head[f] = (head[f] + 1) % depth
            level[f] -= 1
            held[f // 5] -= 1
        for k in range(npush):
            f = push_to[k]
            fifo[f, (head[f] + level[f]) % depth] = push_token[k]
            level[f] += 1
            held[f // 5] += 1
        if hoplite:
            link_w, next_w = next_w, link_w
            link_n, next_n = next_n, link_n
            next_w[:] = -1
            next_n[:] = -1
        quiet = 0 if moved or npop > 0 else quiet + 1
        if quiet > 2 * RING:
            return -c - 1
    return cycles
