"""Typed connections of the fabric, and the errors of constructors."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream
from penstock.hw.beat import Payloads, beat_layout
from penstock.hw.fabric import Fabric
from penstock.hw.host.uart import UartReceiver
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.registry import component, register
from penstock.hw.stream import connect, share
from penstock.hw.units.fifo import Fifo
from penstock.machine.beat import BufferRef, Scalar, Selector, Tile, Tuple
from penstock.machine.errors import LoweringError
from penstock.machine.kinds.accum import Accum
from penstock.machine.kinds.compute import Map, Matmul
from penstock.machine.kinds.copies import Broadcast, Repeat
from penstock.machine.kinds.ends import Source
from penstock.machine.kinds.scratchpad import Scratchpad
from penstock.machine.kinds.shape import Flatten, Reshape
from penstock.tb.tops import small
from penstock.testing.zoo import unit

TILE = Tile(2, "fp32")
pytestmark = pytest.mark.filterwarnings(
    "ignore::amaranth.hdl.UnusedElaboratable"
)  # of components whose constructor refuses


def test_beat_layout_is_that_of_the_wire():
    layout = beat_layout(Tuple((Tile(2, "bf16"), BufferRef(8), Scalar(5), Selector(3))))
    offsets = {"m0": 0, "m1": 4 * 16 + 4, "m2": 68 + 19, "m3": 92, "stop": 95, "data": 99}
    assert {name: field.offset for name, field in layout} == offsets and layout.size == 100
    offsets = {"elements": 0, "rows": 128, "cols": 130, "stop": 132, "data": 136}
    assert {name: field.offset for name, field in beat_layout(TILE)} == offsets


def test_streams_of_equal_width_and_other_fields_do_not_join():
    a = stream.Signature(beat_layout(Scalar(8))).create()
    b = stream.Signature(beat_layout(Selector(8))).flip().create()
    with pytest.raises(TypeError, match=r"must have the shape of the sink, .*hot.*, not .*value"):
        connect(Module(), a, b)
    with pytest.raises(TypeError, match="Payload of the source"):
        share(Fifo(shape=8, depth=1), "o", Fifo(shape=9, depth=1), "i", name="x")


REF = BufferRef(8)
PAD = Scratchpad(
    pages=2,
    frames=1,
    writers=[{"rank": 1}],
    limit=[2],
    readers=[{"rank": 1, "repeat_dim": False}],
    repeat=[0],
)
PAD_INPUTS = [TILE, BufferRef(2)]


@pytest.mark.parametrize(
    "kind, inputs, outputs, message",
    [
        (Flatten(lo=0, hi=1), [TILE], [TILE] * 2, "outputs of a Flatten must be 1, not 2"),
        (Broadcast(n=1, scratchpad=3), [TILE], [TILE], "with a scratchpad must be a BufferRef"),
        (Map(fn="add", arity=1, lanes=4), [TILE], [TILE], "function 'add' must be 2, not 1"),
        (Matmul(rows_per_cycle=3), [TILE] * 2, [TILE], "rows_per_cycle must divide t = 2, not 3"),
        (PAD.but(frames=3), PAD_INPUTS, PAD_INPUTS[::-1], "Frames must be a power of two, not 3"),
        (Source(beats=2), [], [TILE], "beats must be None in a dedicated fabric"),
        (Accum(fn="div", reduce=1, depth=1, lanes=4), [TILE], [TILE], "two operands and one stage"),
    ],
)
def test_wrong_parameters_are_refused(kind, inputs, outputs, message):
    with pytest.raises(ValueError, match=message):
        component(kind.name)(
            kind=kind,
            t=2,
            config=small(2).machine,
            payloads=Payloads(tuple(inputs), tuple(outputs)),
        )


@pytest.mark.parametrize("divisor", [3, 1 << 16, 4.0])
def test_a_divisor_of_a_line_that_is_none_is_refused(divisor):
    with pytest.raises(ValueError, match="Divisor must be an integer from 4 to 65535"):
        UartReceiver(divisor=divisor)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Interconnect(ports=["sink"], config=small().machine), "not 'sink'"),
        (lambda: Interconnect(ports=[], config=small().machine), "from 1 to 1024, not 0"),
        (lambda: Fifo(shape=1, depth=0), "Depth must be at least 1, not 0"),
        (lambda: component("spin"), "'spin' has no component; known kinds are accum, .*zip"),
        (lambda: register("spin", Fifo), "registered in penstock.machine.kinds first, not 'spin'"),
        (lambda: register("zip", Fifo), "Unit kind 'zip' is already implemented by"),
    ],
)
def test_other_refusals(make, message):
    with pytest.raises((ValueError, LookupError), match=message):
        make()


def test_a_graph_that_no_fabric_holds_is_refused():
    g = unit(Flatten(lo=0, hi=1), [TILE], [TILE], 2)
    with pytest.raises(ValueError, match="that of the configuration, 4, not 2"):
        Fabric(g, small(4))
    g = unit(Repeat(count=2**32), [TILE], [TILE], 2)
    with pytest.raises(LoweringError, match="count of a repeat is from 1 to 4294967295"):
        Fabric(g, small(2))
    g = unit(Reshape(dim=0, chunk=1, pad=True, pad_rows=1 << 16, pad_cols=1), [TILE], [TILE], 2)
    with pytest.raises(LoweringError, match="pad_rows of a reshape is from 0 to 65535"):
        Fabric(g, small(2))
