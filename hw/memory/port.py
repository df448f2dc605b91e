"""Off-chip ports: what a unit and the interconnect say to each other (docs/timing.md section 5)."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...machine.widths import Widths


def read_chunk(lanes: int, widths: Widths) -> data.StructLayout:
    """Up to ``lanes`` lines: lane w, if its bit in ``mask`` is set, is the line at byte ``address +
    w * pitch``.
    """
    return data.StructLayout({"address": widths.address, "pitch": widths.address, "mask": lanes})


def write_chunk(lanes: int, widths: Widths, tags: int = 1) -> data.StructLayout:
    """Send a chunk as :func:`read_chunk` does, with each lane's line and the mask of its bytes to
    be written, and the tag of its acknowledgements.
    """
    return data.StructLayout(
        {
            "address": widths.address,
            "pitch": widths.address,
            "mask": lanes,
            "data": data.ArrayLayout(widths.line, lanes),
            "bytes": data.ArrayLayout(widths.line // 8, lanes),
            "tag": range(tags),
        }
    )


class ReadPort(wiring.Signature):
    """Port of a unit that reads, seen from the unit.

    Parameters
    ----------
    lanes : int
        W, lines in a chunk.
    widths : Widths
        Of a line and of addresses.

    Members
    -------
    request : Out(stream.Signature(read_chunk(lanes, widths)))
        A chunk; accepted in the cycle in which it is granted. Only valid while ``free``.
    free : In(1)
        The port's ring has a group left at the start of the cycle.
    group : In(stream.Signature(data.ArrayLayout(widths.line, lanes)))
        The lines of the oldest chunk not yet taken, once all of them have come; lanes outside its
        mask are undefined.
    """

    def __init__(self, lanes: int, widths: Widths):
        super().__init__(
            {
                "request": Out(stream.Signature(read_chunk(lanes, widths))),
                "free": In(1),
                "group": In(stream.Signature(data.ArrayLayout(widths.line, lanes))),
            }
        )


class WritePort(wiring.Signature):
    """Port of a unit that writes, seen from the unit.

    Parameters
    ----------
    lanes : int
        W, lines in a chunk.
    widths : Widths
        Of a line and of addresses.
    responses : int
        N, most acknowledgements in one cycle.
    tags : int
        Kinds of acknowledgements that the unit tells apart.

    Members
    -------
    request : Out(stream.Signature(write_chunk(lanes, widths, tags)))
        A chunk; accepted in the cycle in which it is granted.
    acks : In(data.ArrayLayout(range(responses + 1), tags))
        Lines acknowledged in this cycle, by tag.
    """

    def __init__(self, lanes: int, widths: Widths, responses: int, tags: int = 1):
        self.tags = tags
        super().__init__(
            {
                "request": Out(stream.Signature(write_chunk(lanes, widths, tags))),
                "acks": In(data.ArrayLayout(range(responses + 1), tags)),
            }
        )
