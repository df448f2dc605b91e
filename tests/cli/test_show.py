"""Output of `penstock show`: a program's scratchpads, its drawings, names of units."""

import json
import re

import pytest
from penstock import cli
from penstock.cli.options import parse_params
from penstock.frontend import build, lower
from penstock.frontend.show.draw import fabric_parts, parts
from penstock.frontend.show.layout import feedback
from penstock.machine.config import load
from penstock.runs import api


def shown(capsys, *args) -> list[tuple[str, ...]]:
    assert cli.main(["show", *args]) == 0
    return re.findall(
        r"^scratchpad (\S+): (\d+) pages of (\d+) tiles, (\d+) B; metadata (\d+) bits "
        r"\(([\d.]+)%\)$",
        capsys.readouterr().out,
        re.M,
    )


def test_scratchpads_and_their_metadata(capsys):
    rows = shown(
        capsys,
        *"attention --config small_fpga".split(),
        *"--set softmax=stable --set regions=1 --set requests=4".split(),
    )
    m = load("small_fpga").machine
    assert "held0" in [r[0] for r in rows]
    for _, pages, frames, size, bits, share in rows:
        assert (int(pages), int(frames)) == (m.pages, m.frames)
        assert float(share) == round(100 * int(bits) / (8 * int(size)), 2)


def test_the_pages_that_a_machine_takes_at_most(capsys):
    words = "--set parallel=dynamic --set softmax=stable --set most=8 --onchip-rule machine"
    assert cli.main(["show", "attention", "--config", "small_fpga", *words.split()]) == 0
    (figure,) = re.findall(
        r"on-chip requirement \(rule machine\): +(.+) B", capsys.readouterr().out
    )
    record = api.run(
        "attention",
        "small_fpga",
        {"parallel": "dynamic", "softmax": "stable", "most": 8},
        onchip_rule="machine",
    )[0]
    assert "Min(32, 2*ceiling(" in figure and 0 < record.onchip_peak_bytes <= record.onchip_bytes


PROGRAM = """
from penstock.frontend import *

def program(dtype="bf16"):
    g = Graph("looped")
    x, y = g.input("x", (4, 4), dtype), g.output("y", (4, 4), dtype)
    chosen = Source(graph=g, shape=(2,), selector=2, name="chosen")
    tiles = Source(graph=g, shape=(2,), tile=(4, 4), name="tiles")
    routed = Partition(tiles, chosen, rank=0, outputs=2, name="route")
    for i in range(2):
        walk = dict(tile=(4, 4), shape=(1,), stride=(1,))
        Sink(LinearOffChipLoad(x, ref=routed[i], name=f"load{i}", **walk))
        Sink(routed[i])
    LinearOffChipStore(LinearOffChipLoad(x, tile=(4, 4), name="once"), y, name="store")
    back = Loop(type=StreamType(ScalarType(8), (dim(1),)), graph=g, name="back")
    start = Source(graph=g, shape=(1,), scalar=8, name="start")
    turn = Source(graph=g, shape=(2,), selector=2, name="turn")
    leave = Source(graph=g, shape=(2,), selector=2, name="leave")
    both = Flatten(Reassemble(start, back, turn, rank=0, name="enter"), lo=0, hi=1)
    again, out = Partition(both, leave, rank=0, outputs=2, name="leaves")
    back.close(again)
    Sink(out)
    return g

def streams(seed, **_):
    turns = {"start": [3], "turn": [0, 1], "leave": [0, 1]}
    return {"chosen": [seed, [0, 1]], "tiles": [[[1.0]], [[2.0]]], **turns}
"""


def test_a_program_with_sources_feedback_and_started_loads(tmp_path):
    """The program is drawn, feedback upwards; every unit has a name of its own; reads come from
    memory; the timeline is of the seed's elements.
    """
    (tmp_path / "p.py").write_text(PROGRAM)
    config = load("small_fpga")
    graph = build(str(tmp_path / "p.py"), config=config).graph
    units = lower(graph, config)
    names = [u.name for u in units.units]
    assert len(set(names)) == len(names) and {"route.broadcast", "route.broadcast1"} <= set(names)

    boxes, arrows = parts(graph)
    assert [(arrows[i].src, arrows[i].dst) for i in feedback(boxes, arrows)] == [("leaves", "back")]
    _, arrows = fabric_parts(units, config)
    memory = {
        (a.src, a.dst) for a in arrows if "interconnect" in a.src + a.dst and "memory" not in a.src
    }
    memory |= {("memory", a.dst) for a in arrows if a.src == "memory interconnect"}
    assert memory == {
        ("memory", "load0"),
        ("memory", "load1"),
        ("memory", "once"),
        ("store", "interconnect, off-chip memory"),
    }

    out = [str(tmp_path / n) for n in ("p.png", "f.svg")]
    assert (
        cli.main(
            [
                "show",
                str(tmp_path / "p.py"),
                "--config",
                "small_fpga",
                "--png",
                out[0],
                "--fabric",
                out[1],
            ]
        )
        == 0
    )
    assert all((tmp_path / n).stat().st_size for n in ("p.png", "f.svg"))

    def busy(seed):
        events = json.loads(
            api.timeline(
                str(tmp_path / "p.py"), "small_fpga", out=tmp_path / "t.json", seed=seed
            ).read_text()
        )["traceEvents"]
        return {
            e["args"]["node"]: e["dur"]
            for e in events
            if e["ph"] == "X" and e["args"]["node"].startswith("load")
        }

    assert busy(0).keys() == busy(1).keys() == {"load0", "load1"} and busy(0) != busy(1)


def test_a_bound_that_another_exceeds_is_left_out(capsys):
    assert cli.main(["show", "simple_moe", "--config", "small_fpga"]) == 0
    shown = re.findall(r"cycles at least: (.+), by beats of w0", capsys.readouterr().out)
    assert shown == ["1024*ceiling(route_0/4)"]


@pytest.mark.parametrize("text", ["true", "False"])
def test_true_and_false_are_parameters(text):
    assert parse_params([f"keep={text}"]) == {"keep": [text == "true"]}
