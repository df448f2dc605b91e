"""The memory side synthesises, and its memories become block RAM and distributed RAM."""

import json
import re

import pytest
from amaranth.back import rtlil
from penstock.hw.beat import Payloads
from penstock.hw.export import export
from penstock.hw.memory.counts import ReferenceCounts
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.load import Load
from penstock.hw.memory.pages import PageList
from penstock.hw.memory.random_store import RandomStore
from penstock.hw.memory.ring import Ring
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.hw.memory.store import Store
from penstock.hw.yosys import yosys
from penstock.machine.beat import BufferRef, Scalar, Tile
from penstock.machine.config import Dram, Machine
from penstock.machine.kinds import offchip, scratchpad
from penstock.testing.names import nameless

CONFIG = Machine(
    t=4, dtype="bf16", port_lanes=1, load_lines=64, rows_per_cycle=4, dram=Dram(kind="ideal")
)
TILE = Tile(4, "bf16")
REFERENCE = BufferRef(64)
SCRATCHPAD = scratchpad.Scratchpad(
    pages=64,
    frames=8,
    writers=[{"rank": 1}],
    limit=[64],
    readers=[{"rank": 1, "repeat_dim": True}],
    repeat=[1],
)

DESIGNS = {
    "load": lambda: Load(
        kind=offchip.Load.of({"rank": 2}), t=4, config=CONFIG, payloads=Payloads((), (TILE,))
    ),
    "load by address": lambda: Load(
        kind=offchip.Load.of({"rank": 0, "trigger": "address"}),
        t=4,
        config=CONFIG,
        payloads=Payloads((Scalar(32),), (TILE,)),
    ),
    "store": lambda: Store(
        kind=offchip.Store.of({}), t=4, config=CONFIG, payloads=Payloads((TILE,), ())
    ),
    "random store": lambda: RandomStore(
        kind=offchip.RandomStore.of({}),
        t=4,
        config=CONFIG,
        payloads=Payloads((Scalar(32), TILE), (Scalar(1),)),
    ),
    "interconnect": lambda: Interconnect(ports=["read", "write"], config=CONFIG),
    "affine scratchpad": lambda: Scratchpad(
        kind=SCRATCHPAD.but(
            readers=[{"rank": 2, "repeat_dim": True, "affine": 2}], shape=[1, 1], stride=[0, 0]
        ),
        t=4,
        config=CONFIG,
        posts=2,
        drops=True,
        payloads=Payloads((TILE, REFERENCE), (REFERENCE, TILE)),
    ),
    "scratchpad": lambda: Scratchpad(
        kind=SCRATCHPAD,
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

QUICK = set(BLOCK_RAMS) - {"load by address", "random store"}


RINGS = {  # groups, lanes, lines that come in a cycle: block RAMs, LUT RAMs of 16 x 4, flip-flops
    "two responses": (4, 2, 2, 0, 2 * 2 * 128, 0),
    "four responses": (4, 1, 4, 0, 4 * 128, 0),
    "two responses, deep": (64, 1, 2, 2 * 15, 0, 2 * 512),
}
"""Flip-flops: those that hold lines. A line has 512 bits, and a block RAM is 36 wide."""


@pytest.mark.parametrize("name", RINGS)
def test_ring_has_a_bank_of_one_write_port_for_each_response(name, tmp_path):
    groups, lanes, responses, blocks, lut_rams, late = RINGS[name]
    cells = synthesised(Ring(groups=groups, lanes=lanes, responses=responses, line=512), tmp_path)
    assert cells.get("DP16KD", 0) == blocks
    assert cells.get("TRELLIS_DPR16X4", 0) == lut_rams
    table = groups * lanes * (1 + (responses - 1).bit_length())
    assert flip_flops(cells) - table - late in range(CONFIG.widths.line // 8)


@pytest.mark.parametrize("bits", [8, pytest.param(12, marks=pytest.mark.deep)])
def test_the_state_of_pages_is_lut_ram(bits, tmp_path):
    """Links, marks and reference counts of many pages; registers are the head of the free list, its
    length and the first page never taken.
    """
    pages = 1 << bits
    assert flip_flops(synthesised(PageList(pages=pages), tmp_path)) == 3 * (bits + 1)
    counts = ReferenceCounts(pages=pages, page_bits=bits, posts=1)
    assert flip_flops(synthesised(counts, tmp_path)) == 0


def test_a_page_that_may_be_dropped_has_one_flip_flop(tmp_path):
    counts = ReferenceCounts(pages=256, page_bits=8, posts=1, drops=True)
    assert flip_flops(synthesised(counts, tmp_path)) == 256


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.deep) for n in DESIGNS]
)
def test_memories_are_inferred(name, tmp_path):
    assert nameless(rtlil.convert(DESIGNS[name]())) == []
    cells = synthesised(DESIGNS[name](), tmp_path)
    assert cells.get("DP16KD", 0) == BLOCK_RAMS[name]
    assert not [cell for cell in cells if "latch" in cell or cell.startswith("$mem")]


def synthesised(component, folder):
    """Cells of a component by type, before they become gates; words' with their width."""
    (folder / "design.v").write_text(export(component).verilog)
    script = (
        "read_verilog design.v; synth_ecp5 -run begin:map_gates; opt_merge; check -assert; "
        "tee -q -o stat.json stat -width -json"
    )
    assert not (done := yosys(script, folder)).returncode, done.stdout + done.stderr
    return json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]


def flip_flops(cells):
    """Bits in flip-flops."""
    found = {cell: re.match(r"\$a?s?dffs?r?e?_(\d+)", cell) for cell in cells}
    return sum(cells[cell] * int(match[1]) for cell, match in found.items() if match)
