"""Partition of the nodes onto PEs: balanced, by a library, recursively onto the mesh.

Two objectives, matched to how a PE sends: *cut* counts edges between PEs (one token or send per
edge); *connectivity* counts (value, foreign PE) pairs (one packet or send per pair).
"""

from __future__ import annotations

import os

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ...machine.errors import ConfigError
from ...overlay.core.config import Overlay
from .edges import Edges

OBJECTIVES = ("cut", "connectivity")
IMBALANCE = 0.03
"""Largest excess of a part's weight over the average that the partitioners are asked for."""
LARGE = 200_000
"""Nodes above which connectivity is left to METIS, an edge weighing 1 / fan-out of its producer:
minutes become seconds, for up to half as many pairs again.
"""

Adjacency = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Edges in compressed rows: where each node's begin, their other ends, their weights."""


def objective_of(overlay: Overlay) -> str:
    """The objective that counts what this overlay sends."""
    return "cut" if overlay.pe == "dynamic" and not overlay.forwards else "connectivity"


def place(
    nodes: int,
    e: Edges,
    weight: np.ndarray,
    rows: int,
    cols: int,
    objective: str = "cut",
    seed: int = 0,
) -> np.ndarray:
    """int32 [nodes]: PE (y * cols + x) of every node.

    ``weight`` (int) is what balance counts. Parts are found for the mesh as a whole (connectivity)
    or by bisection (cut), and lie so that parts which talk are near. Deterministic for a seed.
    """
    if objective not in OBJECTIVES:
        raise ConfigError(
            f"objective must be one of {', '.join(OBJECTIVES)}, not {objective!r}", "placement"
        )
    pes = rows * cols
    if pes == 1 or nodes == 0:
        return np.zeros(nodes, np.int32)
    if objective == "cut" or nodes < 4 * pes or nodes > LARGE or not len(e.src):
        share = None if objective == "cut" else 1000 // np.diff(e.start)[e.src]
        pe = _onto_mesh(_adjacency(nodes, e.src, e.dst, share), weight, rows, cols, seed)
    else:
        part = _hypergraph(nodes, e, weight, pes, seed)
        src = part[e.src]
        dst = part[e.dst]
        away = src != dst
        where = _onto_mesh(
            _adjacency(pes, src[away], dst[away]),
            np.ones(pes, np.int64),
            rows,
            cols,
            seed,
            exact=True,
        )
        pe = where[part]
    return pe.astype(np.int32)


def _adjacency(
    nodes: int, src: np.ndarray, dst: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Undirected CSR with merged parallel edges (weights, by default 1, add up; at least 1):
    offsets, neighbours, weights.
    """
    m = coo_matrix(
        (np.ones(len(src), np.int64) if weight is None else np.maximum(weight, 1), (src, dst)),
        shape=(nodes, nodes),
    ).tocsr()
    m = (m + m.T).tocsr()
    m.setdiag(0)
    m.eliminate_zeros()
    return m.indptr.astype(np.int32), m.indices.astype(np.int32), m.data.astype(np.int32)


def _onto_mesh(
    graph, weight: np.ndarray, rows: int, cols: int, seed: int, exact: bool = False
) -> np.ndarray:
    """Recursive bisection: the longer side of the mesh in halves, the nodes in proportion."""
    import pymetis

    out = np.zeros(len(weight), np.int64)
    step = 0

    def bisect(nodes: np.ndarray, edges: Adjacency, y0: int, x0: int, h: int, w: int) -> None:
        nonlocal step
        xadj, adjncy, eweights = edges
        if h * w == 1 or len(nodes) == 0:
            out[nodes] = y0 * cols + x0
            return
        first = ((h + 1) // 2) * w if h > w else h * ((w + 1) // 2)
        share = first / (h * w)
        step += 1
        if len(adjncy) == 0 or len(nodes) < 3:
            side = _prefix(weight[nodes], share)
        else:
            options = pymetis.Options(
                seed=seed * 1009 + step,
                ufactor=int(1000 * IMBALANCE / max(1, np.log2(rows * cols))) + 1,
            )
            cut = pymetis.part_graph(
                2,
                pymetis.CSRAdjacency(xadj, adjncy),
                vweights=weight[nodes],
                eweights=eweights,
                tpwgts=[share, 1 - share],
                recursive=True,
                options=options,
            )
            side = np.asarray(cut.vertex_part, np.int8)
        if exact:
            side = _exactly(side, first, xadj, adjncy, eweights)
        for half in (0, 1):
            keep = np.flatnonzero(side == half)
            sub = _induced(keep, edges)
            if h > w:
                cell = (y0 + half * ((h + 1) // 2), x0, (h + 1) // 2 if half == 0 else h // 2, w)
            else:
                cell = (y0, x0 + half * ((w + 1) // 2), h, (w + 1) // 2 if half == 0 else w // 2)
            bisect(nodes[keep], sub, *cell)

    bisect(np.arange(len(weight)), graph, 0, 0, rows, cols)
    return out


def _prefix(weight: np.ndarray, share: float) -> np.ndarray:
    done = np.cumsum(weight)
    return (done > share * done[-1] + 1e-9).astype(np.int8)


def _exactly(side: np.ndarray, first: int, xadj, adjncy, eweights) -> np.ndarray:
    """Move the nodes that cost least until exactly ``first`` are on side 0."""
    side = side.copy()
    while (have := int((side == 0).sum())) != first:
        give = 0 if have > first else 1
        best = -1
        cost = None
        for v in np.flatnonzero(side == give):
            near = adjncy[xadj[v] : xadj[v + 1]]
            w = eweights[xadj[v] : xadj[v + 1]]
            loss = int(w[side[near] == give].sum()) - int(w[side[near] != give].sum())
            if cost is None or loss < cost:
                best = v
                cost = loss
        side[best] = 1 - give
    return side


def _induced(keep: np.ndarray, edges: Adjacency) -> Adjacency:
    """The sub-graph on the nodes ``keep``, renumbered."""
    xadj, near, weight = edges
    n = len(xadj) - 1
    part = csr_matrix((weight, near, xadj), shape=(n, n))[keep][:, keep]
    return part.indptr.astype(np.int32), part.indices.astype(np.int32), part.data.astype(np.int32)


_initialised = None


def _hypergraph(nodes: int, e: Edges, weight: np.ndarray, parts: int, seed: int) -> np.ndarray:
    """Parts that keep the number of (value, foreign part) pairs small: one net per value with its
    consumers.
    """
    import mtkahypar

    global _initialised
    if _initialised is None:
        _initialised = mtkahypar.initialize(len(os.sched_getaffinity(0)))
    mtkahypar.set_seed(seed)
    # the preset whose parts do not depend on threads or chance
    context = _initialised.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    # the preset does without chance, so another seed is another numbering of the nodes
    number = np.random.default_rng(seed).permutation(nodes) if seed else np.arange(nodes)
    pairs = np.unique(number[e.src].astype(np.int64) * nodes + number[e.dst])
    src = pairs // nodes
    dst = pairs % nodes
    cuts = np.flatnonzero(np.diff(src)) + 1
    nets = [
        [int(s[0]), *d.tolist()]
        for s, d in zip(np.split(src, cuts), np.split(dst, cuts), strict=True)
    ]
    graph = _initialised.create_hypergraph(
        context, nodes, len(nets), nets, weight[np.argsort(number)].tolist(), [1] * len(nets)
    )
    return np.asarray(graph.partition(context).get_partition(), np.int64)[number]
