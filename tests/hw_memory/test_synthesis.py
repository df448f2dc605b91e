"""The memory side synthesises, and its memories become block RAM and distributed RAM."""

import json

import pytest
from amaranth.back import rtlil
from penstock.hw.beat import Payloads
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.load import Load
from penstock.hw.memory.random_store import RandomStore
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.hw.memory.store import Store
from penstock.hw.yosys import yosys
from penstock.machine.beat import BufferRef, Scalar, Tile
from penstock.machine.config import Dram, Machine
from penstock.testing.names import nameless

CONFIG = Machine(
    t=4, dtype="bf16", port_lanes=1, load_lines=64, rows_per_cycle=4, dram=Dram(kind="ideal")
)
TILE = Tile(4, "bf16")
REFERENCE = BufferRef(64)
SCRATCHPAD = {
    "pages": 64,
    "frames": 8,
    "writers": [{"rank": 1}],
    "limit": [64],
    "readers": [{"rank": 1, "repeat_dim": True}],
    "repeat": [1],
}

DESIGNS = {
    "load": lambda: Load(params={"rank": 2}, t=4, config=CONFIG, payloads=Payloads((), (TILE,))),
    "load by address": lambda: Load(
        params={"rank": 0, "trigger": "address"},
        t=4,
        config=CONFIG,
        payloads=Payloads((Scalar(32),), (TILE,)),
    ),
    "store": lambda: Store(params={}, t=4, config=CONFIG, payloads=Payloads((TILE,), ())),
    "random store": lambda: RandomStore(
        params={}, t=4, config=CONFIG, payloads=Payloads((Scalar(32), TILE), (Scalar(1),))
    ),
    "interconnect": lambda: Interconnect(ports=["read", "write"], config=CONFIG),
    "affine scratchpad": lambda: Scratchpad(
        params=SCRATCHPAD
        | {
            "readers": [{"rank": 2, "repeat_dim": True, "affine": 2}],
            "shape": [1, 1],
            "stride": [0, 0],
        },
        t=4,
        config=CONFIG,
        posts=2,
        drops=True,
        payloads=Payloads((TILE, REFERENCE), (REFERENCE, TILE)),
    ),
    "scratchpad": lambda: Scratchpad(
        params=SCRATCHPAD,
        t=4,
        config=CONFIG,
        posts=1,
        payloads=Payloads((TILE, REFERENCE), (REFERENCE, TILE)),
    ),
}
BLOCK_RAMS = {
    "load": 0,  # blocks are four deep: distributed RAM
    "load by address": 0,
    "store": 0,
    "random store": 0,
    "interconnect": 15,  # 64 lines of 512 bits in 512 x 36
    "affine scratchpad": 8,
    "scratchpad": 8,  # 512 tiles of 16 x 16 + 11 bits
}


@pytest.mark.parametrize("name", DESIGNS)
def test_memories_are_inferred(name, tmp_path):
    text = rtlil.convert(DESIGNS[name]())
    assert nameless(text) == []
    (tmp_path / "design.il").write_text(text)
    script = (
        "read_rtlil design.il; synth_ecp5 -run begin:map_gates; check -assert; tee -q -o "
        "stat.json stat -json"
    )
    assert not (done := yosys(script, tmp_path)).returncode, done.stdout + done.stderr
    cells = json.loads((tmp_path / "stat.json").read_text())["design"]["num_cells_by_type"]
    assert cells.get("DP16KD", 0) == BLOCK_RAMS[name]
    assert not [cell for cell in cells if "latch" in cell or cell.startswith("$mem")]
