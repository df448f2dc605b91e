"""Bugs of five kinds, planted in the RTL by changing the text of a component while a fabric is
made.
"""

import contextlib
import inspect
import sys
import types

from ..hw.memory.pages import PageList
from ..hw.units.arrival import ArrivalOrder
from ..hw.units.flatten import Flatten
from ..hw.units.repeat import Repeat
from . import campaign, programs
from .draw import Goal


def goes_beyond(g, run, u) -> bool:
    """A flatten that lowers stops."""
    if u.kind != "flatten" or u.params["lo"] == u.params["hi"]:
        return False
    x = run.channels[g.inputs(u.id)[0].id]
    return any(u.params["hi"] < s < 15 and d for s, d in zip(x.stop, x.data, strict=True))


def waits(g, run, u) -> bool:
    return u.kind == "flatten" and run.blocked[u.id] > 1


def merges(g, run, u) -> bool:
    return (
        u.kind == "eager_merge"
        and u.params["n"] > 2
        and all(len(run.channels[c.id].stop) > 2 for c in g.inputs(u.id))
    )


def frees(g, run, u) -> bool:
    """A scratchpad with several buffers."""
    return (
        u.kind == "scratchpad"
        and sum(
            u.params["writers"][0]["rank"] <= s < 15
            for s in run.channels[g.inputs(u.id)[0].id].stop
        )
        > 4
    )


def repeats(g, run, u) -> bool:
    return u.kind == "repeat" and run.channels[g.inputs(u.id)[0].id].data.sum() > 1


BUGS = {
    "dropped stop": (
        Flatten,
        "Mux(stop > hi, stop - (hi - lo), Mux(part, lo, stop))",
        "Mux(stop > lo, lo, stop)",
        "Flatten",
        goes_beyond,
    ),
    "lost beat under stall": (
        Flatten,
        "self.data.ready.eq((self.result.ready | dropped) & ~unwritten)",
        "self.data.ready.eq(1)",
        "Flatten",
        waits,
    ),
    "swapped arrival order": (
        ArrivalOrder,
        "above = (1 << n) - (2 << i)",
        "above = (1 << i) - 1",
        "EagerMerge",
        merges,
    ),
    "leaked page": (
        PageList,
        "Mux(self.give.valid, left + self.give.count, left)",
        "Mux(self.give.valid, left + self.give.count - 1, left)",
        "Streamify repeat",
        frees,
    ),
    "off-by-one count": (
        Repeat,
        "(copies + 2 == self.cfg.count)",
        "(copies + 1 == self.cfg.count)",
        "Expand count",
        repeats,
    ),
}
"""Kind of bug -> component, its text, what it becomes, the operator around which a program is
drawn, and the unit that it has to have at work.
"""


def seed_for(bug: str) -> int:
    """Seed below 60 whose first program is the smallest among those in which the bug can show."""
    focus, shows = BUGS[bug][3:]
    found = []
    for seed in range(60):
        config = programs.machine((seed, 1, 0))
        case = (
            campaign._one(campaign.Campaign(), config, (seed, 2, 0), (Goal((focus,)),), None)
            if config.machine.t == 2
            else None
        )
        if case is not None:
            run = programs.run_model(case, config)
            if any(shows(case.graph, run, u) for u in case.graph.units):
                found.append((len(case.graph.channels), seed))
    return min(found)[1]


@contextlib.contextmanager
def planted(bug: str):
    """While open, the component is made with its bug."""
    cls, right, wrong, *_ = BUGS[bug]
    module = sys.modules[cls.__module__]
    text = inspect.getsource(module)
    assert text.count(right) == 1, f"{cls.__name__} no longer has the text {right!r}"
    other = types.ModuleType(f"{module.__package__}.planted")
    other.__package__ = module.__package__
    exec(compile(text.replace(right, wrong), inspect.getfile(module), "exec"), other.__dict__)
    kept = cls.elaborate
    cls.elaborate = getattr(other, cls.__name__).elaborate
    try:
        yield
    finally:
        cls.elaborate = kept
