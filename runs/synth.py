"""Cost of a fabric's parts on an FPGA, and the clock that each reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..frontend import build, lower
from ..machine.config import Config
from ..machine.config import load as load_config
from ..machine.errors import PenstockError
from .progress import Progress
from .progress import of as progress_of


def synth(
    program: str,
    config: str | Config = "fig8",
    params: dict | None = None,
    *,
    only: str = "",
    whole: bool = False,
    family: str = "ecp5",
    seeds: Sequence[int] = (),
    speed: str = "6",
    progress: Progress | Callable[[str], None] | None = None,
) -> list[dict]:
    """Synthesise the distinct parts of a program's fabric, each by itself.

    Parameters
    ----------
    program, config, params
        As of :func:`~penstock.runs.api.run`.
    only
        Parts whose name contains this.
    whole
        The fabric as one piece, with its registers and counters, instead of its parts.
    family
        ``ecp5`` or ``xc7``.
    seeds
        Place and route each part (ecp5), once for each of these seeds of the placement.
    speed
        The speed grade of the device: ``6``, ``7`` or ``8``.
    progress
        Called with a line about each part.

    Returns
    -------
    list of dict
        For each part ``part``, ``count`` (how many the fabric has), and of one of them ``lut`` (LUT
        RAM included), ``lut_ram``, ``ff``, ``bram``, ``dsp``; ``units`` names some. Without
        ``only`` and ``whole`` the last row is the sum over all. With ``seeds`` also ``mhz``, the
        least rate of the seeds, ``seeds``, the rate of each, and ``path``, the critical path.

    Raises
    ------
    PenstockError
        No part has such a name, or family or speed grade is unknown; else what ``run`` raises
        before it runs.
    RunError
        A tool is missing or fails.
    """
    # Amaranth takes a second to import; only this call needs it.
    from ..hw import nextpnr
    from ..hw.fabric import Fabric
    from ..hw.parts import Part, parts
    from ..hw.synthesis import Cost, cost, look_at_parts

    look_at_parts()
    if seeds:
        nextpnr.check(family, speed)
    config = load_config(config) if isinstance(config, str) else config
    graph = lower(build(program, params or {}, config).graph, config)
    if whole:
        found = [Part("fabric", [graph.name], lambda: Fabric(graph, config))]
    else:
        found = parts(Fabric(graph, config))
    chosen = [part for part in found if only in part.name]
    if not chosen:
        names = ", ".join(dict.fromkeys(part.name for part in found))
        raise PenstockError(f"no part's name contains {only!r}", remedy=f"parts: {names}")
    show = progress_of(progress)
    show.plan(len(chosen))
    rows = []
    total = Cost(0, 0, 0, 0.0, 0)
    for part in chosen:
        routed = {}
        if seeds:
            show.stage(f"synthesise, place and route {part.name}")
            one, routed = nextpnr.rated(part.make(), seeds=seeds, speed=speed)
        else:
            show.stage(f"synthesise {part.name}")
            one = cost(part.make(), family)
        count = len(part.units)
        for _ in range(count):
            total += one
        named = " ".join(part.units[:3]) + (" ..." if count > 3 else "")
        row = {"part": part.name, "count": count, **vars(one), "units": named}
        row |= {key: routed[key] for key in ("mhz", "seeds", "path") if key in routed}
        rows.append(row)
        show.done(part.name)
    if not only and not whole:
        every = sum(row["count"] for row in rows)
        rows.append({"part": "sum", "count": every, **vars(total), "units": ""})
    return rows
