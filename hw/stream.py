"""Joining streams by payload, not by width."""

from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import data, stream, wiring


def _check(source: stream.Interface, sink: stream.Interface) -> None:
    have = source.payload.shape()
    want = sink.payload.shape()
    if have != want:
        raise TypeError(
            f"Payload of the source must have the shape of the sink, {want!r}, not {have!r}"
        )


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
    _check(source, sink)
    wiring.connect(m, source, sink)


def share(
    source: wiring.Component, output: str, sink: wiring.Component, input: str, *, name: str
) -> stream.Interface:
    """Join two components that are not yet elaborated by giving both the same stream, named
    ``name``.

    Says what :func:`connect` says, without an assignment and without a signal per field of the
    payload: Amaranth spends 5 to 10 microseconds on each bit of those, which adds up to minutes
    over the beats of 16 x 16 tiles.

    Raises
    ------
    TypeError
        If the shapes differ; the message names both.
    """
    _check(getattr(source, output), getattr(sink, input))
    shape = getattr(source, output).payload.shape()
    shared = stream.Signature(shape).create(path=(name,))
    if isinstance(shape, data.Layout):
        shared.payload = data.View(shape, Signal(Shape.cast(shape), name=f"{name}__payload"))
    setattr(source, output, shared)
    setattr(sink, input, wiring.flipped(shared))
    return shared
