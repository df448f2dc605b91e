"""A schedule on the machine: its STeP programs, a problem at a machine's rates, and smaller
versions of both.
"""

from .lower import Held, Lowered, lower_schedule
from .rates import at_rates_of
from .scale import shrink

__all__ = ["Held", "Lowered", "at_rates_of", "lower_schedule", "shrink"]
