"""Joining streams by payload, not by width."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring


__all__ = ["connect"]


def connect(m: Module, source: stream.Interface, sink: stream.Interface) -> None:
    """Connect an output stream to an input stream of the same payload shape.

    ``wiring.connect`` compares widths only; two payloads of one width but different fields pass it.

    Parameters
    ----------
    m : Module
        Where the connection is made.
    source : stream.Interface
        Drives ``payload`` and ``valid``.
    sink : stream.Interface, flipped
        Drives ``ready``.

    Raises
    ------
    TypeError
        If the shapes differ; the message names both.
    """
    have, want = source.payload.shape(), sink.payload.shape()
    if have != want:
        raise TypeError(f"Payload of the source must have the shape of the sink, {want!r}, not {have!r}")
    wiring.connect(m, source, sink)
