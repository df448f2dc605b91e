"""The terms of a ledger in words, for who reads records only."""

from ..machine.record import LEDGER

TITLES = (
    "- steps overlap",
    "- padding",
    "- side by side",
    "+ whole lines",
    "+ fill",
    "+ waits",
    "+ drain",
)
TERMS = dict(zip(LEDGER, TITLES, strict=True))
"""The terms of a ledger, and what tables call them, with their signs."""
