"""Bits of a scratchpad besides its tiles, counted in exported Verilog."""

import pytest
from penstock.frontend import build, lower
from penstock.hw.beat import Payloads
from penstock.hw.export import export
from penstock.hw.export.memories import by_class, memories
from penstock.hw.fabric import Fabric
from penstock.hw.memory.scratchpad import Scratchpad
from penstock.hw.units.fifo import Fifo
from penstock.machine.beat import BufferRef, Tile
from penstock.machine.config import Config, Dram, Machine, Stepsim, load
from penstock.machine.kinds import scratchpad as kinds
from penstock.machine.kinds.uses import USES
from penstock.machine.limits import metadata_bits
from penstock.machine.memories import memory_bits
from penstock.runs import regress
from penstock.testing.buffers import buffers

CONFIG = Machine(
    t=4, dtype="bf16", port_lanes=1, load_lines=64, rows_per_cycle=4, dram=Dram(kind="ideal")
)
TILES = "tiles in scratchpads"
KEPT = "pages and counts of scratchpads"


def exported(pages, frames, t, writers=1):
    tile = Tile(t, "bf16")
    reference = BufferRef(pages)
    pad = Scratchpad(
        kind=kinds.Scratchpad(
            pages=pages,
            frames=frames,
            writers=[{"rank": 1}] * writers,
            limit=[pages] * writers,
            readers=[{"rank": 1, "repeat_dim": True}],
            repeat=[1],
        ),
        t=t,
        config=CONFIG,
        payloads=Payloads((*[tile] * writers, reference), (*[reference] * writers, tile)),
    )
    done = export(pad)
    modules = [{"name": done.top, "kind": "scratchpad"}]
    return by_class(done.verilog, done.sidecar | {"modules": modules})


@pytest.mark.parametrize("pages, writers", [(2, 1), (64, 1), (64, 3), (100, 16)])
def test_stated_memory_bits_are_exported(pages, writers):
    found = exported(pages, 8, 4, writers)
    assert found[KEPT] == metadata_bits(pages, writers=writers)


@pytest.mark.parametrize(
    ("t", "frames"), [*(pytest.param(16, n, marks=pytest.mark.deep) for n in (8, 2)), (4, 8)]
)
def test_a_scratchpad_of_512_kb_keeps_little_besides_its_tiles(t, frames):
    tile = Tile(t, "bf16")
    pages = (8 * 512 << 10) // (frames * t * t * tile.element_bits)
    found = exported(pages, frames, t, writers=16)
    assert found[TILES] >= 8 * 512 << 10
    assert 0 < found[KEPT] <= 0.06 * found[TILES]


def held(graph, config):
    """Bits stated by units and channels equal those exported, use by use."""
    done = export(Fabric(graph, config))
    found = by_class(done.verilog, done.sidecar)
    assert memory_bits(graph, config.machine) == {use: found[use] for use in USES}


def test_memory_bits_of_scratchpads_of_every_form_are_exported():
    held(buffers(4, "bf16").graph(), Config("buffers", CONFIG, Stepsim()))


def test_memory_bits_of_units_are_exported():
    config = load("array_tiny")
    held(lower(build("swiglu", {}, config).graph, config), config)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["swiglu small_fpga", "moe dynamic", "attention dynamic"])
def test_memory_bits_of_units_of_a_regression_are_exported(name):
    (design,) = (d for d in regress.DESIGNS if d.name == name)
    config = design.machine()
    program = build(design.program, design.points[0], config)
    held(lower(program.graph, config), config)


def test_a_memory_in_several_instances_counts_as_often():
    verilog = """
module leaf(clk);
  reg [7:0] words [15:0];
endmodule

module top(clk);
  leaf  one (
    .clk(clk)
  );
  leaf  two (
    .clk(clk)
  );
  reg  bits [3:0];
endmodule
"""
    found = {m.name: m.bits for m in memories(verilog, "top")}
    assert found == {"words": 2 * 8 * 16, "bits": 4}


def test_the_memory_of_a_fifo_is_its_beats():
    done = export(Fifo(shape=24, depth=16))
    found = memories(done.verilog, done.top)
    assert sum(m.bits for m in found) >= 24 * 16
