"""One graph on many overlays: mapped, run on model or RTL, one record each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...machine.errors import ConfigError, PenstockError, RunError
from ...machine.limits import SEEDS, within
from ...machine.record import Record
from ...runs.progress import Progress
from ...runs.provenance import versions
from ...scheduler.token import Effort, Floor, Mapped, map_graph
from .. import model
from ..core.config import CHOICES, FOREIGN, MEMORIES, Overlay
from ..core.dataflow import DataflowGraph
from ..core.image import HybridImage, Image
from ..core.ops import Op, format_of
from ..model.routes import routes
from .reference import against_scipy, beyond, float64, relative_error, underflown

Mesh = tuple[int, int]


def variants(choices: Mapping[str, Iterable] | None = None, **fixed) -> list[Overlay]:
    """All overlays of the given choices (lists by field; `pe` and `local` in full where not
    given), on a 1x1 mesh; each once.

    Raises ConfigError for values that a field does not know.
    """
    lists = {"pe": list(CHOICES["pe"]), "local": list(CHOICES["local"])}
    lists |= {k: list(v) for k, v in (choices or {}).items() if v}
    memories = dict(fixed.pop("memories", {}))
    for name in memories:
        if not any(name in MEMORIES[pe] for pe in lists["pe"]):
            raise ConfigError(
                f"there is no memory {name!r}",
                "overlay",
                remedy="known: "
                + "; ".join(f"{pe}: {', '.join(MEMORIES[pe])}" for pe in lists["pe"]),
            )
    out = []
    for values in product(*lists.values()):
        settings: dict[str, Any] = {"rows": 1, "cols": 1} | fixed
        settings |= zip(lists, values, strict=True)
        settings["memories"] = {n: d for n, d in memories.items() if n in MEMORIES[settings["pe"]]}
        o = Overlay(**settings)
        # what this kind of PE does not have takes its default
        o = replace(o, **{n: getattr(Overlay, n) for n in FOREIGN[o.pe]})
        if o not in out:
            out.append(o)
    return out


def run(
    graph: DataflowGraph,
    overlay: Overlay,
    on: str = "model",
    *,
    mapped: Mapped | None = None,
    progress: Progress | None = None,
    waves: str | None = None,
    **options,
) -> list[Record]:
    """Map a graph and run it: one record per backend; with ``both``, the RTL's cycles and every
    value must equal the model's.

    ``options`` go to :func:`penstock.scheduler.token.map_graph` (seed, objective, inputs, pe,
    effort). ``waves``: path stem of a waveform of the RTL run.

    Raises
    ------
    ConfigError, ProgramError
        The graph does not fit: memories, format.
    RunError
        RTL and model differ, or a run does not end.
    """
    if on not in ("model", "rtl", "both"):
        raise PenstockError(f"on must be model, rtl or both, not {on!r}")
    progress = progress or Progress()
    m = mapped or map_graph(graph, overlay, **options)
    setup = sum(m.seconds.values())
    out = []
    if on != "rtl":
        start = time.perf_counter()
        outcome = model.simulate(m.image, tokens=on == "both")
        bits = model.values(m.image, outcome)
        r = _record(m, "model", outcome.cycles, bits, time.perf_counter() - start, setup)
        _add(r, _use(m, outcome))
        out.append(r)
    if on != "model":
        from ..tb.api import run_image

        progress.stage(f"RTL of {overlay.rows}x{overlay.cols} {overlay.name()}")
        rtl = run_image(m.image, waves=waves)
        setup += rtl.export_s + rtl.build_s
        r = _record(m, "rtl", rtl.counted, rtl.values, rtl.simulate_s, setup)
        _add(r, {"clocks": rtl.clocks, "build_s": rtl.build_s, "restart": rtl.restart})
        out.append(r)
        if on == "rtl" and rtl.counted != rtl.cycles and not m.graph.conditional:
            raise RunError(
                f"the last write ends cycle {rtl.cycles - 1}, but the cycle counter says "
                f"{rtl.counted}",
                f"RTL of {m.graph.title}",
                remedy="run it --on both, which tells what differs",
            )
        if on == "both":
            where = f"{m.graph.title} on {overlay.rows}x{overlay.cols} {overlay.name()}"
            _add(r, {"compared": against_model(m, outcome, bits, rtl, where)})
            r.mismatches = 0
    return out


def against_model(
    m: Mapped, outcome: model.Run, bits: np.ndarray, rtl, where: str
) -> dict[str, int]:
    """Compare every write, token and value; returns how many, or raises RunError with the first
    difference.
    """
    from .watch import watch

    watched = watch(m, outcome, rtl)
    wrong = int(np.count_nonzero((bits != rtl.values) & outcome.known(m.image)))
    if wrong or watched.differences:
        raise RunError(
            f"RTL takes {rtl.cycles} cycles, the model {outcome.cycles}; {wrong} of "
            f"{len(bits)} values and {len(watched.differences)} writes or tokens differ"
            + (f", at first {watched.first}" if watched.first else ""),
            where,
            rule="model and RTL are equal",
            remedy="report this with the graph",
        )
    return {n: getattr(watched, n) for n in ("writes", "tokens", "links")}


def _record(
    m: Mapped, backend: str, cycles: int, bits: np.ndarray, wall: float, setup: float
) -> Record:
    o = m.overlay
    f = format_of(o.format)
    sources = m.graph.sources(None, o.format)
    sources[:] = np.where(
        m.graph.op < Op.ADD,
        m.image.value[m.image.base[m.image.node_pe] + m.image.node_address]
        .astype(f.word)
        .view(f.dtype),
        sources,
    )
    got = bits.astype(f.word).view(f.dtype)
    values = m.graph.evaluate(sources[m.graph.inputs], o.format)
    expected = values.view(f.word).astype(np.uint64)
    fires = np.ones(len(bits), bool)
    if m.graph.conditional:
        fires, _ = m.graph.regions.taken(values)
    outputs = np.array(m.graph.outputs)
    far = beyond(m.graph, sources, got)
    tiny = underflown(m.graph, sources)
    operations = int(np.count_nonzero((m.graph.op >= Op.ADD) & fires))
    params = {k: v for k, v in o.to_dict().items() if k not in ("rows", "cols")} | {
        "mesh": f"{o.rows}x{o.cols}",
        "objective": m.objective,
    }
    memories = m.image.memories()
    scipy = against_scipy(m.graph, got)
    return Record(
        workload=m.graph.title,
        config=f"overlay {o.rows}x{o.cols} {o.name()}",
        params=params,
        backend=backend,
        timing="machine",
        cycles=cycles,
        onchip_capacity_bytes=m.image.bits // 8,
        onchip_rule="memories of all PEs and switches, copies included",
        flops=operations,
        allocated_flops_per_cycle=o.pes,
        compute_utilisation=operations / (cycles * o.pes) if cycles else None,
        values_ok=bool(np.array_equal(bits[fires], expected[fires])),
        max_rel_err=None
        if m.graph.meta.get("rounds")
        else relative_error(got[outputs].astype(np.float64), float64(m.graph, sources)[outputs]),
        wall_s=wall,
        setup_s=setup,
        seed=m.seed,
        versions=versions(),
        overlay={
            "mesh": [o.rows, o.cols],
            "variant": o.name(),
            "nodes": len(m.graph),
            "edges": len(m.graph.edges),
            "depth": m.graph.depth,
            "bounds": vars(m.bounds) | {"best": m.bounds.best},
            "floor": vars(m.floor) | {"best": m.floor.best} if m.floor else None,
            "gap": _gap(cycles, m.floor),
            "beyond_range": len(far),
            "first_beyond": _named(m.graph, far[0]) if len(far) else None,
            "underflow": len(tiny),
            "first_underflow": _named(m.graph, tiny[0]) if len(tiny) else None,
            "cut_edges": m.cut,
            "pairs": m.pairs,
            "memory_bits": m.image.bits,
            "memory_words": {n: x.depth for n, x in memories.items()},
            "context_words": m.image.sizes.contexts if o.pe != "dynamic" else None,
            "dynamic_share": dynamic_share(m.image, operations),
            "nodes_per_pe": int(np.diff(m.image.base).max()),
            "seconds": m.seconds,
            "scipy": vars(scipy) if scipy else None,
        },
    )


def dynamic_share(image: Image, fired: int, runs: int = 1) -> float | None:
    """Share of the operations of some runs that a hybrid PE did by tokens, or because of a
    decision.
    """
    if not isinstance(image, HybridImage):
        return None
    static = image.segment["length"][0] if image.decides else image.length
    issued = runs * int(np.count_nonzero(image.context["op"][:, :static]))
    return max(0, fired - issued) / max(1, fired)


def _named(graph: DataflowGraph, node: int) -> str:
    """A node as a reader knows it."""
    return graph.name.get(int(node), f"%{int(node)}")


def _gap(cycles: int, floor: Floor | None) -> float | None:
    """Cycles over those that no placement can beat."""
    return cycles / floor.best if floor and floor.best else None


def _add(record: Record, more: dict[str, Any]) -> None:
    """Add to what a record says of its overlay."""
    record.overlay = {**(record.overlay or {}), **more}


def _use(m: Mapped, outcome) -> dict:
    """Shares of links, and of what a PE can consume or write; peaks."""
    o = m.overlay
    cycles = max(1, outcome.cycles)
    if m.schedule is not None:
        used = len(m.schedule.crossings())
        links = _mesh_links(o)
        return {
            "link_use": used / (links * cycles) if links else 0.0,
            "sends": len(m.schedule.send_node),
            "copies": len(m.schedule.copy_pe),
            "pe_use": float(outcome.consumed.sum() / (o.pes * cycles)),
        }
    links = 2 * o.pes if o.network == "hoplite" else _mesh_links(o)
    crossed = int(outcome.links[:, 1:].sum())
    if isinstance(m.image, HybridImage):
        crossed += len(routes(m.image.taken(outcome.contexts)).crossings)
    return {
        "link_use": crossed / (links * cycles) if links else 0.0,
        "tokens": int(outcome.consumed.sum()),
        "packets": int(outcome.links[:, 0].sum()),
        "pe_use": float(outcome.consumed.sum() / (o.pes * cycles)),
        "peak_ready": int(outcome.peak_ready.max()),
        "stalled": int(outcome.stalled.sum()),
        "deflected": int(outcome.deflected.sum()),
    }


def _mesh_links(o: Overlay) -> int:
    return 2 * (o.rows * (o.cols - 1) + o.cols * (o.rows - 1))


def compare(
    graph: DataflowGraph,
    meshes: Iterable[Mesh],
    overlays: Iterable[Overlay] | None = None,
    on: str = "model",
    *,
    seeds: Iterable[int] = (0,),
    objective: str | None = None,
    effort: Effort | None = None,
    progress: Progress | None = None,
    waves: str | None = None,
    see: Mapping[str, Callable[[Mapped], None]] | None = None,
) -> list[Record]:
    """Every overlay at every mesh with every seed, each on its better placement unless an
    ``objective`` is named; a mesh that contains another of these is never slower (of a torus it
    may be). ``waves``: path stem of a waveform, of a single RTL run; ``see``: what is done with a
    single mapped graph, by the option that asks for it.
    """
    progress = progress or Progress()
    meshes = list(meshes)
    seeds = list(seeds)
    for seed in seeds:
        within("seed", seed, SEEDS)
    overlays = list(overlays) if overlays is not None else variants()
    runs = len(meshes) * len(overlays) * len(seeds)
    if waves and on == "model":
        raise PenstockError("only the RTL has waveforms", remedy="use --on rtl or --on both")
    see = see or {}
    for option in [*(["--waves"] if waves else []), *see]:
        if runs == 1:
            break
        raise PenstockError(
            f"shows one run, and these are {runs}",
            option,
            remedy="name one variant (--pe, --local), one mesh and one seed",
        )
    progress.plan(runs)
    found: dict[tuple[Mesh, int, int], list[Record]] = {}
    mapped: dict[tuple[Mesh, int, int], Mapped] = {}
    known = {}
    for mesh in sorted(set(meshes), key=prod):
        rows, cols = mesh
        for seed, (k, o) in product(seeds, enumerate(overlays)):
            o = replace(o, rows=rows, cols=cols)
            what = f"{rows}x{cols} {o.name()}"
            progress.step(what)
            inside = [(r, c) for r, c in meshes if r <= rows and c <= cols and (r, c) != mesh]
            smaller = [mapped[m, seed, k] for m in dict.fromkeys(inside)]
            m = mapped[mesh, seed, k] = map_graph(
                graph,
                o,
                seed,
                objective,
                effort=effort,
                tell=lambda text, what=what: progress.step(f"{what}: {text}"),
                smaller=smaller,
                known=known,
            )
            for show in see.values():
                show(m)
            found[mesh, seed, k] = run(graph, o, on, mapped=m, progress=progress, waves=waves)
            progress.done(what)
    order = product(meshes, seeds, range(len(overlays)))
    return [record for key in order for record in found[key]]


def _digits(x: float | None, n: int = 2) -> float | None:
    return None if x is None else float(f"{x:.{n}g}")


def _percent(x: float | None) -> float | None:
    return None if x is None else round(100 * x, 1)


def table(records: list[Record]) -> list[dict]:
    """Rows for printing; `x static` is cycles over those of static PEs on the same mesh, seed and
    backend.
    """
    best: dict = {}
    for r in records:
        if r.params["pe"] == "static":
            key = r.params["mesh"], r.seed, r.backend
            best[key] = r.cycles
    rows = []
    for r in records:
        o = r.overlay or {}
        scipy = o.get("scipy") or {}
        static = best.get((r.params["mesh"], r.seed, r.backend))
        rows.append(
            {
                "mesh": r.params["mesh"],
                "variant": o["variant"],
                "backend": r.backend,
                "cycles": r.cycles,
                "x static": round(r.cycles / static, 2) if static else None,
                "bound": o["bounds"]["best"],
                "by": max(("depth", "work", "link"), key=lambda k: o["bounds"][k]),
                "floor": (o.get("floor") or {}).get("best"),
                "gap": _digits(o.get("gap"), 3),
                "memory kbit": round(o["memory_bits"] / 1000),
                "nodes/PE": o["nodes_per_pe"],
                "contexts": o["context_words"],
                **(
                    {"dynamic %": _percent(o["dynamic_share"])}
                    if r.params["pe"] == "hybrid"
                    else {}
                ),
                "ALU %": _percent(r.compute_utilisation),
                "links %": _percent(o.get("link_use")),
                "ready": o.get("peak_ready"),
                "error": _digits(r.max_rel_err),
                "values": r.values_ok,
                **({"beyond range": o["beyond_range"]} if o.get("beyond_range") else {}),
                **({"SciPy": _digits(scipy["error"])} if scipy else {}),
                **(
                    {"residual": _digits(scipy["residual"])}
                    if scipy and scipy["residual"] is not None
                    else {}
                ),
                "seed": r.seed,
            }
        )
    if len({r["seed"] for r in rows}) == 1:
        for row in rows:
            del row["seed"]
    return rows
