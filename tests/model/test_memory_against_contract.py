"""The compiled engine and the plain-Python contract agree on random loads and stores."""

import math
from dataclasses import replace
from tempfile import NamedTemporaryFile

import numpy as np
from drawn import listed, many, ragged, with_bare
from hypothesis import given
from hypothesis import strategies as st
from penstock.machine.beat import BufferRef, Scalar
from penstock.machine.config import Dram
from penstock.machine.deliveries import Deliveries
from penstock.model.golden import Golden, Memory
from penstock.testing.graphs import TILE, Build, T, compare, configuration
from penstock.testing.strategies import waits


def memory(data, dtype):
    """A configuration with an off-chip memory, ports and arbitration that are drawn."""
    drams = (
        Dram(),
        Dram(kind="ideal", latency=3),
        Dram(channels=1, interval=3),
        Dram(kind="ideal", latency=1),
        Dram(kind="ideal", latency=2, line_bytes=16),
    )
    dram = data.draw(st.sampled_from(drams))
    return configuration(
        dtype=dtype,
        pipelines=data.draw(st.sampled_from(["short", "deep"])),
        port_lanes=data.draw(st.sampled_from([1, 2, 4])),
        load_lines=data.draw(st.sampled_from([8, 32])),
        arbitration=data.draw(st.sampled_from(["need", "round_robin"])),
        dram=dram,
    )


class Slow(Memory):
    """Takes chunks and delivers lines when it likes; keeps when."""

    def __init__(self, config, seed):
        super().__init__(config)
        self.rng = np.random.default_rng(seed)
        self.rows = []
        self.delivered = set()

    def accept(self, h, lines, addresses=(), write=False):
        self.taken = h + int(self.rng.integers(0, 4))
        for line, address in zip(lines, addresses, strict=True):
            at = self.taken + int(self.rng.integers(1, 30))
            while at in self.delivered:
                at += 1
            self.delivered.add(at)
            self.rows.append([self.taken, at, address, write])
            self.waiting.append((at, line))


def compare_replayed(b, config, seed):
    """The contract with a memory of a timing of its own, and what is recorded of that: replayed by
    the contract and by the engine.
    """
    graph = b.graph()
    golden = Golden(graph, config, b.sources, b.sinks)
    golden.memory = slow = Slow(config.machine.dram, seed)
    cycles = golden.run()
    with NamedTemporaryFile(suffix=".csv") as file:
        Deliveries(np.array(slow.rows, np.int64).reshape(-1, 4)).write(file.name)
        dram = replace(config.machine.dram, kind="trace", channels=1, deliveries=file.name)
        run = compare(b, replace(config, machine=replace(config.machine, dram=dram)))
    assert run.cycles == cycles


