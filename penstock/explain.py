"""Why a run took as long as it did: cycles per unit, the chain that bounds the run, and the roofline."""

from __future__ import annotations

from penstock.machine.errors import PenstockError
from penstock.machine.kinds import KINDS
from penstock.machine.record import Record


def share(unit: dict, name: str, cycles: int) -> float:
    """Fraction of the run that a unit spent in a state (``busy``, ``blocked``, ``starved``)."""
    return (unit[name] or 0) / cycles


def _is(unit: dict, attribute: str):
    """An attribute of a unit's kind; a kind from outside that is not registered here has none."""
    return getattr(KINDS.get(unit["kind"]), attribute, None)


def has_counters(r: Record) -> bool:
    """Whether the record splits cycles per unit (the `machine` timing does)."""
    return r.timing == "machine" and bool(r.units) and all(u["starved"] is not None for u in r.units)


def bounding_chain(r: Record) -> list[tuple[str, str]]:
    """Units from the end of the run to what bounds it, each with the reason to go on or to stop.

    The walk starts at the store (or sink). A unit that mostly starves waits for its emptiest input; one that is mostly blocked
    waits for its fullest output; one that is busy most of the time, or a load that a starving unit waits for, is the bound.
    """
    units = {u["name"]: u for u in r.units}
    if not has_counters(r):
        raise PenstockError("the record has no busy/blocked/starved counters", remedy="make it with --timing machine")
    into = {n: [c for c in r.channels if c["dst"] == n != c["src"]] for n in units}
    out_of = {n: [c for c in r.channels if c["src"] == n != c["dst"]] for n in units}
    at = next((u["name"] for u in r.units if _is(u, "ends_run")), r.units[-1]["name"])
    chain, seen = [], set()
    while at not in seen:
        seen.add(at)
        u = units[at]
        if _is(u, "offchip") == "read":
            chain.append((at, f"waits for the off-chip memory, of whose bandwidth the run uses {r.offchip_utilisation:.0%}"))
            break
        state = max(("busy", "blocked", "starved"), key=lambda s: u[s])
        if state == "busy":
            chain.append((at, f"busy {share(u, 'busy', r.cycles):.0%} of the run"))
            break
        edges = into[at] if state == "starved" else out_of[at]
        if not edges:
            chain.append((at, f"{state} {share(u, state, r.cycles):.0%} of the run"))
            break
        pick = min if state == "starved" else max
        edge = pick(edges, key=lambda c: (c["occupancy"] or 0) / c["depth"])
        chain.append((at, f"{state} {share(u, state, r.cycles):.0%}, on {edge['name']}"))
        at = edge["src"] if state == "starved" else edge["dst"]
    return chain


def roofline(r: Record) -> dict[str, float]:
    """Bounds in cycles by traffic and by allocated compute, and the operational intensity in FLOP/B."""
    out = {"traffic": r.dram_bytes / r.offchip_bytes_per_cycle, "intensity": (r.flops or 0) / r.offchip_bytes if r.offchip_bytes else 0.0}
    if r.allocated_flops_per_cycle:
        out["compute"] = r.flops / r.allocated_flops_per_cycle
    return out


MOST_UNITS = 80
"""Units that the report lists, where not all are asked for."""


def text(r: Record, every: bool = False) -> str:
    """The report of `penstock explain`; of more than ``MOST_UNITS`` units the busiest, unless ``every`` one is asked for."""
    lines = [f"{r.workload} on {r.config}, {r.backend}, {r.timing} timing: {r.cycles} cycles"]
    bounds = roofline(r)
    lines.append(f"  off-chip: {r.dram_bytes} B moved in {bounds['traffic']:.0f} cycles at peak, {r.offchip_utilisation:.1%} of the bandwidth used")
    if "compute" in bounds:
        lines.append(f"  compute:  {r.flops} FLOP, {bounds['compute']:.0f} cycles if all {r.allocated_flops_per_cycle} FLOP/cycle worked; "
                     f"intensity {bounds['intensity']:.2f} FLOP/B")
    binding = max((k for k in ("traffic", "compute") if k in bounds), key=bounds.get)
    lines.append(f"  roofline: {binding} binds; the run is {r.cycles / bounds[binding]:.3f} x that bound")
    if has_counters(r):
        lines.append(f"  {'unit':32s} {'kind':11s} {'busy':>7s} {'blocked':>8s} {'starved':>8s}")
        listed = r.units if every or len(r.units) <= MOST_UNITS else sorted(r.units, key=lambda u: -u["busy"])[:MOST_UNITS]
        for u in listed:
            lines.append(f"  {u['name'][:32]:32s} {u['kind']:11s} {share(u, 'busy', r.cycles):7.1%} {share(u, 'blocked', r.cycles):8.1%} "
                         f"{share(u, 'starved', r.cycles):8.1%}")
        if len(listed) < len(r.units):
            lines.append(f"  the busiest {len(listed)} of {len(r.units)} units (all of them: --all)")
        lines.append("  bounding chain:")
        lines += [f"    {name}: {why}" for name, why in bounding_chain(r)]
    return "\n".join(lines)


def diff(a: list[Record], b: list[Record]) -> list[dict]:
    """Rows that lay two sets of records side by side, matched by workload, parameters, backend and timing."""
    index = {(r.workload, r.key()[2], r.backend, r.timing): r for r in b}
    rows = []
    for r in a:
        other = index.pop((r.workload, r.key()[2], r.backend, r.timing), None)
        rows.append({"workload": r.workload, **r.params, "backend": r.backend, "timing": r.timing, "cycles A": r.cycles,
                     "cycles B": other.cycles if other else None, "B/A": other.cycles / r.cycles if other else None,
                     "traffic A": r.dram_bytes, "traffic B": other.dram_bytes if other else None,
                     "on-chip A": r.onchip_bytes, "on-chip B": other.onchip_bytes if other else None})
    for r in index.values():
        rows.append({"workload": r.workload, **r.params, "backend": r.backend, "timing": r.timing, "cycles A": None, "cycles B": r.cycles, "B/A": None,
                     "traffic A": None, "traffic B": r.dram_bytes, "on-chip A": None, "on-chip B": r.onchip_bytes})
    return rows
