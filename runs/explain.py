"""Why a run took as long as it did: cycles per unit, the chain that bounds the run, and the
roofline.
"""

from __future__ import annotations

from ..machine.errors import PenstockError
from ..machine.kinds import KINDS
from ..machine.record import TERMS, Record
from .links import link_of


def share(unit: dict, name: str, cycles: int) -> float:
    """Fraction of the run that a unit spent in a state (``busy``, ``blocked``, ``starved``)."""
    return (unit[name] or 0) / cycles if cycles else 0.0


def _is(unit: dict, attribute: str):
    """An attribute of a unit's kind; a kind from outside that is not registered here has none."""
    return getattr(KINDS.get(unit["kind"]), attribute, None)


def has_counters(r: Record) -> bool:
    """True if the record splits cycles per unit (the `machine` timing does)."""
    return (
        r.timing == "machine"
        and bool(r.units)
        and all(None not in (u["busy"], u["blocked"], u["starved"]) for u in r.units)
    )


MEMORY_BOUND = 0.7
"""Share of the bandwidth from which on the off-chip memory may be the limit."""


def bounding_chain(r: Record) -> list[tuple[str, str]]:
    """Units from the end of the run back to its bound, each with the reason to go on or to stop.

    The walk starts at the store (or sink). A unit that mostly starves waits for its emptiest input;
    one that is mostly blocked waits for its fullest output; one that is busy most of the time, or a
    load that a starving unit waits for, is the bound.
    """
    units = {u["name"]: u for u in r.units}
    if not has_counters(r):
        raise PenstockError(
            "the record has no busy/blocked/starved counters",
            remedy="make it with --timing machine",
        )
    into = {n: [] for n in units}
    out_of = {n: [] for n in units}
    for c in r.channels:
        if c["src"] != c["dst"]:
            into[c["dst"]].append(c)
            out_of[c["src"]].append(c)
    at = next((u["name"] for u in r.units if _is(u, "ends_run")), r.units[-1]["name"])
    chain = []
    seen = set()
    while at not in seen:
        seen.add(at)
        u = units[at]
        if _is(u, "offchip") == "read":
            used = r.offchip_utilisation
            if used is None:
                why = "waits for the off-chip memory"
            elif used >= MEMORY_BOUND:
                why = f"waits for the off-chip memory, of whose bandwidth the run uses {used:.0%}"
            else:
                why = f"a load; its memory is not the limit ({used:.0%} of the bandwidth used)"
            chain.append((at, why))
            break
        state = max(("busy", "blocked", "starved"), key=lambda s: u[s] or 0)
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
    """Bounds in cycles by traffic and by allocated compute (where the record has them), and the
    operational intensity in FLOP/B.
    """
    out = {"intensity": (r.flops or 0) / r.offchip_bytes if r.offchip_bytes else 0.0}
    if r.dram_bytes is not None and r.offchip_bytes_per_cycle:
        out["traffic"] = r.dram_bytes / r.offchip_bytes_per_cycle
    if r.flops is not None and r.allocated_flops_per_cycle:
        out["compute"] = r.flops / r.allocated_flops_per_cycle
    return out


MOST_UNITS = 80
"""Units that the report lists, where not all are asked for."""


def text(r: Record, every: bool = False) -> str:
    """The report of `penstock explain`; of more than ``MOST_UNITS`` units the busiest, unless
    ``every`` one is asked for.
    """
    lines = [f"{r.workload} on {r.config}, {r.backend}, {r.timing} timing: {r.cycles} cycles"]
    if r.overlay is not None:
        lines += _overlay(r, r.overlay)
    elif r.schedule is not None:
        lines += _schedule(r.schedule)
    else:
        lines += _roofs(r)
    if r.bound_cycles:
        lines.append(
            f"  bound:    at least {r.bound_cycles} cycles, by {r.bound_by}; the run is "
            f"{r.cycles / r.bound_cycles:.3f} x that"
        )
    if r.bound_onchip_bytes and r.onchip_peak_bytes:
        lines.append(
            f"  on chip:  at least {r.bound_onchip_bytes} B in pages; the run had "
            f"{r.onchip_peak_bytes / r.bound_onchip_bytes:.3f} x that"
        )
    if has_counters(r):
        lines += _units(r, every)
    return "\n".join(lines)