@many
@given(st.data())
def test_off_chip(data):
    """Loads of random walks (misaligned, clamped, out of the tensor) into sinks, and one load that
    a store writes back.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    for i in range(data.draw(st.integers(0, 2))):
        x = b.tensor(f"x{i}", data.draw(st.integers(1, 12)), data.draw(st.integers(1, 40)), dtype)
        rank = data.draw(st.integers(0, 2))

        def draws(low, high, rank=rank):
            return [data.draw(st.integers(low, high)) for _ in range(rank)]

        shape = draws(1, 3)
        u = b.off_chip(
            "load",
            x,
            data.draw(st.integers(1, 10)),
            data.draw(st.integers(1, 40)),
            rank=rank,
            shape=shape,
            row_step=draws(0, 6),
            col_step=draws(0, 20),
            **listed(
                data,
                [
                    (data.draw(st.integers(0, 12)), data.draw(st.integers(0, 40)))
                    for _ in range(math.prod(shape))
                ],
            ),
        )
        b.link(u, b.sink(data.draw(waits(20))), tile)
    rows, cols, r, c = (data.draw(st.integers(1, n)) for n in (10, 40, 10, 40))
    x = b.tensor("in", rows, cols, dtype)
    y = b.tensor("out", rows, cols, dtype, "output")
    shape = [-(-rows // r), -(-cols // c)]
    order = listed(
        data,
        data.draw(
            st.permutations([(i * r, j * c) for i in range(shape[0]) for j in range(shape[1])])
        ),
    )
    u = b.off_chip("load", x, r, c, rank=2, shape=shape, row_step=[r, 0], col_step=[0, c], **order)
    b.link(u, b.off_chip("store", y, r, c, **order), tile)
    compare(b, memory(data, dtype))
    compare_replayed(b, memory(data, dtype), data.draw(st.integers(0, 1000)))


@many
@given(st.data())
def test_triggered_loads(data):
    """Loads that a stream starts: a loop nest a beat, or the logical tile that a number names;
    empty tensors among the triggers.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    for i in range(data.draw(st.integers(1, 2))):
        stops = data.draw(ragged(2, closed=data.draw(st.booleans())))
        rows = data.draw(st.integers(1, 9))
        cols = data.draw(st.integers(1, 40))
        if data.draw(st.booleans()):
            x = b.tensor(
                f"x{i}", data.draw(st.integers(1, 12)), data.draw(st.integers(1, 40)), dtype
            )
            rank = data.draw(st.integers(0, 2))

            def draws(low, high, rank=rank):
                return [data.draw(st.integers(low, high)) for _ in range(rank)]

            shape = draws(0 if data.draw(st.integers(0, 9)) == 0 else 1, 2)
            order = (
                listed(
                    data,
                    [
                        (data.draw(st.integers(0, 12)), data.draw(st.integers(0, 40)))
                        for _ in range(math.prod(shape))
                    ],
                )
                if math.prod(shape)
                else {}
            )
            u = b.off_chip(
                "load",
                x,
                rows,
                cols,
                rank=rank,
                shape=shape,
                row_step=draws(0, 6),
                col_step=draws(0, 20),
                trigger="ref",
                **order,
            )
            payload = BufferRef(8)
            numbers = st.tuples(st.integers(0, 7), st.just(1))
        else:
            shift = data.draw(st.integers(0, 2))
            down = data.draw(st.integers(1, 3))
            x = b.tensor(
                f"x{i}", down * rows - data.draw(st.integers(0, rows - 1)), cols << shift, dtype
            )
            u = b.off_chip(
                "load",
                x,
                rows,
                cols,
                rank=0,
                shape=[],
                row_step=[],
                col_step=[],
                trigger="address",
                shift=shift,
            )
            payload = Scalar(8)
            numbers = st.tuples(st.integers(0, (down << shift) - 1), st.just(0))
        beats = data.draw(with_bare(stops, numbers))
        b.link(b.source(beats, data.draw(waits(len(beats) + 1))), u, payload)
        b.link(u, b.sink(data.draw(waits(20))), tile)
    compare(b, memory(data, dtype))


@many
@given(st.data())
def test_random_stores(data):
    """Tiles stored where numbers say, with empty groups among both; an acknowledgement starts a
    load of the whole tensor.
    """
    dtype = data.draw(st.sampled_from(["fp32", "bf16"]))
    tile = type(TILE)(T, dtype)
    b = Build(data.draw(st.integers(1, 2)))
    bands, width, shift, down = (
        data.draw(st.integers(low, high)) for low, high in ((1, 2), (1, 9), (0, 2), (1, 3))
    )
    rows = data.draw(st.integers(T * bands - T + 1, T * bands))
    cols = T * width
    y = b.tensor("y", down * rows, cols << shift, dtype, "output")
    addresses = []
    tiles = []
    for s in data.draw(ragged(2, closed=data.draw(st.booleans()))):
        if s and data.draw(st.integers(0, 3)) == 0:
            addresses.append((s, None))
            if data.draw(st.booleans()):
                tiles.append((2 + s, None))
            continue
        addresses.append((s, (data.draw(st.integers(0, (down << shift) - 1)), 0)))
        valid = data.draw(st.integers(0, rows))
        columns = data.draw(st.integers(0, cols))
        for i in range(bands):
            end = 2 + s if i == bands - 1 else 1
            high = min(max(valid - i * T, 0), T)
            tiles += [
                (end if j == width - 1 else 0, (high, min(max(columns - j * T, 0), T)))
                for j in range(width)
            ]
    u = b.off_chip("random_store", y, rows, cols, shift=shift)
    b.link(b.source(addresses, data.draw(waits(len(addresses) + 1))), (u, 0), Scalar(6))
    b.link(b.source(tiles, data.draw(waits(len(tiles) + 1))), (u, 1), tile)
    at = u
    if data.draw(st.booleans()):
        at = b.off_chip(
            "load", y, y.rows, y.cols, rank=0, shape=[], row_step=[], col_step=[], trigger="ref"
        )
        b.link(u, at, Scalar(1))
    b.link(at, b.sink(data.draw(waits(20))), Scalar(1) if at == u else tile)
    compare(b, memory(data, dtype))
