"""Writes docs/overlay_resources.md from the tables in docs/results/overlay_resources: `python
bench/overlay_resources.py`.

`penstock overlay resources --family FAMILY --out docs/results/overlay_resources/FAMILY` makes them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from penstock.overlay.parts import CAPACITY
from penstock.overlay.resources import COARSE, TABLES
from penstock.overlay.route import DEVICE
from penstock.system.output import write_text
from tables import frame

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "overlay_resources.md"
RECORDS = ROOT / "docs" / "results" / "overlay_resources"


def read(path: Path) -> list[dict]:
    with path.open() as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def records(family: str) -> dict[str, list[dict]]:
    """Tables of one family by name; those that were not made are empty."""
    return {
        name: read(path) if (path := RECORDS / family / f"{name}.csv").exists() else []
        for name in TABLES
    }


def _number(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def cell(value) -> str:
    return (
        ""
        if value is None
        else f"{value:.3g}"
        if isinstance(value, float) and not value.is_integer()
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


def table(rows: list[dict], columns: dict[str, str] | None = None) -> str:
    """Columns by key, with their titles (default: every column that has a value)."""
    columns = columns or {
        k: k
        for k in dict.fromkeys(k for r in rows for k in r)
        if any(r.get(k) is not None for r in rows)
    }
    numeric = [all(isinstance(r.get(k), (int, float, type(None))) for r in rows) for k in columns]
    return frame([*columns.values()], [[cell(r.get(k)) for k in columns] for r in rows], numeric)


SWEPT = {("dynamic", "PE"): "fifo per_edge", ("dynamic", "switch"): "mesh"}
BLOCK = "contexts in block RAM"


def pivot(rows: list[dict], by: str, keep: Callable[[dict], bool]) -> list[dict]:
    """One row per value of ``by``: LUT / FF / block RAM of every part that is swept, and the
    published LUT / FF.
    """
    out: dict[object, dict] = {}
    for r in rows:
        if keep(r) and r["variant"] in (
            SWEPT.get((r["pe"], r["part"])),
            "contexts in LUT RAM",
            BLOCK,
        ):
            row = out.setdefault(r[by], {by: r[by]})
            row[f"{r['pe']} {r['part']}" + (f", {r['variant']}" if r["pe"] == "static" else "")] = (
                f"{r['lut']} / {r['ff']} / {cell(r['bram'])}"
            )
            if r["published lut"] is not None:
                row[f"published {r['pe']} {r['part']}"] = (
                    f"{r['published lut']} / {r['published ff']}"
                )
    return [out[k] for k in sorted(out)]


def tables(found: dict[str, list[dict]]) -> str:
    """The tables of one family."""
    rows = found["resources"]
    beside = "; published: LUT / FF" if any(r["published lut"] is not None for r in rows) else ""
    by_payload = pivot(
        rows, "payload", lambda r: r["contexts"] == CAPACITY and r["variant"] != BLOCK
    )
    by_contexts = pivot(rows, "contexts", lambda r: r["payload"] == 32)
    return f"""### By payload, {CAPACITY} nodes, edges and contexts (LUT / FF / block RAM{beside})

{table(by_payload)}

### By nodes, edges and contexts, 32 bits

The static PE keeps {CAPACITY} values; its contexts and the switch's are swept. The dynamic PE is swept in nodes and edges{"; the published one has one capacity" if beside else ""}.

{table(by_contexts)}

### Dynamic over static (figure 7)

The dynamic PE has its full capacity throughout, as in the paper.

{table(found["ratios"])}

### With ALU

*unit*: latency 1 for every operation; *pipelined*: the latencies of `machine/overlay.py`.

{table(found["alus"])}

### Results per LUT and per block RAM

Operations per 1000 cycles and 1000 LUTs, and per 1000 cycles and block RAM, by the model's cycles (unit latency) on tiles without ALU, and with it. Dynamic tiles have full capacity, static ones the least number of contexts (`capacity`) that
holds the schedule, of those synthesised; {CAPACITY} words are the limit, beyond it a graph has no number.

