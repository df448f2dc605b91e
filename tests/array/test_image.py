"""Images of an array: what is set is read back, and a file that is not whole or of another array is
refused with one message.
"""

import pytest
from penstock.cli import main
from penstock.machine.array.image import decoded, encoded, read
from penstock.machine.array.registers import Block, Layout, based
from penstock.machine.array.structure import Structure
from penstock.machine.config import load
from penstock.runs.point import Point
from penstock.scheduler.array.mapping import map_program

TINY = load("array_tiny")


@pytest.fixture(scope="module")
def placed():
    """SwiGLU on the smallest array: its structure, the placed graph, the image."""
    structure = Structure(TINY)
    point = Point("swiglu", TINY, dict(TINY.defaults["swiglu"]))
    graph = map_program(point.graph, TINY.array).graph
    return structure, graph, encoded(structure, graph)


def test_every_slot_in_use_is_set_to_its_unit(placed):
    structure, graph, image = placed
    found = {x.block.name: (x.label, x.values) for x in decoded(image, structure)}
    units = graph.meta["array"]["units"]
    for unit, (what, at) in zip(graph.units, units, strict=True):
        if what == "slot":
            label, values = found[structure.network.slots[at].name]
            assert label.split()[0] == unit.kind.name
            for param in ("base", "count", "chunk", "reduce"):
                given = getattr(unit.kind, param, None)
                assert values.get(param, given) == given
    used = sum(values.get("used", 0) for _, values in found.values())
    assert used == sum(what == "slot" for what, _ in units)


def test_every_hop_is_an_output_of_its_switch(placed):
    structure, graph, image = placed
    found = {x.block.name: x.values for x in decoded(image, structure)}
    chosen = sum(bool(x) for s in structure.switches for x in found[s.name].values())
    hops = [u for u in graph.units if u.name.startswith("hop_")]
    assert chosen == sum(u.kind.n for u in hops) > 0


def test_a_file_is_read_back(placed, tmp_path):
    structure, _, image = placed
    path = tmp_path / "image"
    path.write_bytes(image.to_bytes(structure))
    assert read(path, structure) == image


def cut(raw):
    return raw[:-8]


def flipped(raw):
    return raw[:40] + bytes([raw[40] ^ 4]) + raw[41:]


def no_image(raw):
    return b"\0" * len(raw)


@pytest.mark.parametrize(
    ("change", "array", "found"),
    [
        (cut, "array_tiny", "bytes, and its head says"),
        (flipped, "array_tiny", "another checksum"),
        (no_image, "array_tiny", "no image of an array"),
        (bytes, "array_small", "is of another array"),
    ],
)
def test_dump_says_in_one_message_what_is_wrong(change, array, found, placed, tmp_path, capsys):
    structure, _, image = placed
    path = tmp_path / "image"
    path.write_bytes(change(image.to_bytes(structure)))
    assert main(["array", "dump", str(path), "--array", array]) == 1
    shown = capsys.readouterr()
    assert found in shown.err
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_an_image_of_the_larger_array_takes_8_kib_without_its_tables():
    structure = Structure(load("array_small"))
    registers = sum(block.layout.registers for block in structure.blocks)
    assert 4 * registers <= 8192


def test_blocks_share_no_address():
    layouts = [Layout.of({f"x{k}": 32 for k in range(n)}) for n in (3, 1, 0, 5, 2)]
    blocks = based([Block(f"b{k}", layout) for k, layout in enumerate(layouts)])
    addresses = [a for block in blocks for a in block.addresses]
    assert len(set(addresses)) == len(addresses) == 11
    assert all(block.base % block.span == 0 for block in blocks)
