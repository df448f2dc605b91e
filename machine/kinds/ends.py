"""Kinds at the edge of the fabric."""

from __future__ import annotations

from .kind import In, Kind, Out, param, register
from .setting import Given

__all__ = ["Sink", "Source"]


@register
class Source(Kind):
    """Stream from outside the fabric.

    A beat is offered from its release on until it is taken.
    """

    name = "source"
    data = Out("beats")


@register
class Sink(Kind):
    """Stream to outside the fabric.

    A beat is taken from its release on.
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
    data = In("beats")
