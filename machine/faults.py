"""Faults inside a run, on both sides: the bits of the fabric's ``error`` and the codes of the
model.
"""

import enum


class Fault(enum.IntEnum):
    """A fault: its bit in ``error``, meaning, broken rule and remedy."""

    what: str
    rule: str | None
    remedy: str | None

    def __new__(cls, bit: int, what: str, rule: str | None = None, remedy: str | None = None):
        self = int.__new__(cls, bit)
        self._value_ = bit
        self.what = what
        self.rule = rule
        self.remedy = remedy
        return self

    STOP = (
        0,
        "its inputs differ in stop level or end at different beats, tiles that it reduces differ "
        "in their number of physical tiles, or a tensor ends within a row of tiles",
        "operands have equal shapes",
    )
    ACCUMULATORS = (
        1,
        "more accumulator tiles are needed than it has",
        None,
        "raise machine.accum_tiles, or tile the program differently",
    )
    REFERENCES = (
        2,
        "a buffer has more references, or tiles, than are counted",
        None,
        "use smaller buffers, or fewer readers",
    )
    STRAY = 3, "a memory response came without a request"
    EMPTY = (
        4,
        "an empty group stands alone in its group, or a part is empty where none may be",
        "such a stream has no form on the wire",
        "leave empty groups out, or merge the dimension around them too",
    )
    ADDRESS = (
        5,
        "an address lies outside its tensor, a tile outside its buffer, or a beat outside its "
        "sink's memory",
    )
    ROWS = 6, "rows do not fit into a tile, or the tiles of a row do not lie side by side"
    FLIGHT = 7, "more lines are in flight than the memory model holds"
    RECORDED = 8, "the run is not the one whose deliveries were recorded"
