"""The function of a unit that reduces."""

from amaranth.hdl import Module, Value

from ..functions import lookup
from ..module_key import module_key
from ..place import place
from .unit import Unit

__all__ = ["reduced"]


def reduced(unit: Unit, m: Module, name: str, en: Value, a: Value, b: Value) -> Value:
    """The unit's function ``fn`` of two words; a slot has a lane for
    each that it may be.

    Timing
    ------
    Combinational: the functions are of one stage.

    """

    def result(fn: str) -> Value:
        label = name if len(unit.choices("fn")) == 1 else f"{name}_{fn}"
        lane = lookup(fn)()
        m.submodules[label] = place(lane, module_key("lane", {"fn": fn}), label)
        m.d.comb += [lane.en.eq(en), lane.a.eq(a), lane.b.eq(b)]
        return lane.o

    return unit.pick("fn", result)
