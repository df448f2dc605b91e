"""The floor plan of a mesh: each tile's block RAMs in its part of the FPGA."""

from itertools import product

import pytest
from penstock.board.floorplan import HEIGHT, SITES, WIDTH, pin


def _netlist(cols: int, rows: int, each: int) -> dict:
    cells = {
        f"board.design.tile_{x}_{y}.pe.values.{k}": {"type": "DP16KD", "attributes": {}}
        for x, y, k in product(range(cols), range(rows), range(each))
    }
    others = {
        "board.streams.0": {"type": "DP16KD", "attributes": {}},
        "board.design.tile_0_0.pe.alu": {"type": "LUT4", "attributes": {}},
    }
    return {"modules": {"LUT4": {}, "top": {"cells": cells | others}}}


def _bels(netlist: dict) -> dict[str, str]:
    cells = netlist["modules"]["top"]["cells"]
    return {name: c["attributes"]["BEL"] for name, c in cells.items() if c["attributes"]}


def test_the_places_are_those_of_the_part():
    assert len(SITES) == len({s.bel for s in SITES}) == 208
    assert {s.bel for s in SITES} >= {"X4/Y22/EBR0", "X102/Y22/EBR3", "X107/Y22/EBR1"}
    assert all(0 < s.x < WIDTH and 0 < s.y < HEIGHT for s in SITES)


@pytest.mark.parametrize(("cols", "rows", "each"), [(4, 4, 8), (2, 2, 7), (4, 2, 9)])
def test_a_tile_has_its_block_rams_in_its_own_part(cols, rows, each):
    netlist = _netlist(cols, rows, each)
    assert pin(netlist, cols, rows) == cols * rows * each
    bels = _bels(netlist)
    assert len(set(bels.values())) == len(bels) == cols * rows * each
    at = {s.bel: s for s in SITES}
    for name, bel in bels.items():
        x, y = map(int, name.split(".")[2].split("_")[1:])
        assert abs(at[bel].x - (x + 0.5) * WIDTH / cols) <= 0.75 * WIDTH / cols
        assert abs(at[bel].y - (y + 0.5) * HEIGHT / rows) <= 0.75 * HEIGHT / rows


def test_parts_beyond_the_plan_are_left_to_the_placer():
    netlist = _netlist(4, 4, 14)
    assert pin(netlist, 4, 4) == len(SITES)
    assert len(_bels(netlist)) == len(SITES)
