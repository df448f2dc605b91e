"""Images of dynamic PEs: local addresses, fan-out lists and consumer chains (docs/overlay.md
section 3).
"""

from __future__ import annotations

import numpy as np

from ...overlay.core.config import Overlay, Sizes
from ...overlay.core.image import DynamicImage, no_consumers
from .banks import banked, pair_colours
from .copies import Placed
from .edges import Edges
from .schedule import distances


def dynamic_image(placed: Placed) -> DynamicImage:
    """The image of a placed graph."""
    task = placed.task
    overlay = task.overlay
    pes = overlay.pes
    critical = overlay.forwards
    source = task.source
    e = task.e
    latency = task.latency
    pe = placed.pe
    level = latency if critical else latency + 1
    tail = distances(task.a, task.b, level, pe, overlay.cols)
    sends, nears = _sending(overlay, e, pe)
    base = _offsets(pe, pes)
    address = _addresses(overlay, source, e, latency, tail, pe)

    def count(mask: np.ndarray) -> np.ndarray:
        return np.bincount(pe[mask], minlength=pes).astype(np.int32)

    senders = count(sends)
    sources = np.zeros(pes, np.int32) if critical else count(sends & source)

    entry, partner, chain = _tokens(overlay, e, latency, tail, pe, address)
    own = pe[e.src[entry]] == pe[e.dst[entry]]
    forwarded = entry[own] if overlay.forwards else entry[:0]
    entry = entry[~own] if overlay.forwards else entry
    chained = _chains(overlay, e, chain, base, pe, address)
    words = _words(e, forwarded, partner, pe, address)
    near = _near(overlay, placed, e.src[forwarded], words, address, sends | nears)
    lists = _lists(e.src[entry], _words(e, entry, partner, pe, address), pe, address, senders)
    first_base = lists["first_base"]
    seed = np.zeros(first_base[-1] if critical else 0, bool)
    if critical:
        ready = np.flatnonzero(source & sends)
        seed[first_base[pe[ready]] + address[ready]] = True
    return DynamicImage(
        overlay,
        Sizes(
            nodes=_peak(np.diff(base)),
            senders=_peak(senders),
            queue=_peak(count(sends & ~source)),
            rest=_peak(np.diff(lists["rest_base"])),
            near=_peak(near["nears"]),
        ),
        node_pe=pe[placed.at].astype(np.int32),
        node_address=address[placed.at],
        base=base,
        value=_spread(base, pe, address, np.where(source, placed.value, np.uint64(0)), np.uint64),
        op=_spread(base, pe, address, task.op, np.uint8),
        senders=senders,
        sources=sources,
        **lists,
        chain=chained,
        seed=seed,
        **near,
        copy_node=placed.copied.astype(np.int32),
        copy_pe=pe[placed.copies].astype(np.int32),
        copy_address=address[placed.copies],
    )


def _words(
    e: Edges, entry: np.ndarray, partner: np.ndarray, pe: np.ndarray, address: np.ndarray
) -> np.ndarray:
    """Words of the fan-out memories for the edges ``entry``, with their partners."""
    out = no_consumers(len(entry))
    out["pe"] = pe[e.dst[entry]]
    for name, edge in (("", entry), ("2", partner[entry])):
        there = edge >= 0
        out[f"node{name}"][there] = address[e.dst[edge[there]]]
        out[f"slot{name}"][there] = e.slot[edge[there]]
    return out


def _lists(
    src: np.ndarray, words: np.ndarray, pe: np.ndarray, address: np.ndarray, senders: np.ndarray
) -> dict[str, np.ndarray]:
    """The fan-out memories of words by sender ``src``: first words by address, the others behind
    one another.
    """
    pes = len(senders)
    begins = np.concatenate([[True], src[1:] != src[:-1]]) if len(src) else np.zeros(0, bool)
    last = np.concatenate([src[1:] != src[:-1], [True]]) if len(src) else np.zeros(0, bool)
    first_base = np.concatenate([[0], np.cumsum(senders)]).astype(np.int64)
    at_first = np.flatnonzero(begins)
    where = first_base[pe[src[at_first]]] + address[src[at_first]]
    at_rest = np.flatnonzero(~begins)
    at_rest = at_rest[np.lexsort((at_rest, address[src[at_rest]], pe[src[at_rest]]))]
    rest_base = _offsets(pe[src[at_rest]], pes)
    rest_index = np.full(len(src) + 1, -1, np.int64)
    rest_index[at_rest] = np.arange(len(at_rest)) - rest_base[pe[src[at_rest]]]
    words["last"] = last
    words["rest"] = np.maximum(rest_index[1:], 0) * ~last
    first = no_consumers(first_base[-1])
    first[where] = words[at_first]
    return {
        "first_base": first_base,
        "first": first,
        "rest_base": rest_base,
        "rest": words[at_rest],
    }


