"""Scripts against the STeP authors' Python, run as they are.

Penstock supplies the modules that such a script imports while it runs (:mod:`.modules`): operators
(:mod:`.ops`), functions (:mod:`.functions`) and types by their public names. What a script
simulates becomes a program (:mod:`.translation`), which runs in the timing `stepsim` at once
(:mod:`.sim`), and on this machine like any other.
"""

from .script import ScriptError, run
from .sim import Simulated

__all__ = ["ScriptError", "Simulated", "run"]
