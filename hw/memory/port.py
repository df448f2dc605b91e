"""Off-chip ports: what a unit and the interconnect say to each other (docs/timing.md section 5)."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.beat import LINE_BYTES
from ...machine.limits import ADDRESS_BITS

__all__ = ["LINE_BITS", "ReadPort", "WritePort", "read_chunk", "write_chunk"]

LINE_BITS = 8 * LINE_BYTES


def read_chunk(lanes: int) -> data.StructLayout:
    """Up to ``lanes`` lines: lane w, if its bit in ``mask`` is set, is
    the line at byte ``address + w * pitch``.
    """
    return data.StructLayout({"address": ADDRESS_BITS, "pitch": ADDRESS_BITS, "mask": lanes})


def write_chunk(lanes: int, tags: int = 1) -> data.StructLayout:
    """As :func:`read_chunk`, with each lane's line and the mask of its
    bytes to be written, and the tag of its acknowledgements.
    """
    return data.StructLayout(
        {
            "address": ADDRESS_BITS,
            "pitch": ADDRESS_BITS,
            "mask": lanes,
            "data": data.ArrayLayout(LINE_BITS, lanes),
            "bytes": data.ArrayLayout(LINE_BYTES, lanes),
            "tag": range(tags),
        }
    )


class ReadPort(wiring.Signature):
    """Port of a unit that reads, seen from the unit.

    Parameters
    ----------
    lanes : int
        W, lines in a chunk.

    Members
    -------
    request : Out(stream.Signature(read_chunk(lanes)))
        A chunk; accepted in the cycle in which it is granted. Only valid while ``free``.
    free : In(1)
        The port's ring has a group left at the start of the cycle.
    group : In(stream.Signature(data.ArrayLayout(512, lanes)))
        The lines of the oldest chunk not yet taken, once all of them have come; lanes outside its
        mask are undefined.

    """

    def __init__(self, lanes: int):
        super().__init__(
            {
                "request": Out(stream.Signature(read_chunk(lanes))),
                "free": In(1),
                "group": In(stream.Signature(data.ArrayLayout(LINE_BITS, lanes))),
            }
        )


class WritePort(wiring.Signature):
    """Port of a unit that writes, seen from the unit.

    Parameters
    ----------
    lanes : int
        W, lines in a chunk.
    responses : int
        N, most acknowledgements in one cycle.
    tags : int
        Kinds of acknowledgements that the unit tells apart.

    Members
    -------
    request : Out(stream.Signature(write_chunk(lanes, tags)))
        A chunk; accepted in the cycle in which it is granted.
    acks : In(data.ArrayLayout(range(responses + 1), tags))
        Lines acknowledged in this cycle, by tag.

    """

    def __init__(self, lanes: int, responses: int, tags: int = 1):
        self.tags = tags
        super().__init__(
            {
                "request": Out(stream.Signature(write_chunk(lanes, tags))),
                "acks": In(data.ArrayLayout(range(responses + 1), tags)),
            }
        )
