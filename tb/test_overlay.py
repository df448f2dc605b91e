"""Token overlays: loaded, run and read by their own ports; each write and token is the model's."""

from dataclasses import replace

import numpy as np
import cocotb
import pytest
from penstock.overlay.core.config import Overlay, Sizes
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.ops import ARITY, OP_CLASS, Op, format_of
from penstock.overlay.runs import comparison
from penstock.scheduler.token import map_graph
from penstock.tb.tops import ComponentTop, simulate
from penstock.testing.agents import Bench
from penstock.testing.token_graphs import random_graph, random_regions
from penstock.testing.token_scoreboard import OverlayScoreboard

STATIC = {"pe": "static"}
FORWARD = {"local": "forward"}
HOPLITE = {"network": "hoplite"}
HYBRID = {"pe": "hybrid"}
VARIANTS = {
    "static1": (1, STATIC | {"alu": "registered"}),
    "token1": (1, {"alu": "deep"}),
    "forward1": (1, FORWARD),
    "static2": (2, STATIC),
    "token2": (2, {"fifo_depth": 2}),
    "hoplite2": (2, HOPLITE | {"format": "fp64"}),
    "forward2": (2, FORWARD | {"alu": "unit"}),
    "static4": (4, STATIC | {"alu": "unit"}),
    "token4": (4, {"alu": "unit"}),
    "both4": (4, FORWARD | HOPLITE),
    "hybrid1": (1, HYBRID | {"alu": "registered"}),
    "hybrid2": (2, HYBRID | {"fifo_depth": 2}),
    "short4": (4, HYBRID | {"alu": "unit", "memories": {"context": 12, "switch": 12}}),
}
OVERLAYS = {
    name: Overlay(**{"rows": n, "cols": n, "alu": "pipelined"} | more)
    for name, (n, more) in VARIANTS.items()
}
"""With memories, they limit the schedule alone."""
SIZES = Sizes(
    nodes=64, senders=64, queue=64, rest=128, near=64, contexts=512, matched=64, segments=32
)
CLASSES = frozenset({"add", "mul", "compare", "switch"})
OPS = [op for op in Op if OP_CLASS.get(op) in CLASSES and op < Op.THEN]


def burst(fmt):
    """Operations whose left operands have all come when the right one does, late: two are complete
    in a cycle, and one begins. In what order others follow depends on how many may wait.
    """
    late, first, n = 9, 40, 62
    node = np.arange(n)
    several = np.random.default_rng(1).choice([op for op in OPS if ARITY[op] == 2], n - late)
    op = np.concatenate([[Op.INPUT], np.full(late - 1, Op.ADD), several])
    a, b = (np.where(node < late, node - 1, of) for of in (0, late - 1))
    a, b = (np.where(node < late + first, of, node - first) for of in (a, b))
    outs = node[late:].tolist()
    names = {0: "x"} | {k: f"o{k}" for k in outs}
    value = np.where(op < Op.ADD, 1.5, 0)
    return DataflowGraph(op, a, b, value, names, outs, [f"out{k}" for k in outs], "burst")


GRAPHS = {
    "few": lambda fmt: random_graph(7, 4, 2, fmt, ops=OPS),
    "wide": lambda fmt: random_graph(60, 20, 3, fmt, reach=300, ops=OPS),
    "near": lambda fmt: random_graph(60, 6, 4, fmt, reach=3, ops=OPS),
    "burst": burst,
    "regions": lambda fmt: random_regions(40, 5),
    "nested": lambda fmt: random_regions(60, 9, depth=5),
}
WATCHED = {
    "penstock_tile_*": ("?_o", "?_o_valid", "?_o_ready", "?_o_payload"),
    "penstock_tile_*.values": ("write__*",),
    "penstock_tile_*.pe": ("_put__*",),
}


def overlays():
    from penstock.hw.overlay import Overlay as Component

    return {
        name: Component(
            overlay=replace(o, memories=()),
            sizes=SIZES,
            classes=dict.fromkeys(range(o.pes), CLASSES),
        )
        for name, o in OVERLAYS.items()
    }


TOP = ComponentTop("overlays", overlays)


@pytest.mark.cocotb_runner
def test_simulate(hdl):
    simulate(hdl, TOP, WATCHED)


def mapped(overlay, graph):
    """A graph's image for the hardware, and the whole mapping. Some regions are dealt out, so that
    there is traffic, also of switches; and so is what hybrid PEs would execute on both sides.
    """
    given = GRAPHS[graph](overlay.format)
    dealt = {"static": False, "dynamic": graph == "regions", "hybrid": given.conditional}[
        overlay.pe
    ]
    m = map_graph(given, overlay, pe=np.arange(len(given)) % overlay.pes if dealt else None)
    needs = vars(m.image.sizes)
    assert all(needs[name] <= size for name, size in vars(SIZES).items()), needs
    return replace(m.image, sizes=SIZES, overlay=replace(overlay, memories=())), m


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(name=list(OVERLAYS), graph=list(GRAPHS))
async def test_writes_and_tokens_equal_the_models(dut, name, graph):
    """Also after new inputs, without loading or a reset; the model's values are the graph's."""
    image, m = mapped(OVERLAYS[name], graph)
    bench = Bench(dut)
    scoreboard = OverlayScoreboard(bench, image, name)
    await bench.reset()
    await scoreboard.load()
    cycles = await scoreboard.run()
    await scoreboard.check_values()
    (record,) = comparison.run(m.graph, m.overlay, mapped=m)
    assert cycles == record.cycles
    assert m.schedule is None or cycles == m.schedule.length
    number = format_of(m.overlay.format)
    inputs = np.random.default_rng(cocotb.RANDOM_SEED).standard_normal(len(m.graph.inputs))
    inputs = inputs.astype(number.dtype)
    await scoreboard.give(m.graph.inputs, inputs.view(number.word))
    again = await scoreboard.run()
    assert again == cycles or m.graph.conditional
    await scoreboard.check_values()
    values = m.graph.evaluate(inputs, m.overlay.format)
    fires, _ = m.graph.regions.taken(values)
    assert scoreboard.values[fires].tolist() == values[fires].view(number.word).tolist()
