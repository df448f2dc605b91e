"""An array that is configured for a program: each beat, line and counter is the model's."""

import struct

import numpy as np
import cocotb
import pytest
from penstock import model
from penstock.runs import array, array_rtl
from penstock.system.sources import PACKAGE
from penstock.tb import leaving
from penstock.tb.tops import WrittenTop, simulate
from penstock.testing.agents import Bench, ConfigDriver, bits

ARRAY = "array_tiny"
STREAMED = str(PACKAGE / "tests" / "array" / "stream_program.py")
SIZE = {"batch": 4, "dim": 4, "inter": 4, "tile_b": 2, "tile_inter": 2}
HEAD = 3
"""Words of an image before its blocks."""


def write(folder):
    array_rtl.verilog(ARRAY, out=folder, bench=array.place("swiglu", ARRAY, SIZE))


TOP = WrittenTop("penstock_array", write)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def test_beats_equal_the_models(dut):
    leaving.HERE = TOP.folder
    await leaving.every_beat_is_the_models.func(dut)


def words_of(raw, structure):
    """(address, word) of an image file, as docs/array.md says."""
    body = iter(struct.unpack(f"<{len(raw) // 4}I", raw)[HEAD:-1])
    addresses = sorted(address for block in structure.blocks for address in block.addresses)
    words = [(address, next(body)) for address in addresses]
    for slot in body:
        memory = structure.source_memories[slot]
        for beat in range(next(body)):
            words += [(memory.address(beat, w), next(body)) for w in range(memory.words)]
    return words


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(beats=[1, 31])
async def test_an_image_is_all_that_a_run_takes(dut, beats):
    """No stream and no memory is driven: beats come from a slot's memory, and are read there."""
    placed = array.place(STREAMED, ARRAY, {"beats": beats})
    point = placed.on_array()
    image, structure = array_rtl.image(placed)
    units = zip(point.graph.units, point.graph.meta["array"]["units"], strict=True)
    unit, slot = next((u, at) for u, (_, at) in units if u.kind.name == "sink")
    given = {"values": True, "sources": point.source_beats()}
    expected = model.run(point.graph, point.config, point.tensors, **given)
    bench = Bench(dut)
    dut.rst.value = 1
    for name in ("mem_rsp_valid", "mem_req_ready", "sink_addr"):
        getattr(dut, name).value = 0
    await ConfigDriver(bench).write(words_of(image.to_bytes(structure), structure))
    await bench.reset()
    while not bits(bench, dut.done):
        await bench.edge
    assert bench.cycle == expected.cycles and not bits(bench, dut.error)
    memory = structure.sink_memories[slot]
    kept = []
    for beat in range(beats + 1):
        word = 0
        for w in range(memory.words):
            dut.sink_addr.value = memory.address(beat, w)
            await bench.edge
            await bench.edge
            word |= bits(bench, dut.sink_data) << 32 * w
        kept.append(word)
    took = expected.sink_beats[unit.id]
    assert took.values is not None
    for beat, stop, data, values in zip(kept, took.stop, took.data, took.values, strict=False):
        tile = np.array([beat >> 32 * k & 0xFFFFFFFF for k in range(4)], np.uint32)
        assert np.array_equal(tile.view(np.float32), np.ravel(values) if data else np.zeros(4))
        assert (beat >> 132 & 15, beat >> 136) == (stop, data)
