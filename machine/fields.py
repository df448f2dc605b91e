"""Kinds of a configuration's fields."""

from __future__ import annotations


def described(text: str, allowed: range | None = None) -> dict[str, object]:
    """A field's meaning, unit and source, and the range of an integer."""
    return {"doc": text, "allowed": allowed}
