"""Second run from a payload digest that differs to the elements that do: model and RTL, with the
faulty channels recorded.
"""

from __future__ import annotations

from typing import Unpack

from ..machine.config import Config
from ..machine.stimulus import Point
from .api import Options, run_many, with_model
from .check import Report

MOST = 4
"""Channels recorded at once: a fault travels on, so the earliest tell where it comes from, and
whole beats take memory.
"""


def unfold(report: Report, point: Point, config: Config, **options: Unpack[Options]) -> Report:
    """The comparison with payloads in full where they differ.

    Parameters
    ----------
    report
        A comparison of the point's two runs; returned as it is if no payload differs.
    point, config
        What ran.
    options
        Further arguments of :func:`penstock.tb.run_many`.

    Returns
    -------
    Report
        Each of the first ``MOST`` channels at fault tells producer and consumer, beat, cycles, and
        the first elements that differ: row, column, both values and their bits.
    """
    names = report.channels_at_fault[:MOST]
    record = [c.id for c in point.graph.channels if c.name in names]
    if not record:
        return report
    (got,) = run_many([with_model(point, config, record)], config, record=record, **options)
    return got.extra["report"]
