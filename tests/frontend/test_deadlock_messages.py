"""Messages of a deadlock: operators and their lines first, then units, a line each; and why no
depth would free it.
"""

import penstock
import pytest
from penstock.machine.deadlock import DeadlockError

HEAD = """import numpy as np
from penstock.frontend import (Accum, Expand, Graph, Map, Promote, Reassemble, Sink, Source,
                               add, div)

"""
CIRCLE = (
    HEAD
    + """def program():
    g = Graph("circle")
    xs = Source(graph=g, shape=(1, g.dynamic("N")), tile=(4, 4), name="xs")
    total = Accum(xs, fn=add(), rank=1, name="total")
    Sink(Map(xs, Expand(Promote(total, level=0), ref=xs), fn=div(), name="share"))
    return g

def streams(seed):
    return {"xs": [[np.ones((4, 4))] * 9]}
"""
)
ENDED = (
    HEAD
    + """def program():
    g = Graph("ended")
    xs = [Source(graph=g, shape=(g.dynamic(n.upper()),), tile=(4, 4), name=n) for n in "ab"]
    turn = Source(graph=g, shape=(g.dynamic("T"),), selector=2, name="turn")
    Sink(Reassemble(xs, turn, rank=0, name="gather"))
    return g

def streams(seed):
    tile = np.ones((4, 4))
    return {"a": [tile], "b": [tile] * 3, "turn": [0, 1, 0, 1]}
"""
)


def message_of(tmp_path, text, timing="machine"):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(DeadlockError) as e:
        penstock.run(str(path), "small_fpga", timing=timing)
    return str(e.value).splitlines()


@pytest.mark.parametrize("timing", ["machine", "stepsim"])
def test_operators_and_lines_come_first(timing, tmp_path):
    head, operators, *lines = message_of(tmp_path, CIRCLE, timing)
    assert (
        head.startswith("graph circle: deadlock after cycle")
        and "channels of depth 9 free it" in head
    )
    assert operators == "  operators:"
    at = lines.index("  units:")
    assert any(
        "total (Accum) at " in x and "mine.py:8 waits for a beat from xs" in x for x in lines[:at]
    )
    assert any("total waits for" in x for x in lines[at:])


def test_a_deadlock_that_no_depth_frees_says_why(tmp_path):
    head, operators, line, *_ = message_of(tmp_path, ENDED)
    assert (
        "gather is told to take from `parts[0]` (a), whose stream has ended; no channel depth"
        in head
    )
    assert (
        operators == "  operators:" and line.endswith("mine.py:9") and "gather (Reassemble)" in line
    )


HELD = (
    HEAD.replace("add, div", "Flatten, Loop, Partition, StreamType, TileType, dim")
    + """def program(least=0):
    g = Graph("held")
    tile = dict(graph=g, tile=(4, 4))
    back = Loop(type=StreamType(TileType(dim(4), dim(4), "fp32"), (dim(3),)), graph=g, name="back")
    turn = Source(graph=g, shape=(2, 2), selector=2, name="turn")
    start = Source(shape=(1,), name="start", **tile)
    parts = Reassemble(start, back, turn, rank=0).stream
    parts.assert_shape((2, 2, g.dynamic("S", ragged=True, least=least)))
    x = Flatten(Flatten(parts, lo=0, hi=1, name="joined"), lo=0, hi=1)
    leave = Source(graph=g, shape=(4,), selector=2, name="leave")
    again, out = Partition(x, leave, rank=0, outputs=2)
    back.close(again)
    Sink(out, name="end")
    return g

def streams(seed, **_):
    return {"start": [np.ones((4, 4))], "turn": [[0, 1], [1, 1]], "leave": [0, 0, 0, 1]}
"""
)


def test_a_held_beat_in_a_loop_is_named_with_its_remedy(tmp_path):
    head, *lines = message_of(tmp_path, HELD)
    assert "joined holds nothing back where the sizes that it merges are declared with" in head
    assert "    joined holds a beat back until the next shows whether its group goes on" in lines
    path = tmp_path / "mine.py"
    (run,) = penstock.run(str(path), "small_fpga", params={"least": 1})
    assert run.values_ok
