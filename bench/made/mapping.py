"""What the mapping of addresses to channels and banks does to each
workload, on the machine with HBM2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.machine.config import Config, load
from penstock.runs import api
from records import Record, on_model, preset

PRESET = "paper_hdl_hbm2"
MAPPINGS = {
    "channels": "channel column pseudo_channel bank_group bank row",
    "columns": "column channel pseudo_channel bank_group bank row",
    "pseudo-channels": "channel pseudo_channel column bank_group bank row",
    "bank groups": "channel bank_group column pseudo_channel bank row",
    "banks": "channel pseudo_channel bank_group bank column row",
    "rows": "channel row pseudo_channel bank_group bank column",
}
"""Short name -> fields from the lowest bit on."""
WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "swiglu": ("swiglu", {}),
    "simple_moe": ("simple_moe", {}),
    "moe static": ("moe", {"tile_rows": 4}),
    "moe dynamic": ("moe", {"tile_rows": 0}),
    "attention coarse": ("attention", {"parallel": "coarse"}),
    "attention interleaved": ("attention", {"parallel": "interleaved"}),
    "attention dynamic": ("attention", {"parallel": "dynamic"}),
    "published_attention": ("published_attention", {}),
}


def machine(mapping: str) -> Config:
    """The machine with another mapping."""
    config = load(PRESET)
    dram = config.machine.dram
    mapped = replace(dram, hbm2=replace(dram.hbm2, mapping=MAPPINGS[mapping]))
    return replace(config, machine=replace(config.machine, dram=mapped))


def run(case: str) -> dict:
    """A workload on all mappings."""
    program, params = WORKLOADS[case]
    return {"rows": [row(name, program, params) for name in MAPPINGS]}


def row(mapping: str, program: str, params: dict) -> dict[str, Any]:
    """What the memory counted."""
    (record,) = api.run(program, machine(mapping), params, values=False)
    counted = record.dram
    lines = [r + w for r, w in zip(counted["read"], counted["wrote"], strict=True)]
    return {
        "mapping": mapping,
        "cycles": record.cycles,
        "bound_cycles": record.bound_cycles,
        "lines": sum(lines),
        "busiest": max(lines) * len(lines) / sum(lines),
        **{name: sum(counted[name]) for name in ("hits", "misses", "conflicts", "forwarded")},
    }


RECORD = Record(
    "mapping",
    cases=lambda: WORKLOADS,
    run=run,
    sources=lambda case: on_model(
        "bench/made/mapping.py", f"workloads/{WORKLOADS[case][0]}.py", preset(PRESET)
    ),
)
