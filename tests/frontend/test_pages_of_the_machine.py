"""The on-chip rule `machine`: no scratchpad of a run has more pages in use, and the figure is the
one that is reached.
"""

from dataclasses import replace

import numpy as np
import penstock
import pytest
from penstock.frontend import *
from penstock.frontend.analysis.onchip import scratchpad_pages
from penstock.machine.config import load

SMALL = load("small_fpga")
FP32 = replace(SMALL, machine=replace(SMALL.machine, dtype="fp32"))


def machine(**changes):
    return replace(FP32, machine=replace(FP32.machine, **changes))


def filled(x, size):
    """Nested lists of tiles of ones in place of None."""
    return np.ones(size, np.float32) if x is None else [filled(e, size) for e in x]


def program(make, *sources):
    """A program of what ``make`` builds on tile streams; ``sources``: shape (names are sizes that
    the run decides, ragged ones in capitals), tile size, elements as nested lists of None.
    """
    g = Graph("case")
    given = {}
    streams = []
    for i, (shape, size, elements) in enumerate(sources):
        given[f"x{i}"] = filled(elements, size)
        streams.append(
            Source(
                graph=g,
                shape=tuple(
                    g.dynamic(d, ragged=d.isupper()) if isinstance(d, str) else d for d in shape
                ),
                tile=size,
                name=f"x{i}",
            )
        )
    Sink(make(*streams))
    return Program("case", {}, g, None, None, lambda seed: given)


def expanded():
    return program(lambda x: Expand(x, count=8), ((4,), (16, 16), [None] * 4))


def product():
    return program(
        lambda a, b: Map(a, b, fn=matmul()),
        ((4,), (16, 16), [None] * 4),
        ((4,), (16, 32), [None] * 4),
    )


def ragged():
    return program(
        lambda x: Streamify(Bufferize(x, rank=1), repeat=2),
        ((6, "E"), (4, 4), [[None] * n for n in (2, 30, 30, 0, 1, 2)]),
    )


@pytest.mark.parametrize(
    "make, paper, bytes_",
    [(expanded, 1024, 2048), (product, 3072, 4096), (ragged, 2 * 30 * 64 + 64, 2 * 32 * 64)],
)
def test_the_figure_is_reached(make, paper, bytes_):
    """The text's equations count one tile, or parts of pages; SymPy has the name of a size, too."""
    (r,) = penstock.run(make(), FP32, onchip_rule="machine")
    assert (r.onchip_bytes, r.onchip_peak_bytes, r.onchip_rule) == (bytes_, bytes_, "machine")
    assert penstock.run(make(), FP32, onchip_rule="paper")[0].onchip_bytes == paper


def test_sizes_that_never_occur():
    """Empty buffers, each one bare beat: no tile tells the inner dimension."""
    p = program(lambda x: Streamify(Bufferize(x, rank=2)), ((3, "A", "b"), (4, 4), [[], [], []]))
    (r,) = penstock.run(p, FP32, onchip_rule="machine")
    assert 0 < r.onchip_peak_bytes == r.onchip_bytes == 2 * 512


def test_sized_scratchpads_have_the_pages_that_the_figure_counts():
    for make in (expanded, product):
        for buffers in (1, 2, 0):
            config = machine(sized=True, buffers=buffers)
            units = lower(make().graph, config)
            assert {u: units.units[u].kind.pages for u in units.memories()} == scratchpad_pages(
                units, config.machine
            )
    units = lower(ragged().graph, machine(sized=True))  # no bound is known
    assert [units.units[u].kind.pages for u in units.memories()] == [SMALL.machine.pages]


def test_the_machine_rule_needs_a_configuration():
    p = expanded()
    assert p.analysis("machine", FP32).onchip_bytes == 2048 and p.analysis(
        "machine", machine(buffers=3)
    ).onchip.per_node == {"Expand": 3072}
    with pytest.raises(ProgramError, match="on-chip rule `machine` needs a configuration"):
        p.analysis("machine")
    with pytest.raises(
        ProgramError,
        match=(
            "`machine` counts pages of scratchpads, the timing `stepsim` has none; use the rule"
        ),
    ):
        penstock.run("swiglu", "fig8", timing="stepsim", onchip_rule="machine")
    with pytest.raises(ProgramError, match="'machine' is already registered"):
        register_rule("machine", lambda node: 0)