def _roofs(r: Record) -> list[str]:
    lines = []
    bounds = roofline(r)
    if "traffic" in bounds:
        used = (
            ""
            if r.offchip_utilisation is None
            else f", {r.offchip_utilisation:.1%} of the bandwidth used"
        )
        lines.append(
            f"  off-chip: {r.dram_bytes} B moved in {bounds['traffic']:.0f} cycles at peak{used}"
        )
    if r.dram is not None:
        lines += _rows(r.dram)
    if "compute" in bounds:
        lines.append(
            f"  compute:  {r.flops} FLOP, {bounds['compute']:.0f} cycles if all "
            f"{r.allocated_flops_per_cycle} FLOP/cycle worked; "
            f"intensity {bounds['intensity']:.2f} FLOP/B of {r.offchip_bytes} B traffic"
        )
    binding = max(
        (k for k in ("traffic", "compute") if bounds.get(k)), key=lambda k: bounds[k], default=None
    )
    if binding:
        lines.append(
            f"  roofline: {binding} binds; the run is {r.cycles / bounds[binding]:.3f} x that bound"
        )
    return lines


def _rows(counted: dict[str, list[int]]) -> list[str]:
    """Rows as requests found them, and the evenness of the channels' shares."""
    lines = [r + w for r, w in zip(counted["read"], counted["wrote"], strict=True)]
    total = sum(lines)
    if not total:
        return []
    found = {name: sum(counted[name]) for name in ("hits", "misses", "conflicts")}
    shares = ", ".join(f"{n / total:.1%} {name}" for name, n in found.items())
    busiest = lines.index(max(lines))
    used = sum(n > 0 for n in lines)
    return [
        f"  rows:     {shares}; {sum(counted['activations'])} activations, "
        f"{sum(counted['refreshes'])} refreshes",
        f"  channels: {used} of {len(lines)} used; channel {busiest} has "
        f"{lines[busiest] / total:.1%} of the lines (even: {1 / len(lines):.1%})",
    ]


def _units(r: Record, every: bool) -> list[str]:
    lines = [f"  {'unit':32s} {'kind':11s} {'busy':>7s} {'blocked':>8s} {'starved':>8s}"]
    listed = (
        r.units
        if every or len(r.units) <= MOST_UNITS
        else sorted(r.units, key=lambda u: -u["busy"])[:MOST_UNITS]
    )
    lines += [
        f"  {u['name'][:32]:32s} {u['kind']:11s} {share(u, 'busy', r.cycles):7.1%} "
        f"{share(u, 'blocked', r.cycles):8.1%} "
        f"{share(u, 'starved', r.cycles):8.1%}"
        for u in listed
    ]
    if len(listed) < len(r.units):
        lines.append(f"  the busiest {len(listed)} of {len(r.units)} units (all of them: --all)")
    lines.append("  bounding chain:")
    lines += [f"    {name}: {why}" for name, why in bounding_chain(r)]
    return lines + _links(r)


MOST_LINKS = 5
"""Links that the report lists."""


def busiest_links(r: Record) -> list[tuple[str, int, float]]:
    """Links in use of each array: name, tracks in use, and the beats a cycle of the busiest of
    these; the busiest link first.
    """
    shares: dict[str, list[float]] = {}
    for u in r.units:
        link = link_of(u["kind"], u["name"])
        if link is not None:
            shares.setdefault(link.whole, []).append(share(u, "busy", r.cycles))
    found = [(name, len(used), max(used)) for name, used in shares.items()]
    return sorted(found, key=lambda one: (-one[2], -one[1], one[0]))


def _links(r: Record) -> list[str]:
    found = busiest_links(r)
    if not found:
        return []
    in_use = sum(tracks for _, tracks, _ in found)
    lines = [f"  links: {in_use} tracks of {len(found)} links in use; the busiest:"]
    return lines + [
        f"    {name}: {tracks} tracks, a beat in {most:.1%} of the cycles on one"
        for name, tracks, most in found[:MOST_LINKS]
    ]


def _overlay(r: Record, o: dict) -> list[str]:
    """Explanation of a dataflow graph: the bound of its run, the use of PEs and links, and its
    resources.
    """
    bounds = {k: v for k, v in o["bounds"].items() if k != "best"}
    binding = max(bounds, key=lambda k: bounds[k])
    over = f"; the run is {r.cycles / bounds[binding]:.3f} x that" if bounds[binding] else ""
    lines = [
        f"  graph:    {o['nodes']} nodes, {o['edges']} edges, depth {o['depth']}; "
        f"{o['nodes_per_pe']} nodes on the fullest PE, {o['cut_edges']} edges between PEs",
        f"  bounds:   {', '.join(f'{k} {v}' for k, v in bounds.items())} cycles: {binding} "
        f"binds{over}",
    ]
    used = [
        f"{what} {value:.1%}"
        for what, value in (
            ("ALUs", r.compute_utilisation),
            ("links", o.get("link_use")),
            ("PEs' memories", o.get("pe_use")),
        )
        if value is not None
    ]
    if used:
        lines.append(f"  used:     {', '.join(used)}")
    return [*lines, f"  memories: {o['memory_bits']} bits"]