def _sending(overlay: Overlay, e: Edges, pe: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """bool [nodes]: whether tokens of each are generated, and whether its consumers at its own PE
    get it without one.
    """
    if not overlay.forwards:
        sends = np.diff(e.start) > 0
        return sends, np.zeros(len(sends), bool)
    away = pe[e.src] != pe[e.dst]
    sends = np.bincount(e.src[away], minlength=len(pe)) > 0
    return sends, np.bincount(e.src[~away], minlength=len(pe)) > 0


def _near(
    overlay: Overlay,
    placed: Placed,
    node: np.ndarray,
    words: np.ndarray,
    address: np.ndarray,
    named: np.ndarray,
) -> dict[str, np.ndarray]:
    """The near memories: ``words`` of the nodes ``node``; ``named``: nodes whose addresses have a
    word.
    """
    pe = placed.pe
    mask = named if overlay.forwards else np.zeros(len(pe), bool)
    nears = np.bincount(pe[mask], minlength=overlay.pes).astype(np.int32)
    base = np.concatenate([[0], np.cumsum(nears)]).astype(np.int64)
    at = base[pe[node]] + address[node]
    near = no_consumers(base[-1])
    near[at] = words
    near["pe"] = 0
    seed = np.zeros(base[-1], bool)
    seed[at] = placed.task.source[node]
    return {"nears": nears, "near_base": base, "near": near, "near_seed": seed}


def _addresses(
    overlay: Overlay,
    source: np.ndarray,
    e: Edges,
    latency: np.ndarray,
    tail: np.ndarray,
    pe: np.ndarray,
) -> np.ndarray:
    """int32 [nodes]: local addresses, in the groups of docs/overlay.md section 3."""
    n = len(source)
    pes = overlay.pes
    sends, near = _sending(overlay, e, pe)
    if overlay.forwards:
        group = np.where(sends, 0, np.where(near, 1, np.where(source, 3, 2)))
        within = np.where(sends | near, -tail, 0)
    else:
        fed = np.bincount(e.dst, minlength=n) > 0  # of hybrid PEs, not all operations are
        group = np.where(sends, np.where(source, 0, 1), np.where(fed, 2, 3))
        within = ~fed
    order = np.lexsort((np.arange(n), within, group, pe))
    base = _offsets(pe, pes)
    if overlay.forwards:
        order = banked(
            order,
            base,
            pe[order].astype(np.int64) * 4 + group[order],
            pair_colours(pe, pes, *_wanted_pairs(overlay, e, latency, tail, pe)),
        )
    address = np.empty(n, np.int32)
    address[order] = np.arange(n) - base[pe[order]]
    return address


def _peak(counts: np.ndarray) -> int:
    return max(1, int(np.max(counts, initial=0)))


def _chains(
    overlay: Overlay,
    e: Edges,
    chain: tuple[np.ndarray, np.ndarray] | None,
    base: np.ndarray,
    pe: np.ndarray,
    address: np.ndarray,
) -> np.ndarray:
    """Per slot of each node, what follows it in its chain."""
    out = no_consumers(2 * base[-1] if overlay.forwards else 0)
    if len(out) and chain is not None:
        link, following = chain
        index = 2 * (base[pe[e.dst[link]]] + address[e.dst[link]]) + (e.slot[link] & 1)
        out["node"][index] = address[e.dst[following]]
        out["slot"][index] = e.slot[following]
    return out


def _sending_order(overlay: Overlay, e: Edges, latency, tail) -> np.ndarray:
    """The edges by producer, each producer's in the order in which its consumers are to get the
    value.
    """
    rank = (
        -(latency[e.dst] + tail[e.dst]).astype(np.int64)
        if overlay.forwards
        else np.zeros(len(e.src), np.int64)
    )
    return np.lexsort((e.slot, e.dst, rank, e.src))


def _by_pair(
    overlay: Overlay, e: Edges, order: np.ndarray, pe: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The edges by producer and destination PE, in sending order within; and which of them begin a
    new pair.
    """
    key = e.src.astype(np.int64) * overlay.pes + pe[e.dst]
    by_pair = order[np.argsort(key[order], kind="stable")]
    heads = (
        np.concatenate([[True], key[by_pair][1:] != key[by_pair][:-1]])
        if len(by_pair)
        else np.zeros(0, bool)
    )
    return by_pair, heads


def _wanted_pairs(overlay: Overlay, e: Edges, latency, tail, pe) -> tuple[np.ndarray, np.ndarray]:
    """Consumers that should be in different banks: of each value at each PE the first two, the next
    two, and so on.
    """
    by_pair, heads = _by_pair(overlay, e, _sending_order(overlay, e, latency, tail), pe)
    start = np.flatnonzero(heads)
    within = np.arange(len(by_pair)) - np.repeat(start, np.diff(np.append(start, len(by_pair))))
    one = (
        np.flatnonzero((within[:-1] % 2 == 0) & ~heads[1:])
        if len(by_pair)
        else np.zeros(0, np.int64)
    )
    return e.dst[by_pair[one]], e.dst[by_pair[one + 1]]


def _tokens(overlay: Overlay, e: Edges, latency, tail, pe, address):
    """The edges that become tokens, by producer in the order of sending; per edge its second
    consumer's edge or -1; and with forwarding the chain as pairs of edges (one, the next).
    """
    m = len(e.src)
    partner = np.full(m, -1, np.int64)
    order = _sending_order(overlay, e, latency, tail)
    if not overlay.forwards:
        return order, partner, None
    # position of each edge in its producer's order; PEs in the order of their first consumers
    position = np.empty(m, np.int64)
    position[order] = np.arange(m)
    by_pair, heads = _by_pair(overlay, e, order, pe)
    entry = by_pair[heads]
    # a chain per bank; the entry names the first of both
    key = 2 * (np.cumsum(heads) - 1) + (address[e.dst[by_pair]] & 1)
    by_bank = np.argsort(key, kind="stable")
    by_pair = by_pair[by_bank]
    key = key[by_bank]
    heads = np.diff(key, prepend=-1) != 0
    begins = by_pair[heads]
    entry_of = entry[key[heads] // 2]
    partner[entry_of[begins != entry_of]] = begins[begins != entry_of]
    entry = entry[np.argsort(position[entry], kind="stable")]
    follows = np.flatnonzero(~heads)
    return entry, partner, (by_pair[follows - 1], by_pair[follows])


def _offsets(pe: np.ndarray, pes: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(pe, minlength=pes))]).astype(np.int64)


def _spread(base, pe, address, values, dtype) -> np.ndarray:
    out = np.zeros(base[-1], dtype)
    out[base[pe] + address] = values
    return out
