"""A datapath that is wrong in one lane's last bit: the commands that compare RTL and model say
where, down to the element.
"""

import re

import pytest
from penstock.cli import main

PROGRAM = '''
import numba
import numpy as np
from amaranth.hdl import Module

import penstock.hw.functions
import penstock.model.functions
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, Map
from penstock.frontend import function, register_float64
from penstock.hw.arith.lane import Lane
from penstock.machine.functions import FUNCTIONS, Function, register


@numba.njit
def negate_tile(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = -a[i, j]


class Negate(Lane):
    """Loses the last bit."""

    STAGES = 1

    def __init__(self):
        super().__init__(arity=1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq((self.a ^ 0x80000000) & 0xFFFFFFFE)
        return m


if "lossy" not in FUNCTIONS:
    register(Function("lossy", 1, 1, 1, "-x"))
    penstock.model.functions.register("lossy", reference=lambda a: -a, tile=negate_tile)
    penstock.hw.functions.register("lossy", Negate)
    register_float64("lossy", lambda a: -a)


def program():
    g = Graph("lossy")
    x, y = g.input("x", (4, 8), "fp32"), g.output("y", (4, 8), "fp32")
    xs = LinearOffChipLoad(x, tile=(4, 4), shape=(1, 2), stride=(2, 1), name="x")
    LinearOffChipStore(Map(xs, fn=function("lossy"), name="flip"), y, name="save")
    return g
'''

MESSAGE = (
    r"lossy: model and RTL differ\n.*100 %\).*\n"
    r"  channel flip:result->save:data beat 0: payload digest \(2 of 3 beats\): "
    r"model [0-9a-f]{16}, RTL [0-9a-f]{16}\n"
    r" +flip \(map\) -> save \(store\), accepted in cycle \d+, taken in cycle \d+; "
    r"\d+ of 16 elements differ: \[\d,\d\] model \S+ \(([0-9a-f]{8})\), RTL \S+ \(([0-9a-f]{8})\)"
)


@pytest.fixture
def small(tmp_path):
    """A machine of 4 x 4 fp32 tiles, and the program on it."""
    from importlib.resources import files

    text = files("penstock.sim_configs").joinpath("small_fpga.toml").read_text()
    text = text.replace('dtype = "bf16"', 'dtype = "fp32"').replace("default = 16", "default = 1")
    (tmp_path / "m.toml").write_text(text)
    (tmp_path / "lossy.py").write_text(PROGRAM)
    return str(tmp_path / "lossy.py"), str(tmp_path / "m.toml")


def test_run_names_channel_beat_and_elements(small, capsys):
    program, config = small
    assert main(["run", program, "--config", config, "--on", "both"]) == 1
    found = re.search(MESSAGE, capsys.readouterr().err)
    model, rtl = (int(x, 16) for x in found.groups())
    assert model == rtl | 1 != rtl
