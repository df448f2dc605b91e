"""Programs on arrays: the compiler's placements, the check of them, and the placed graph."""

from dataclasses import replace

import pytest
from penstock import model
from penstock.frontend import build, lower
from penstock.machine.array.network import Network
from penstock.machine.array.placed import Hop, Placement, Route
from penstock.machine.array.variants import variants
from penstock.machine.config import load
from penstock.machine.errors import LoweringError
from penstock.machine.unitgraph import ends_of_all, validate
from penstock.runs.boundary import source_beats
from penstock.runs.point import Point
from penstock.scheduler.array import check_placement, map_program

pytestmark = pytest.mark.xdist_group("array")  # compiles once
TINY = load("array_tiny")
SMALL = load("array_small")


def mapped(name, config, **params):
    graph = lower(build(name, params, config).graph, config)
    return graph, map_program(graph, config.array)


@pytest.fixture(scope="module")
def swiglu():
    return mapped("swiglu", SMALL)


def outputs(graph, config, tensors, **run):
    result = model.run(graph, config, tensors, **run)
    return {k: v.tolist() for k, v in result.outputs.items()}, result.cycles


@pytest.mark.parametrize("config", [TINY, SMALL], ids=lambda c: c.name)
def test_the_placed_graph_gives_the_outputs_of_the_dedicated_fabric(config):
    point = Point("swiglu", config, {})
    placed = map_program(point.graph, config.array).graph
    validate(placed)
    wires, fast = outputs(point.graph, config, point.tensors)
    array, slow = outputs(placed, config, point.tensors)
    assert array == wires
    assert slow < 1.2 * fast


def test_a_program_that_routes_gives_them_too():
    point = Point("simple_moe", SMALL, {})
    placed = map_program(point.graph, SMALL.array).graph
    beats = source_beats(point.program.graph, point.graph, point.streams)
    one, _ = outputs(point.graph, SMALL, point.tensors, sources=beats)
    two, _ = outputs(placed, SMALL, point.tensors, sources=beats)
    assert one == two


def test_units_keep_their_ids_and_absorbed_broadcasts_become_hops(swiglu):
    graph, mapping = swiglu
    for old, new in zip(graph.units, mapping.graph.units, strict=False):
        if old.kind == "broadcast":
            assert new.kind == "hop"
        else:
            assert (new.name, new.kind, new.params) == (old.name, old.kind, old.params)


def test_products_reach_their_accumulators_by_wire(swiglu):
    _, mapping = swiglu
    units = mapping.graph.units
    for c in mapping.graph.channels:
        if units[c.src[0]].kind == "matmul":
            assert units[c.dst[0]].kind == "accum"


def test_the_same_seed_gives_the_same_placement():
    graph, first = mapped("swiglu", TINY)
    assert map_program(graph, TINY.array).placement == first.placement
    assert Placement.from_dict(first.placement.to_dict()) == first.placement


def test_what_does_not_fit_is_named():
    graph = lower(build("simple_moe", SMALL.defaults["simple_moe"], SMALL).graph, SMALL)
    with pytest.raises(LoweringError, match=r"has no slot for .* 2 of 2 row_pack"):
        map_program(graph, TINY.array)


def test_a_list_of_values_of_an_optional_parameter_has_none_too():
    (load_slot,) = (s for s in SMALL.array.sites["L"].slots if s.name == "load")
    assert load_slot.bounds("load")["trigger"] == ["ref", "address", None]


def test_every_unit_fits_a_variant_that_its_slot_is_built_of(swiglu):
    _, mapping = swiglu
    ins, outs = ends_of_all(mapping.program)
    for unit, slot in zip(mapping.program.units, mapping.placement.slots, strict=True):
        if slot >= 0:
            given = [[c.payload for c in side[unit.id]] for side in (ins, outs)]
            built = variants(mapping.network.slots[slot].slot, SMALL.machine)
            own = [v for v in built if v.kind == unit.kind]
            assert any(not v.misses(unit.params, *given) for v in own)


def planted(placement, network):
    """Placements with one fault each, and what the check says of it."""
    slots = list(placement.slots)
    slots[0] = slots[2]
    yield replace(placement, slots=tuple(slots)), "has the slot"
    slots = list(placement.slots)
    slots[0], slots[6] = slots[6], slots[0]
    yield replace(placement, slots=tuple(slots)), "does not fit slot"
    wires = dict(placement.wires)
    wires.popitem()
    yield replace(placement, wires=wires), "takes neither a wire nor a route"
    channel, wire = next(iter(placement.wires.items()))
    yield replace(placement, wires=placement.wires | {channel: wire + 1}), "joins other slots"
    long = max(placement.routes, key=lambda r: len(r.hops))
    others = tuple(r for r in placement.routes if r is not long)
    cut = Route(long.src, long.hops[:-1])
    yield replace(placement, routes=(*others, cut)), "where it has no hop"
    lost = Route(long.src, (*long.hops[:-1], Hop(long.hops[-1].input, ())))
    yield replace(placement, routes=(*others, lost)), "ends in the switch"
    into = network.inputs[long.hops[-1].input]
    back = network.link(into.plane, into.row, into.col, into.side, into.track)
    turn = Route(long.src, (*long.hops[:-1], Hop(long.hops[-1].input, (back,))))
    yield replace(placement, routes=(*others, turn)), "turns from"
    stolen = next(r for r in others if r.hops[-1].outputs != long.hops[-1].outputs)
    twice = Route(stolen.src, long.hops)
    rest = tuple(r for r in placement.routes if r is not stolen)
    yield replace(placement, routes=(*rest, twice)), "to which it does not lead"
    places = dict.fromkeys(placement.places, 9)
    yield replace(placement, places=places), "has 9 places"
    places = dict.fromkeys(placement.places, 1)
    yield replace(placement, places=places), r"holds \d beats, \d in the program"


def test_the_check_finds_planted_faults(swiglu):
    _, mapping = swiglu
    network = Network(SMALL.array)
    check_placement(mapping.program, network, mapping.placement)
    faults = list(planted(mapping.placement, network))
    assert len(faults) == 10
    for placement, said in faults:
        with pytest.raises(LoweringError, match=said):
            check_placement(mapping.program, network, placement)
