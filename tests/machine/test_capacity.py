"""Capacity of one fabric, at each limit and one beyond: model, hardware and command line say the
same, before anything runs.
"""

import dataclasses

import pytest
from amaranth.lib.wiring import In
from penstock import model
from penstock.frontend import build, lower
from penstock.hw.export import export
from penstock.hw.export.place import ports_of
from penstock.hw.fabric import Fabric
from penstock.machine import capacity, limits
from penstock.machine.beat import Scalar, Selector, Tile, Tuple, beat_bits
from penstock.machine.builder import Builder
from penstock.machine.config import Dram, check, load
from penstock.machine.errors import ConfigError, LoweringError
from penstock.machine.kinds.ends import Source
from penstock.machine.unitgraph import validate
from penstock.tb import api as tb
from penstock.testing.graphs import configuration

T = 4
CONFIG = configuration()
TILE = Tile(T, "fp32")


def passing(payload, streams=1):
    """Streams from sources to sinks."""
    b = Builder("passing", T)
    for _ in range(streams):
        b.sink(b.unit(Source()), payload)
    return b.graph()


def loading(ports):
    b = Builder("loading", T)
    x = b.tensor("x", T, T)
    for _ in range(ports):
        load = b.offchip("load", x, T, T, rank=1, shape=[1], row_step=[0], col_step=[0])
        b.sink(load, TILE)
    return b.graph()


def wide(bits):
    """A payload with which a beat has so many bits."""
    rest = bits - beat_bits(Tuple(()))
    numbers = [Scalar(limits.SCALAR_BITS)] * (rest // limits.SCALAR_BITS - 1)
    rest -= limits.SCALAR_BITS * len(numbers)
    return Tuple((*numbers, Scalar(rest // 2), Scalar(rest - rest // 2)))


def inputs(bits):
    """Sources whose inputs have so many bits together."""
    b = Builder("inputs", T)
    rest = bits - capacity.CONTROL_BITS
    while rest:
        beat = min(limits.BEAT_BITS, rest - 2)
        if 0 < rest - beat - 2 < 300:  # the next one needs some
            beat -= 300
        b.sink(b.unit(Source()), wide(beat))
        rest -= beat + 2
    return b.graph()


def count_of(graph, what):
    return max(c.have for c in capacity.capacities(graph, CONFIG.machine) if c.what == what)


MOST = {
    "off-chip ports": (loading, limits.PORTS[-1]),
    "bits of a beat": (lambda n: passing(wide(n)), limits.BEAT_BITS),
    "bits of inputs": (inputs, limits.INPUT_BITS),
    "units": (lambda n: passing(TILE, n // 2), limits.UNITS[-1]),
}


@pytest.mark.parametrize("what", MOST)
def test_the_limit_is_taken_and_one_beyond_refused(what):
    of, most = MOST[what]
    step = 2 if what == "units" else 1
    at = of(most)
    validate(at)
    assert count_of(at, what) == most
    if what == "units":  # whose sources have more bits
        at = dataclasses.replace(at, channels=())
    capacity.check_capacity(at, CONFIG.machine)
    beyond = of(most + step)
    message = f"{most + step:,} {what} .*at most {most:,}"
    for refuses in (
        lambda: capacity.check_capacity(beyond, CONFIG.machine),
        lambda: model.run(beyond, CONFIG, values=False),
        lambda: Fabric(beyond, CONFIG),
    ):
        with pytest.raises(LoweringError, match=message) as e:
            refuses()
        assert e.value.remedy


LIMITS = {
    "UNITS": "units",
    "PORTS": "off-chip ports",
    "REGISTERS": "run-time registers",
    "RESPONSE_LANES": "lines that the memory delivers in a cycle",
    "BEAT_BITS": "bits of a beat",
    "INPUT_BITS": "bits of inputs",
}


@pytest.mark.parametrize("limit", [*LIMITS, "size_bits", "address_bits"])
def test_lowering_model_export_and_bench_refuse_with_one_message(limit, monkeypatch, tmp_path):
    """Swiglu, where each limit in turn is below what it needs.

    Lowering knows the line of the program, too, and says it before.
    """
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))  # there is no design that the bench keeps
    config = load("small_fpga")
    program = build("swiglu", {}, config)
    graph = lower(program.graph, config)
    if limit in LIMITS:
        have = max(
            c.have for c in capacity.capacities(graph, config.machine) if c.what == LIMITS[limit]
        )
        most = have - 1 if limit.endswith("BITS") else range(have)
        monkeypatch.setattr(capacity, limit, most)
    else:
        low = {"size_bits": 4, "address_bits": 8}[limit]
        config = dataclasses.replace(
            config, machine=dataclasses.replace(config.machine, **{limit: low})
        )
    assert all(refused_by_all(program, graph, config, LIMITS.get(limit, limit)))


def refused_by_all(program, graph, config, match):
    """Fault, rule and remedy, which all that refuse say alike."""
    messages = set()
    for refuses in (
        lambda: lower(program.graph, config),
        lambda: model.run(graph, config, values=False),
        lambda: export(Fabric(graph, config)),
        lambda: tb.run(graph, config),
    ):
        with pytest.raises(LoweringError, match=match) as e:
            refuses()
        messages.add((e.value.what, e.value.rule, e.value.remedy))
    (one,) = messages
    return one


@pytest.mark.parametrize("field, bits", [("size_bits", 11), ("address_bits", 17)])
@pytest.mark.parametrize("rows", [2047, 2048, 2049])
def test_off_chip_units_count_in_as_many_bits_as_the_machine_says(field, bits, rows):
    """Rows at a pitch of 64 B."""
    b = Builder("rows", T)
    x = b.tensor("x", rows, T)
    load = b.offchip("load", x, T, T, rank=1, shape=[1], row_step=[0], col_step=[0])
    b.sink(load, TILE)
    graph = b.graph()
    machine = dataclasses.replace(CONFIG.machine, **{field: bits})
    have = {"size_bits": rows, "address_bits": graph.memory_bytes - 1}[field]
    capacity.check_capacity(graph, CONFIG.machine)
    if have < 1 << bits:
        capacity.check_capacity(graph, machine)
        return
    with pytest.raises(LoweringError, match=f"{have:,} is what `{field}` has to hold"):
        capacity.check_capacity(graph, machine)


def test_counts_are_those_of_the_fabric():
    small = load("small_fpga")
    graphs = [(g, CONFIG) for g in (loading(3), passing(Tuple((TILE, Scalar(7)))), inputs(5000))]
    graphs += [(lower(build(n, {}, small).graph, small), small) for n in ("swiglu", "moe")]
    for graph, config in graphs:
        fabric = Fabric(graph, config)
        assert capacity.registers(graph) == len(fabric.registers)
        ports = ports_of(fabric).values()
        found = sum(len(value) for value, flow in ports if flow == In)
        assert found == capacity.input_bits(graph, config.machine)


@pytest.mark.parametrize(
    "payload, most", [(Scalar, limits.SCALAR_BITS), (Selector, limits.NUMBER_BITS)]
)
def test_numbers_have_as_many_bits_as_the_limit(payload, most):
    validate(passing(payload(most)))
    with pytest.raises(LoweringError, match="scalars have 1 to 128 bits, selectors to 256"):
        validate(passing(payload(most + 1)))


def test_channels_are_as_many_as_response_lanes():
    most = limits.RESPONSE_LANES[-1]
    assert check(configuration(dram=Dram(channels=most))).machine.response_lanes == most
    with pytest.raises(ConfigError, match=f"delivers {2 * most} lines a cycle"):
        check(configuration(dram=Dram(channels=2 * most)))
