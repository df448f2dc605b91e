"""The units of the `machine` timing, compiled: one function per kind, each one cycle of
docs/timing.md for one unit.

`state` says how the state array is laid out and what channels do; the other modules hold the kinds.
`penstock.model.engine` calls them.
"""

from .accum import *
from .ends import *
from .offchip import *
from .pipeline import *
from .routing import *
from .rows import *
from .scratchpad import *
from .shape import *
from .state import *
