"""Forms of a machine: the same in less area, or with a faster clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Machine

FORMS = ("any", "lean", "deep", "lean_deep")
"""``lean``: narrow lines and registers; ``deep``: deep pipelines; ``any``: as the machine is."""
ADDRESS_BITS = 24
SIZE_BITS = 14
"""Of a lean machine."""


def in_form(machine: Machine, form: str) -> Machine:
    """A machine in one of :data:`FORMS`; in all but ``any`` its pipelines are those of the form."""
    if form == "any":
        return machine
    machine = replace(machine, pipelines="deep" if "deep" in form else "short")
    if "lean" not in form:
        return machine
    narrow = replace(machine.dram, line_bytes=min(machine.dram.line_bytes, 8 * machine.t))
    return replace(machine, address_bits=ADDRESS_BITS, size_bits=SIZE_BITS, dram=narrow)
