"""A slot configured for a unit is that unit: equal in every output of every cycle."""

import numpy as np
import pytest
from penstock.machine.kinds import KINDS
from penstock.testing.slots import capability, drawn, unequal

STATED = {
    "accum": [{"fn": ["add", "max"], "lanes": 4}, {"fn": ["max", "add"], "lanes": 2}],
    "map": [{"fn": "sub", "arity": 2, "lanes": 2, "tuple_in": False, "constant": 2**32 - 1}],
    "matmul": [{"rows_per_cycle": 1}],
    "row_reduce": [{"fn": ["add", "max"]}],
    "generate": [{"fn": fn} for fn in ("address", "expert", "last")],
}
CASES = [
    (name, stated)
    for name, kind in sorted(KINDS.items())
    if not kind.memory and not kind.offchip
    for stated in STATED.get(name, [{}])
]


@pytest.mark.parametrize("kind, stated", CASES, ids=[f"{k}_{i}" for i, (k, _) in enumerate(CASES)])
def test_a_slot_is_the_unit_that_it_is_configured_for(kind, stated):
    slot = capability(kind, stated)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        params = drawn(slot, rng)
        found = unequal(slot, params, rng, cycles=150)
        assert not found, (params, found[:5])