{table(found["density"])}"""


def full(found: dict[str, list[dict]]) -> str:
    """Every variant at full capacity."""
    return table(
        [r for r in found["resources"] if (r["payload"], r["contexts"]) == (32, CAPACITY)],
        {
            k: k
            for k in (
                "pe",
                "part",
                "variant",
                "lut",
                "lut_ram",
                "ff",
                "bram",
                "published lut",
                "published ff",
            )
            if any(r.get(k) is not None for r in found["resources"])
        },
    )


class Facts:
    """Numbers of the text, taken from one family's tables."""

    def __init__(self, found: dict[str, list[dict]]):
        self.found = found

    def part(self, pe: str, part: str, variant: str) -> dict:
        return next(
            r
            for r in self.found["resources"]
            if (r["pe"], r["part"], r["variant"], r["payload"], r["contexts"])
            == (pe, part, variant, 32, CAPACITY)
        )

    def alu(self, part: str, latency: str = "pipelined") -> dict:
        return next(
            r
            for r in self.found["alus"]
            if (r["part"], r["format"], r["operations"], r["latency"])
            == (part, "fp32", "every operation", latency)
        )

    def best(self, kind: str, key: str) -> dict[tuple, float]:
        """The best number per graph and mesh, of variants whose name begins so; only where both
        kinds of tile fit.
        """
        out: dict[tuple, float] = {}
        for r in self.found["density"]:
            if r["variant"].startswith(kind) and r[key] is not None:
                out[r["graph"], r["mesh"]] = max(out.get((r["graph"], r["mesh"]), 0), r[key])
        return out

    def gain(self, key: str, kind: str = "static") -> str:
        """Range of the best static over the best dynamic tile."""
        dynamic = self.best("dynamic", key)
        static = self.best(kind, key)
        gains = sorted(static[at] / dynamic[at] for at in static if at in dynamic)
        return f"{gains[0]:.2g} to {gains[-1]:.2g}"


