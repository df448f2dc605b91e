"""Kinds at the edge of the fabric."""

from __future__ import annotations

from .. import limits
from .kind import In, Kind, Out, param, register
from .setting import Given, Optional


@register
class Source(Kind):
    """Stream from outside the fabric.

    A beat is offered from its release on until it is taken. With a memory of its own, it waits for
    nothing.
    """

    name = "source"
    beats: int | None = param(
        "beats that its own memory gives, Done among them; without it they come from a port",
        limits.STREAM_BEATS,
        setting=Optional(adds_port=False, least=1, highest=limits.STREAM_BEATS[-1]),
        default=None,
    )
    data = Out("beats")


@register
class Sink(Kind):
    """Stream to outside the fabric.

    A beat is taken from its release on, or as it comes, into a memory of the sink's own.
    """

    name = "sink"
    ends_run = True
    posts = "scratchpad"
    drops = True
    scratchpad: int | None = param(
        "unit id that a reference belongs to: what is taken is a reference less",
        setting=Given(),
        default=None,
    )
    beats: int | None = param(
        "most beats that its own memory keeps, Done among them; without it they go to a port",
        limits.STREAM_BEATS,
        setting=Optional(adds_port=False, least=1, highest=limits.STREAM_BEATS[-1]),
        default=None,
    )
    data = In("beats")
