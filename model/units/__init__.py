"""The units of the `machine` timing, compiled: one function per kind, each one cycle of docs/timing.md for one unit.

`state` says how the state array is laid out and what channels do; the other modules hold the kinds. `penstock.model.engine` calls them.
"""

from .accum import *  # noqa: F403
from .ends import *  # noqa: F403
from .offchip import *  # noqa: F403
from .pipeline import *  # noqa: F403
from .rows import *  # noqa: F403
from .routing import *  # noqa: F403
from .scratchpad import *  # noqa: F403
from .shape import *  # noqa: F403
from .state import *  # noqa: F403
