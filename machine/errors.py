"""The project's own errors, one class for each kind of cause."""

from __future__ import annotations

from ..system.errors import PenstockError, nearest

__all__ = [
    "ConfigError",
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


class FormError(RunError):
    """Lists that have no form on a wire: an empty one is alone in its list."""
