"""Routers and switches between fabrics; the off-chip interconnect is in hw/memory."""
