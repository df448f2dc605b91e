"""The project's own errors, one class for each kind of cause."""

from __future__ import annotations

from ..system.errors import PenstockError, nearest
from .faults import Fault

__all__ = [
    "ConfigError",
    "FaultError",
    "FormError",
    "LoweringError",
    "PenstockError",
    "ProgramError",
    "RunError",
    "nearest",
]


class ConfigError(PenstockError):
    """A machine configuration that cannot be read or built."""


class ProgramError(PenstockError):
    """A STeP program that breaks a typing, shape or structural rule."""


class LoweringError(PenstockError):
    """A program that is well typed but cannot be mapped onto the configured machine."""


class RunError(PenstockError):
    """A run that could not finish: deadlock, an access outside its allocation, a missing tool."""


class FaultError(RunError):
    """A fault that a unit shows, of the model.

    Attributes
    ----------
    fault : Fault
    cycle : int
        Cycle of the fault; the fabric's ``error`` shows it from the next one on.
    """

    def __init__(self, fault: Fault, cycle: int, where: str):
        self.fault = fault
        self.cycle = cycle
        super().__init__(f"{fault.what}, in cycle {cycle}", where, fault.rule, fault.remedy)


class FormError(RunError):
    """Lists that have no form on a wire: an empty one is alone in its list."""