def _schedule(s: dict) -> list[str]:
    """Explanation of a schedule: predicted and simulated cycles, in all and by program, and the
    terms of the difference.
    """
    terms = "".join(f" {title:>16s}" for title in TERMS.values())
    lines = [
        f"  predicted {s['predicted']:.0f} cycles, {s['ratio']:.3f} x what the run took",
        f"  {'subgraphs':>9s} {'predicted':>12s}{terms} {'cycles':>12s} busiest",
    ]
    for g in s["programs"]:
        entries = g["ledger"] or {}
        given = "".join(f" {entries.get(name, float('nan')):16.0f}" for name in TERMS)
        lines.append(
            f"  {','.join(map(str, g['subgraphs'])):>9s} {g['predicted']:12.0f}{given} "
            f"{g['cycles']:12d} {entries.get('busiest', '')}"
        )
    return lines


PARTS = {
    "unit": ("units", ("busy", "blocked", "starved")),
    "tensor": ("tensors", ("offchip_bytes", "read_bytes", "written_bytes")),
}
"""Parts of a record that are laid side by side, and their numbers."""


def diff(a: list[Record], b: list[Record], by: str = "record") -> list[dict]:
    """Rows that lay two sets of records side by side.

    ``by``: a row for each record, or for each unit or off-chip tensor that is not alike in both.

    Records of one workload with the same parameters, backend and timing are laid side by side:
    first those of the same configuration and seed, then what is left of them, with both
    configurations and both seeds. A record without a partner has a row of its own.
    """
    left = list(b)
    partners: dict[int, Record] = {}
    for key in (_exact, _loose):
        for i, r in enumerate(a):
            if i not in partners and (found := next((o for o in left if key(o) == key(r)), None)):
                partners[i] = found
                left.remove(found)
    pairs = [(r, partners.get(i)) for i, r in enumerate(a)] + [(None, r) for r in left]
    if by == "record":
        return [_row(r, s) for r, s in pairs]
    return [row for r, s in pairs for row in _part_rows(r, s, by)]


def _part_rows(a: Record | None, b: Record | None, by: str) -> list[dict]:
    """Rows of the parts, by name, whose numbers differ; those that differ most first."""
    part, numbers = PARTS[by]
    mine, other = ({p["name"]: p for p in getattr(r, part)} if r else {} for r in (a, b))
    one = a or b
    assert one is not None
    rows = []
    for name in mine | other:
        both = [(mine.get(name, {}).get(n), other.get(name, {}).get(n)) for n in numbers]
        if most := max(abs((y or 0) - (x or 0)) for x, y in both):
            shown = {
                f"{n} {side}": v
                for n, pair in zip(numbers, both, strict=True)
                for side, v in zip("AB", pair, strict=True)
            }
            first = {"workload": one.workload, **one.params, "backend": one.backend}
            rows.append((most, {**first, by: name, **shown}))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def _loose(r: Record) -> tuple:
    return r.workload, r.key()[2], r.backend, r.timing


def _exact(r: Record) -> tuple:
    return *_loose(r), r.config, r.seed


def _row(a: Record | None, b: Record | None) -> dict:
    given = [r for r in (a, b) if r is not None]
    one = given[0]

    def both(name: str):
        """The value of both, or the two."""
        values = [getattr(r, name) for r in given]
        return values[0] if values[0] == values[-1] else f"{values[0]} | {values[-1]}"

    out = {
        "workload": one.workload,
        "config": both("config"),
        **one.params,
        "seed": both("seed"),
        "backend": one.backend,
        "timing": one.timing,
    }
    for title, name in (
        ("cycles", "cycles"),
        ("traffic", "dram_bytes"),
        ("on-chip", "onchip_bytes"),
    ):
        out |= {f"{title} A": a and getattr(a, name), f"{title} B": b and getattr(b, name)}
        if name == "cycles":
            out["B/A"] = b.cycles / a.cycles if a and b and a.cycles else None
    return out
