"""The function of a unit that reduces."""

from amaranth.hdl import Module, Value

from ...machine.functions import reducing_stages
from ..export.module_key import module_key
from ..export.place import place
from ..functions import lookup
from .delay import delay
from .unit import Unit


def reduced(unit: Unit, m: Module, name: str, en: Value, a: Value, b: Value) -> Value:
    """The unit's function ``fn`` of two words; a slot has a lane for each that it may be.

    Timing
    ------
    Combinational: the functions are of one stage. Deep, the result of words that enter in cycle c
    is there in c + S - 1, whatever the function, S = ``reducing_stages``.
    """
    deep = unit.kind.deep
    how = {"deep": True} if deep else {}

    def result(fn: str) -> Value:
        label = name if len(unit.choices("fn")) == 1 else f"{name}_{fn}"
        lane = lookup(fn, deep=deep)()
        m.submodules[label] = place(lane, module_key("lane", {"fn": fn} | how), label)
        m.d.comb += [lane.en.eq(en), lane.a.eq(a), lane.b.eq(b)]
        wait = reducing_stages(deep) - lane.STAGES
        return delay(m, lane.o, wait, name=f"{label}_late", reset_less=True)

    return unit.pick("fn", result)
