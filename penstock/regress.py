"""`penstock regress`: designs that the RTL and the model must agree on, beat for beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.machine.config import Config, check, load
from penstock.machine.errors import PenstockError, RunError
from penstock.machine.record import Record

from . import api


@dataclass(frozen=True)
class Design:
    """A program at several points on one machine (one simulator build where the structure is equal)."""

    name: str
    config: str
    points: tuple[dict, ...]
    units: int = 1

    def machine(self) -> Config:
        config = load(self.config)
        if self.units == 1:
            return config
        return check(replace(config, name=f"{config.name}_x{self.units}",
                             machine=replace(config.machine, units={"matmul": self.units, "map": self.units})))


def _p(batch: int, dim: int, inter: int, tile_b: int, tile_inter: int) -> dict:
    return {"batch": batch, "dim": dim, "inter": inter, "tile_b": tile_b, "tile_inter": tile_inter}


SMALL = (_p(8, 16, 16, 4, 8), _p(8, 16, 24, 8, 8), _p(16, 8, 16, 8, 16), _p(6, 10, 12, 6, 6), _p(10, 18, 14, 5, 7), _p(4, 4, 4, 4, 4))
WIDE = (_p(32, 64, 64, 16, 32), _p(64, 64, 64, 64, 64), _p(16, 32, 96, 16, 48), _p(40, 72, 56, 20, 28), _p(24, 40, 40, 24, 40))
FIG8 = tuple({"tile_b": b, "tile_inter": i} for b in (16, 32, 64) for i in (16, 32, 64, 128, 256))

DESIGNS = (
    Design("swiglu small_fpga", "small_fpga", SMALL),
    Design("swiglu small_fpga x2", "small_fpga", SMALL[:3], units=2),
    Design("swiglu small_fpga x4", "small_fpga", SMALL[:3], units=4),
    Design("swiglu paper_hdl_bf16", "paper_hdl_bf16", WIDE),
    Design("swiglu fig8", "fig8", FIG8),
)


def run(only: str | None, progress: Callable[[str], None], designs: tuple[Design, ...] = DESIGNS) -> tuple[list[Record], list[dict]]:
    """Run every design whose name contains ``only``; returns all records and one table row per point."""
    chosen = [d for d in designs if not only or only in d.name]
    if not chosen:
        raise PenstockError(f"no design's name contains {only!r}", remedy=f"designs: {', '.join(d.name for d in designs)}")
    records, rows = [], []
    for d in chosen:
        progress(d.name)
        try:
            got = api.run_points("swiglu", d.machine(), list(d.points), on="both", timing="machine", values=True, seed=0, progress=progress)
        except RunError as e:
            rows.append({"design": d.name, "point": str(e), "mismatches": 1})
            continue
        records += got
        rows += [row(d.name, m, r) for m, r in zip(got[: len(got) // 2], got[len(got) // 2 :])]
    return records, rows


def row(name: str, model: Record, rtl: Record) -> dict:
    """One line of the regression table."""
    return {"design": name, "point": " ".join(f"{k}={v}" for k, v in rtl.params.items()), "cycles RTL": rtl.cycles, "cycles model": model.cycles,
            "mismatches": rtl.mismatches + (not rtl.values_ok), "channels": f"{rtl.channels_observed}/{rtl.channels_total}", "values": rtl.values_ok,
            "max rel err": rtl.max_rel_err, "traffic B": rtl.dram_bytes, "wall s": rtl.wall_s, "RTL cycles/s": round(rtl.cycles / rtl.wall_s)}
