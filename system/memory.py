"""The memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""


def peak() -> int:
    """The most bytes that this process has held in memory at once.

    Linux says it of the program alone (VmHWM). `ru_maxrss` counts what the process that started it
    held, too, and stands in elsewhere.
    """
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    return _UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
