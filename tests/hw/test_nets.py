"""Equality of the fast passes with the steps of Amaranth that they replace."""

import subprocess
import sys

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from penstock.hw.export.internals import CombinationalCycle
from penstock.hw.export.nets import enlarge


def round_signals(m, x):
    y = Signal(4)
    m.d.comb += x.eq(y)
    m.d.comb += y.eq(x)


def round_sum(m, x):
    m.d.comb += x.eq(x + 1)


def round_choice(m, x):
    y = Signal(4)
    m.d.comb += x.eq(y.bit_select(x[:2], 1))


def round_case(m, x):
    with m.Switch(x):
        with m.Case(1):
            m.d.comb += x[1].eq(1)


def along_bits(m, x):
    y = Signal()
    m.d.comb += x[0].eq(y)
    for k in range(3):
        m.d.comb += x[k + 1].eq(x[k] & y)


def through_register(m, x):
    m.d.sync += x.eq(x + 1)


def converted(what):
    enlarge()
    m = Module()
    x = Signal(4)
    what(m, x)
    return rtlil.convert(m, ports=[x])


@pytest.mark.parametrize("loop", [round_signals, round_sum, round_choice, round_case])
def test_a_loop_is_found(loop):
    with pytest.raises(CombinationalCycle, match="Combinational cycle detected"):
        converted(loop)


@pytest.mark.parametrize("whole", [along_bits, through_register])
def test_an_apparent_loop_is_none(whole):
    assert "module" in converted(whole)


MEMORY = """
import sys
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib.memory import Memory
if sys.argv[1:]:
    from penstock.hw.export.nets import enlarge
    enlarge()
m = Module()
m.submodules.words = words = Memory(shape=unsigned(5), depth=3, init=[17, 0, 6])
port = words.read_port()
print(rtlil.convert(m, ports=[port.addr, port.data], emit_src=False))
"""


def test_a_memory_has_the_contents_that_amaranth_writes():
    runs = [
        subprocess.run([sys.executable, "-c", MEMORY, *how], capture_output=True, check=True)
        for how in ([], ["here"])
    ]
    assert runs[0].stdout == runs[1].stdout
    assert b"15'001100000010001" in runs[0].stdout
