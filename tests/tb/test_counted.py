"""Coverage of what has a C++ main of its own: the runs are the same, and
what they enter is counted.
"""

import functools
from pathlib import Path

import penstock.hw
import pytest
from counted import counted
from penstock.board import overlay as boards
from penstock.board import simulator
from penstock.board.design import TOP
from penstock.frontend.spice.source import graph_from
from penstock.hw.host.overlay_board import OverlayBoard
from penstock.hw.overlay import Overlay as Component
from penstock.machine.errors import RunError
from penstock.machine.overlay import Overlay
from penstock.overlay import regression
from penstock.scheduler.token import map_graph
from penstock.tb import overlay_api
from penstock.tb.coverage import branches_of

GRAPH = """
graph sum
a = input 1.5
b = input -2.0
c = add a b
output c = c
"""
ROOT = Path(penstock.hw.__file__).parent.parent
SMALL = Overlay(rows=1, cols=2, pe="static", kinds="specialised")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "sum.dfg"
    file.write_text(GRAPH)
    return str(file)


def component(image, **given):
    return Component(
        overlay=image.overlay, sizes=image.sizes, classes=overlay_api.classes_of([image]), **given
    )


def entered(design):
    """Files of which a run enters something; whatever there is to enter
    is one of the sources' branches.
    """
    reached = design.reached()
    assert reached.entered < reached.there
    for place in reached.there:
        file, _, way = place.rpartition(":")
        if file.startswith("hw/") and not way.endswith("none"):
            assert way in ways_of(file), place
    return {place.rpartition(":")[0] for place in reached.entered}


@functools.cache
def ways_of(file):
    return branches_of((ROOT / file).read_text()).ways


def test_an_overlay_counts_at_its_end(path):
    mapped = map_graph(graph_from(path), SMALL)
    overlay, sizes = overlay_api.hardware([mapped.image])
    classes = overlay_api.classes_of([mapped.image])
    design = Component(overlay=overlay, sizes=sizes, classes=classes, probes=True)
    with counted(design, overlay_api.TOP) as covered:
        ran = regression.run_mapped({"sum": mapped})
    assert [outcome.equal for outcome in ran.outcomes] == [True]
    assert {"hw/arith/add.py", "hw/units/token/static_pe.py"} <= entered(covered)


@pytest.mark.deep
def test_a_board_counts_whenever_its_line_rests(path):
    image = map_graph(graph_from(path), SMALL).image
    design = boards.overlay_design(image, divisor=simulator.DIVISOR)
    board = OverlayBoard(component(image), digest=design.number, divisor=simulator.DIVISOR)
    with counted(board, TOP) as covered:
        assert boards.run(path, SMALL, on="both").model_cycles
    assert {"hw/host/loader.py", "hw/host/uart.py", "hw/overlay.py"} <= entered(covered)


def test_a_simulator_that_never_ran_has_no_counts(path):
    image = map_graph(graph_from(path), SMALL).image
    with (
        pytest.raises(RunError, match="counted nothing"),
        counted(component(image), overlay_api.TOP),
    ):
        pass