def page() -> str:
    xc7 = records("xc7")
    ecp5 = records("ecp5")
    f = Facts(xc7)
    last = xc7["ratios"][-1]
    first = xc7["ratios"][0]
    router = f.part("dynamic", "switch", "mesh")
    hoplite = f.part("dynamic", "switch", "hoplite")
    wide = f.part("dynamic", "switch", "mesh wake2")
    pe = f.part("dynamic", "PE", "fifo per_edge")
    best = f.part("dynamic", "PE", "criticality per_pe")
    wake = f.part("dynamic", "PE", "criticality per_pe wake2")
    switch = f.part("static", "switch", "contexts in LUT RAM")
    static = f.part("static", "PE", "contexts in LUT RAM")
    block = f.part("static", "PE", BLOCK)
    block_switch = f.part("static", "switch", BLOCK)
    share, published_share = (router[k] / (router[k] + pe[k]) for k in ("lut", "published lut"))
    alu = f.alu("ALU")
    least = min(r["contexts"] for r in xc7["resources"] if r["variant"] == BLOCK)
    short = sum(
        r["lut"] for r in xc7["resources"] if (r["variant"], r["contexts"]) == (BLOCK, least)
    )
    text = f"""# What the overlay costs

One PE and one switch, synthesised apart by Yosys, beside figures 5 to 7 of the paper (Vivado HLS, Zynq Z7010). Sections 1 to 4 are for Xilinx 7 (`synth_xilinx -family xc7`), the paper's family; section 5 is for Lattice ECP5. LUTs count those used as memory; a block RAM is one of 36 kbit,
half for 18. PEs are without ALU, as in the paper; packets carry the address of a PE in 16 x 16. Made by `penstock overlay resources --family FAMILY --out docs/results/overlay_resources/FAMILY` (each part is synthesised once and kept: a run that is stopped goes on where it was), then `python bench/overlay_resources.py`.

![figures 5 to 7, and results per LUT and per block RAM](results/overlay_resources/xc7/resources.png)

## 1. At 32 bits, {CAPACITY} nodes, edges and contexts

{full(xc7)}

## 2. What hand-written RTL changes

* The dynamic side shrinks most: the buffered router takes {router["lut"]} LUTs against {router["published lut"]}, and {router["ff"]} flip-flops against {router["published ff"]} (its FIFOs are LUT RAM); the deflection
  router takes {hoplite["lut"]} LUTs; the PE {pe["lut"]} against {pe["published lut"]}, and {pe["ff"]} flip-flops against {pe["published ff"]}. The router's share of the dynamic tile stays ({share:.0%}; published: {published_share:.0%}).
* The static side, little else than memories and multiplexers, has hardly anything to shrink: the PE takes {static["lut"]} LUTs against {static["published lut"]}, the switch {switch["lut"]} against {switch["published lut"]}. {static["lut_ram"]} and {switch["lut_ram"]} of them are
  contexts: these can be loaded while the FPGA runs, and a LUT RAM with a port to write and one to read holds three quarters of what a ROM holds (the paper's 1.05 LUTs per context of 67 bits is a ROM's).
* So the paper's ratio does not survive: with contexts in LUT RAM, dynamic over static is {first["lut, contexts in LUT RAM"]:.2f} in LUTs at {first["contexts"]} contexts (published {first["published lut"]:.2f}) and {last["lut, contexts in LUT RAM"]:.2f} at {last["contexts"]} ({last["published lut"]:.2f}): there the dynamic
  tile is the smaller one. In flip-flops it is {last["ff, contexts in LUT RAM"]:.2f} ({last["published ff"]:.2f}), in block RAM {last["bram, contexts in LUT RAM"]:.2f} ({last["published bram"]:.2f}).
* The advantage comes back from where the schedule lies: with contexts in block RAM, the natural choice at this depth, the static tile takes {short} LUTs at {least} contexts and {block["lut"] + block_switch["lut"]} at {CAPACITY}; the ratio is
  {last["lut, contexts in block RAM"]:.2f} in LUTs and {last["bram, contexts in block RAM"]:.2f} in block RAM.
* What a better dynamic PE costs: criticality order makes it {best["lut"] / pe["lut"]:.1f} times as large ({best["lut"]} LUTs, for ready bits and two leading-one detectors); consumer chains cost a memory ({best["bram"]} block RAMs in all), and no logic to speak of;
  serving two consumers a cycle (`wake` = 2) makes it {wake["lut"] / pe["lut"]:.1f} times as large ({wake["lut"]} LUTs, {cell(wake["bram"])} block RAMs), and the router {wide["lut"]} LUTs for the wider packets.
* With its ALU the difference fades: the pipelined fp32 ALU takes {alu["lut"]} LUTs by itself; the dynamic PE has {f.alu("dynamic PE")["lut"]} with it, the static one (contexts in block RAM) {f.alu("static PE")["lut"]}.
* Results per LUT, best static over best dynamic tile (section 4): {f.gain("ops per kcycle and kLUT", "static multicast, contexts in LUT RAM")} with contexts in LUT RAM, {f.gain("ops per kcycle and kLUT", "static multicast, contexts in block RAM")} with contexts in block RAM;
  {f.gain("ops per kcycle and kLUT, with ALU")} once the ALU is counted; per block RAM {f.gain("ops per kcycle and BRAM")}.

## 3. Block RAM is inferred

Memories read a cycle after their address, at 32 bits and full capacity, and the block RAM that Yosys gave. What is read asynchronously (presence, with criticality the ready bits) and the router's FIFOs are LUT RAM; so are memories of one or two bits or of few words (payloads 1 and 2, 16 and 64 nodes below).

{table(xc7["memories"])}

## 4. Xilinx 7

{tables(xc7)}
"""
    if ecp5["resources"]:
        e = Facts(ecp5)
        steps = (
            ", in larger steps (`--coarse`)"
            if len({r["payload"] for r in ecp5["resources"]}) == len(COARSE["payloads"])
            else ""
        )
        lut, bram = (
            e.part("static", "PE", v)["lut"] + e.part("static", "switch", v)["lut"]
            for v in ("contexts in LUT RAM", BLOCK)
        )
        dynamic = (
            e.part("dynamic", "PE", "fifo per_edge")["lut"]
            + e.part("dynamic", "switch", "mesh")["lut"]
        )
        text += f"""
## 5. Lattice ECP5

`synth_ecp5 -noabc9`{steps}; 4-input LUTs, the two of a carry cell count; a block RAM is one of 18 kbit. LUT RAM is 16 words deep here, four LUTs for 4 bits: contexts in LUT RAM cost {lut / bram:.1f} times the tile with contexts in block RAM ({lut} LUTs against {bram}; the dynamic tile takes {dynamic}).

![the same for ECP5](results/overlay_resources/ecp5/resources.png)

### At 32 bits, {CAPACITY} nodes, edges and contexts

{full(ecp5)}

{table(ecp5["memories"])}

{tables(ecp5)}
"""
    if ecp5["clocks"]:
        text += f"""
## 6. Clock rates

{DEVICE}, placed and routed by nextpnr (`--fmax`), each part by itself between registers on all its ports, so that every path through it is one between registers; 32 bits, {CAPACITY} nodes, edges and contexts, PEs and switches without ALU, tiles with the pipelined one.
`share` is the largest share of the device, of logic cells, block RAM or multipliers: so many tiles fit at most.

{table(ecp5["clocks"])}

{clock_text(ecp5["clocks"])}
"""
    return text


def clock_text(rows: list[dict]) -> str:
    """What the clock rates say."""
    mhz = {(r["part"], r["variant"]): r["mhz"] for r in rows}
    parts = {
        kind: min(
            (
                (v, part, variant)
                for (part, variant), v in mhz.items()
                if part in (f"{kind} PE", f"{kind} switch") and variant in (*SWEPT.values(), BLOCK)
            )
        )
        for kind in ("dynamic", "static")
    }
    told = ", ".join(
        f"{kind} {mhz[f'{kind} tile', 'every operation, pipelined']:.0f} MHz (its parts without "
        f"ALU: {parts[kind][0]:.0f} MHz, the {parts[kind][1].split()[1]} the slower)"
        for kind in parts
    )
    return f"""Tiles with the pipelined ALU: {told}; the ALU by itself: {mhz["ALU, pipelined", "every operation"]:.0f} MHz. The paper's clocks (HLS, Zynq): 10 to 15 ns dynamic, 4 to 6 ns static."""


def main() -> None:
    write_text(PAGE, page())
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
