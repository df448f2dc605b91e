"""A shape that the program asserts is checked on the streams of the run itself, with and without
values.
"""

import pytest
from penstock.machine.errors import RunError
from penstock.runs import api

PROGRAM = """
import numpy as np
from penstock.frontend import Accum, Flatten, Graph, LinearOffChipLoad, LinearOffChipStore
from penstock.frontend import Partition, Reassemble, Source, cast

TARGETS = {targets}

def program(dtype="fp32"):
    g = Graph("gather")
    x, y = g.input("x", (4, 4), dtype), g.output("y", (4, 4), dtype)
    rows = Flatten(LinearOffChipLoad(x, tile=(1, 4)), lo=1, hi=2)
    selector = Source(graph=g, shape=(4,), selector=2, name="selector")
    routed = Partition(rows, selector, rank=1, outputs=2)
    back = Reassemble([routed[0], routed[1]], selector, rank=1)
    back.stream.assert_shape((4, 1, 1))
    LinearOffChipStore(cast(Accum(cast(back, "fp32"), fn="add", rank=2), dtype), y)
    return g

def streams(seed, **_):
    return dict(selector=TARGETS)

def inputs(seed, **_):
    return dict(x=np.arange(16.0).reshape(4, 4))

def reference(x, selector):
    return dict(y=x)
"""


@pytest.mark.parametrize(
    "on, values",
    [("model", False), ("model", True), pytest.param("rtl", True, marks=pytest.mark.deep)],
)
def test_an_assertion_that_the_run_breaks(on, values, tmp_path):
    path = tmp_path / "gather.py"
    path.write_text(PROGRAM.format(targets=[[0], [0, 1], [1], []]))
    with pytest.raises(
        RunError,
        match=(
            r"dimension 1 of stream \S+ has had 0, 1, 2 elements \(rule: the program asserts "
            r"\[4, 1, 1\]\)"
        ),
    ):
        api.run(str(path), config="small_fpga", params={"dtype": "bf16"}, on=on, values=values)
