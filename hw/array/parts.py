"""The distinct parts of an array, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from amaranth.lib import wiring

from .array import Array

GROUPS = ("slots", "tile switches", "small switches", "FIFOs", "choices", "interconnect")
"""Kinds of parts; choices are what leads one of several wires to a pin."""


@dataclass(frozen=True)
class Counted:
    """Components of an array that are one module."""

    group: str  # one of :data:`GROUPS`
    name: str  # of a slot or a plane
    component: wiring.Component  # one of them
    number: int  # how many


def parts(array: Array) -> list[Counted]:
    """All parts but what configures, counts and joins them, by module."""
    numbers: Counter[str] = Counter()
    found: dict[str, tuple[str, str, wiring.Component]] = {}
    for site in array.sites():
        for group, name, part in site.parts():
            key = part.key.name
            numbers[key] += 1
            found.setdefault(key, (group, name, part.component))
    counted = [Counted(*what, numbers[key]) for key, what in found.items()]
    if array.interconnect is not None:
        counted.append(Counted("interconnect", "memory", array.interconnect, 1))
    return counted
