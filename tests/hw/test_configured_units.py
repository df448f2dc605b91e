"""A slot configured for a unit is that unit: equal in every output of every cycle."""

import numpy as np
import pytest
from penstock.machine.kinds import KINDS
from penstock.testing.slots import FifoPair, drawn, every, simulate, unequal

SLOTS = every()
CYCLES = 150


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.kind)
def test_a_slot_is_the_unit_that_it_is_configured_for(slot):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        unit = drawn(slot, rng)
        found = unequal(slot, unit, rng, CYCLES)
        assert not found, (unit, found[:5])


REGISTERS = [
    (slot, name)
    for slot in SLOTS
    for name in slot.registers()
    if name not in KINDS[slot.kind].runtime
]


@pytest.mark.parametrize("slot, name", REGISTERS, ids=lambda x: getattr(x, "kind", x))
def test_a_setting_that_holds_something_else_is_found(slot, name):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        unit = drawn(slot, rng)
        other = slot.settings(drawn(slot, rng))[name]
        if other == slot.settings(unit)[name]:
            continue
        if unequal(slot, unit, rng, CYCLES, {name: other}):
            return
    pytest.fail(f"{name} of {slot.kind} is a register that nothing depends on")


@pytest.mark.parametrize(
    "places, depth", [*((8, d) for d in range(1, 9)), (512, 1), (512, 9), (512, 65), (512, 512)]
)
def test_a_fifo_of_fewer_places_is_the_dedicated_one(places, depth):
    pair = FifoPair(places, depth)
    rng = np.random.default_rng([places, depth])

    async def bench(ctx):
        for cycle in range(max(300, 4 * depth)):
            fills = cycle // max(20, depth) % 2
            ctx.set(pair.put, int(rng.integers(100) < (95 if fills else 40)))
            ctx.set(pair.get, int(rng.integers(100) < (20 if fills else 90)))
            ctx.set(pair.beat, int(rng.integers(256)))
            assert not ctx.get(pair.differs), cycle
            await ctx.tick()

    simulate(pair, bench)


def test_a_fifo_with_another_limit_is_found():
    pair = FifoPair(8, 3, limit=4)

    async def bench(ctx):
        ctx.set(pair.put, 1)
        for _ in range(3):
            assert not ctx.get(pair.differs)
            await ctx.tick()
        assert ctx.get(pair.differs)

    simulate(pair, bench)
