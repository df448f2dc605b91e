"""Programs on arrays: the compiler's placements, the check of them, and the placed graph."""

import ast
import inspect
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from penstock import model
from penstock.frontend import build, lower
from penstock.machine.array.netlist import nets_of
from penstock.machine.array.network import Network
from penstock.machine.array.placed import NO_SLOT, Hop, Placement, Route
from penstock.machine.array.variants import variants
from penstock.machine.config import load
from penstock.machine.errors import LoweringError
from penstock.machine.unitgraph import ends_of_all, validate
from penstock.runs import array
from penstock.runs.boundary import source_beats
from penstock.runs.point import Point
from penstock.scheduler.array import check, check_placement, map_program

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
        if old.kind.name == "broadcast":
            assert new.kind.name == "hop"
        else:
            assert (new.name, new.kind) == (old.name, old.kind)


def test_products_reach_their_accumulators_by_wire(swiglu):
    _, mapping = swiglu
    units = mapping.graph.units
    for c in mapping.graph.channels:
        if units[c.src[0]].kind.name == "matmul":
            assert units[c.dst[0]].kind.name == "accum"


def test_the_same_seed_gives_the_same_placement():
    graph, first = mapped("swiglu", TINY)
    assert map_program(graph, TINY.array).placement == first.placement
    assert Placement.from_dict(first.placement.to_dict()) == first.placement


def test_units_that_do_not_fit_are_named():
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
            own = [v for v in built if v.kind == unit.kind.name]
            assert any(not v.misses(unit.kind, *given) for v in own)


def planted(program, placement, network):
    """Placements with a fault each, or more."""
    slots = placement.slots
    absorbed = slots.index(NO_SLOT)
    for unit, slot in ((0, slots[2]), (0, len(network.slots)), (0, slots[6]), (absorbed, 0)):
        yield replace(placement, slots=(*slots[:unit], slot, *slots[unit + 1 :]))
    yield replace(placement, wires=dict(list(placement.wires.items())[1:]))
    channel, wire = next(iter(placement.wires.items()))
    for more in ({channel: wire + 1}, {channel: 10**6}, {10**6: wire}):
        yield replace(placement, wires=placement.wires | more)
    several = next(net for net in nets_of(program) if not net.alone)
    rest = tuple(r for r in placement.routes if r.src != several.src)
    wired = placement.wires | {several.leaves[0].channel: wire}
    yield replace(placement, wires=wired, routes=rest)
    long = max(placement.routes, key=lambda r: len(r.hops))
    others = tuple(r for r in placement.routes if r is not long)
    stolen = next(r for r in others if r.hops[-1].outputs != long.hops[-1].outputs)
    *first, last = long.hops
    into = network.inputs[last.input]
    back = network.link(into.plane, into.row, into.col, into.side, into.track)
    link = next(x for x in first[-1].outputs if network.leads_to[x] == last.input)
    joined = Hop(stolen.hops[-1].input, (*stolen.hops[-1].outputs, link))
    for wrong in (
        Route(long.src, (*first,)),
        Route(long.src, (*first, Hop(last.input, ()))),
        Route(long.src, (*first, Hop(last.input, (back,)))),
        Route((long.src[0], 99), long.hops),
        Route(stolen.src, long.hops),
        Route(stolen.src, (*stolen.hops[:-1], joined, last)),
    ):
        yield replace(placement, routes=(*others, wrong))
        yield replace(placement, routes=(*placement.routes, wrong))
        rest = (r for r in placement.routes if r.src != wrong.src)
        yield replace(placement, routes=(*rest, wrong))
    for places in (0, 1, 9):
        yield replace(placement, places=dict.fromkeys(placement.places, places))


RULES = 21
"""Rules of the check: one that is deleted would leave :func:`rules`, too."""


def rules():
    """Patterns of all that the check says: a rule is a `yield` of it."""
    for node in ast.walk(ast.parse(inspect.getsource(check))):
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
            said = node.value.elts[0]
            parts = said.values if isinstance(said, ast.JoinedStr) else [said]
            yield "".join(
                re.escape(x.value) if isinstance(x, ast.Constant) else ".*" for x in parts
            )


def faults(program, network, placement):
    """All that the check says, up to where a fault leaves it without a slot to look at."""
    found = []
    with suppress(LookupError):
        for what, _ in check._Check(program, network, placement).faults():
            found.append(what)
    return found


def test_every_rule_of_the_check_is_broken_by_a_placement(swiglu):
    _, mapping = swiglu
    network = Network(SMALL.array)
    given = (mapping.program, network)
    check_placement(*given, mapping.placement)
    found = []
    for placement in planted(mapping.program, mapping.placement, network):
        found += (broken := faults(*given, placement))
        with pytest.raises(LoweringError, match=re.escape(broken[0])):
            check_placement(*given, placement)
    here = Path(__file__).parent
    shared = array.place(
        str(here / "slot_programs.py"), str(here / "slots.toml"), {"part": "shared", "size": 0}
    ).mapping
    alone = Network(load(str(here / "slots.toml")).array)
    assert not faults(shared.program, alone, shared.placement)
    alone.posts = type(alone.posts)()
    found += faults(shared.program, alone, shared.placement)
    assert len(set(rules())) == RULES
    unbroken = [rule for rule in rules() if not any(re.fullmatch(rule, what) for what in found)]
    assert not unbroken
