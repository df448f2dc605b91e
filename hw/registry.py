"""Which component implements a unit kind; open for a user's own units."""

from importlib import import_module

from amaranth.lib import wiring

from ..machine.kinds import KINDS

__all__ = ["UNITS", "component", "register"]


UNITS: dict[str, type[wiring.Component] | str] = {
    "broadcast": "penstock.hw.units.broadcast:Broadcast",
    "flatten": "penstock.hw.units.flatten:Flatten",
    "promote": "penstock.hw.units.promote:Promote",
    "reshape": "penstock.hw.units.reshape:Reshape",
    "repeat": "penstock.hw.units.repeat:Repeat",
    "pace": "penstock.hw.units.pace:Pace",
    "zip": "penstock.hw.units.zip:Zip",
    "split": "penstock.hw.units.split:Split",
    "merge": "penstock.hw.units.merge:Merge",
    "partition": "penstock.hw.units.partition:Partition",
    "reassemble": "penstock.hw.units.reassemble:Reassemble",
    "eager_merge": "penstock.hw.units.eager_merge:EagerMerge",
    "expand": "penstock.hw.units.expand:Expand",
    "signal": "penstock.hw.units.signal:Signal",
    "generate": "penstock.hw.units.generate:Generate",
    "address": "penstock.hw.units.address:Address",
    "map": "penstock.hw.units.map_unit:MapUnit",
    "matmul": "penstock.hw.units.matmul:Matmul",
    "row_reduce": "penstock.hw.units.row_reduce:RowReduce",
    "row_pack": "penstock.hw.units.row_pack:RowPack",
    "row_unpack": "penstock.hw.units.row_unpack:RowUnpack",
    "row_append": "penstock.hw.units.row_append:RowAppend",
    "row_offset": "penstock.hw.units.row_offset:RowOffset",
    "accum": "penstock.hw.units.accum:Accum",
    "source": "penstock.hw.units.source:Source",
    "sink": "penstock.hw.units.sink:Sink",
    "scratchpad": "penstock.hw.memory.scratchpad:Scratchpad",
    "load": "penstock.hw.memory.load:Load",
    "store": "penstock.hw.memory.store:Store",
    "random_store": "penstock.hw.memory.random_store:RandomStore",
}
"""Kind -> component class, or ``"module:Class"`` of one that is imported when it is first needed.
"""


def register(kind: str, cls: type[wiring.Component]) -> type[wiring.Component]:
    """Let ``cls`` implement the unit kind ``kind``, which ``penstock.machine.kinds`` must list.

    The class follows ``penstock.hw.units.unit.Unit``: the same constructor, ``cfg_layout`` and
    members.
    """
    if kind not in KINDS:
        raise ValueError(
            f"Unit kind must be registered in penstock.machine.kinds first, not {kind!r}"
        )
    if UNITS.setdefault(kind, cls) is not cls:
        raise ValueError(f"Unit kind {kind!r} is already implemented by {UNITS[kind]!r}")
    return cls


def component(kind: str) -> type[wiring.Component]:
    """The class of a kind.

    Raises
    ------
    LookupError
        If there is none; the message lists the kinds there are.

    """
    if kind not in UNITS:
        raise LookupError(
            f"Unit kind {kind!r} has no component; known kinds are {', '.join(sorted(UNITS))}"
        )
    cls = UNITS[kind]
    if isinstance(cls, str):
        module, name = cls.split(":")
        cls = UNITS[kind] = getattr(import_module(module), name)
    return cls
