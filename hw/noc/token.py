"""Layouts of tokens between PEs (``penstock.overlay.core.config``)."""

from amaranth.lib import data

from ...overlay.core.config import Layout


def struct(layout: Layout) -> data.StructLayout:
    """A word format as a layout: same fields, LSB first."""
    return data.StructLayout(dict(layout.fields))


def link_layout(token: data.StructLayout) -> data.StructLayout:
    """A register between two routers without back-pressure: ``valid`` and ``token``."""
    return data.StructLayout({"valid": 1, "token": token})


def ram_attributes(style: str | None) -> dict[str, object]:
    """Attributes of a memory that is never read where it is written, of a kind (``"block"``,
    ``"distributed"``) or of any (None).
    """
    if style not in (None, "block", "distributed"):
        raise ValueError(f"Kind of memory must be 'block', 'distributed' or None, not {style!r}")
    return {"no_rw_check": True, **({"ram_style": style} if style else {})}
