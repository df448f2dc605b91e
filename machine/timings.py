"""The timings by name, and the names that they once had."""

from .errors import PenstockError, nearest

TIMINGS = ("machine", "stepsim")
"""This machine's cycles; the published STeP simulator's (docs/stepsim.md)."""

_OLD_NAMES = {"published": "stepsim"}


def current_name(timing: str) -> str:
    """Today's name of a timing, and of its table in a configuration; other names as they are.

    Stored records, configurations and commands may hold a name that has changed since.
    """
    return _OLD_NAMES.get(timing, timing)


def known_timing(timing: str) -> str:
    """Today's name of a timing.

    Raises
    ------
    PenstockError
        There is no such timing.
    """
    name = current_name(timing)
    if name not in TIMINGS:
        raise PenstockError(f"no timing {timing!r}", remedy=nearest(timing, TIMINGS, "one of"))
    return name
