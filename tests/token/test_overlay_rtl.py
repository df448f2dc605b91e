"""The compiled bench of the overlay: what it builds, what it loads, where it stops."""

import gc

import numpy as np
import pytest
from penstock.hw.arith.format import FP32, FP64
from penstock.hw.noc.token import ram_attributes
from penstock.hw.units.token.alu import UNITS, Alu
from penstock.hw.units.token.leading_one import LeadingOne
from penstock.machine.errors import RunError
from penstock.overlay.core.config import DEEP as DEEP_ALU
from penstock.overlay.core.config import PIPELINED, Overlay
from penstock.overlay.tb.api import classes_of, hardware, pack, run_image
from penstock.scheduler.token import map_graph
from penstock.testing.token_graphs import random_graph


def test_a_run_beyond_its_limit_is_reported():
    image = map_graph(random_graph(400, 10, 5), Overlay(rows=2, cols=2, local="forward")).image
    with pytest.raises(RunError, match="cycle limit reached"):
        run_image(image, max_cycles=50)


def test_one_build_serves_graphs_of_different_size():
    overlay = Overlay(rows=2, cols=2)
    images = [map_graph(random_graph(9 + n, 9, k), overlay).image for k, n in ((1, 20), (2, 700))]
    assert hardware(images[:1]) == hardware(images[1:]) == hardware(images)


def test_fixed_memories_are_built_as_they_are():
    overlay = Overlay(rows=1, cols=1, memories=(("op", 100), ("value", 100)))
    built, _ = hardware([map_graph(random_graph(29, 9, 1), overlay).image])
    assert dict(built.memories)["value"] == 100 and dict(built.memories)["first"] == 512


def test_specialised_pes_have_the_units_of_their_kind():
    image = map_graph(random_graph(220, 20, 6), Overlay(rows=3, cols=3, kinds="specialised")).image
    classes = classes_of([image])
    assert {frozenset(c) for c in classes.values()} <= {
        frozenset(c) for c in ({"add", "compare"}, {"mul"}, {"div", "sqrt"}, {"exp", "log"})
    }
    assert set().union(*classes.values()) == set(PIPELINED["fp32"])


def test_pipelined_latencies_are_the_stages_of_the_units():
    for deep, tables in ((False, PIPELINED), (True, DEEP_ALU)):
        for form in (FP32, FP64):
            table = tables[form.name]
            units = {c: UNITS[c](form, pipelined=True, deep=deep) for c in table}
            for unit in units.values():
                unit._MustUse__silence = True
            assert {c: unit.STAGES for c, unit in units.items()} == table


def test_words_are_packed_least_significant_first():
    words = pack(
        [("a", 3), ("b", 40), ("c", 64)],
        [np.array([5]), np.array([0xABCDEF0123]), np.array([2**64 - 2], np.uint64)],
        107,
    )
    value = sum(int(w) << 32 * k for k, w in enumerate(words))
    assert value == 5 | 0xABCDEF0123 << 3 | (2**64 - 2) << 43
    with pytest.raises(ValueError, match="a must fit in 3 bits, not 8"):
        pack([("a", 3)], [np.array([8])], 3)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_refused_parameters():
    with pytest.raises(ValueError, match="Latency of 'div' must be 1 or at least 6, not 3"):
        Alu(form=FP32, latencies={"div": 3})
    with pytest.raises(ValueError, match="Width must be at least 1, not 0"):
        LeadingOne(width=0)
    with pytest.raises(
        ValueError, match="Kind of memory must be 'block', 'distributed' or None, not 'ultra'"
    ):
        ram_attributes("ultra")
    gc.collect()  # the refused ones, while their never being used is no warning
