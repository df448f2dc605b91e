"""Every datapath against the definition of its values, in Amaranth's simulator."""

import gc

import numpy as np
import pytest
from amaranth.hdl import Elaboratable
from penstock.hw import functions
from penstock.hw.arith.dot import Dot
from penstock.hw.arith.lane import Lane
from penstock.machine import arith
from penstock.machine.functions import FUNCTIONS, Function, dot_stages, register
from penstock.model.functions import lookup as values
from penstock.testing.arith_vectors import assert_same_bits, pairs, random_bits
from penstock.testing.lane_bench import run


@pytest.mark.parametrize("n", [500, pytest.param(2500, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", functions.DATAPATHS)
def test_lane_is_the_definition_in_every_bit(name, n):
    rng = np.random.default_rng(5)
    operands = pairs(rng, n) if FUNCTIONS[name].arity == 2 else (random_bits(rng, n),)
    if name == "cast_fp32":
        operands = (operands[0] & np.uint32(0xFFFF0000),)
    gaps = np.where(np.arange(n) < n - 200, 0, rng.integers(0, 4, n))
    got = run(
        functions.lookup(name)(), list(zip(*(x.tolist() for x in operands), strict=True)), gaps
    )
    operands = [x.view(np.float32) for x in operands]
    assert_same_bits(got, values(name).reference(*operands), *operands)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("t", [2, 4])
def test_dot_is_the_definition_in_every_bit(t, dtype):
    rng = np.random.default_rng(6)
    n = 150
    a, b = (x.reshape(n, t) for x in pairs(rng, n * t))
    if dtype == "bf16":
        a = a & np.uint32(0xFFFF0000)
        b = b & np.uint32(0xFFFF0000)
    rows, columns = [x.astype(object) >> 16 if dtype == "bf16" else x for x in (a, b)]
    vectors = [tuple([int(v) for v in x] for x in pair) for pair in zip(rows, columns, strict=True)]
    dut = Dot(t=t, dtype=dtype)
    assert dut.STAGES == dot_stages(t)
    packed = [
        tuple(
            sum(v << k * (16 if dtype == "bf16" else 32) for k, v in enumerate(x)) for x in vector
        )
        for vector in vectors
    ]
    got = run(_Packed(dut), packed, rng.integers(0, 2, n))
    expected = arith.matmul(a.view(np.float32)[:, None, :], b.view(np.float32)[:, :, None])
    assert_same_bits(got, expected)


class _Packed(Elaboratable):
    """A Dot whose vectors are set as one integer each."""

    def __init__(self, dut):
        self.STAGES = dut.STAGES
        self.en = dut.en
        (self.o,) = dut.o
        self.a = dut.a.as_value()
        self.b = dut.b[0].as_value()
        self._dut = dut

    def elaborate(self, platform):
        return self._dut


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"t": 3, "dtype": "fp32"}, "Tile size must be 2, 4, 8 or 16, not 3"),
        ({"t": 4, "dtype": "fp8"}, "Operand format must be 'bf16' or 'fp32', not 'fp8'"),
    ],
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_dot_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Dot(**arguments)
    gc.collect()  # the refused one, while its never being used is no warning


def test_a_datapath_must_have_the_stages_it_is_listed_with(monkeypatch):
    class Slow(Lane):
        STAGES = 3

        def __init__(self):
            super().__init__(arity=1)

    monkeypatch.setattr("penstock.machine.functions.FUNCTIONS", dict(FUNCTIONS))
    monkeypatch.setattr("penstock.hw.functions.DATAPATHS", dict(functions.DATAPATHS))
    register(Function("slow", 1, 2, 1, "Listed with too few stages."))
    with pytest.raises(ValueError, match="must have 1 operands and 2 stages, not 1 and 3"):
        functions.register("slow", Slow)
