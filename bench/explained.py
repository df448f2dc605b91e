"""What has been looked into of what docs/detection.md lists: mutants
that nothing finds, and branches and assignments that nothing reaches.

A line is named by its file and by what it says, with its number among
equal lines, so that it stays where lines above come or go.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

NOTES = Path(__file__).with_name("explained.toml")

Explained = dict[tuple[str, str], str]
"""Line, and what of it -> why."""


@functools.cache
def _read() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(NOTES.read_text("utf-8"))


def mutants() -> Explained:
    """Line and fault of mutants."""
    return {(note["line"], note["fault"]): note["why"] for note in _read()["mutant"]}


def branches() -> Explained:
    """Line and branch of branches: ``body``, ``none`` (no body of an
    `If` or a `Switch`), or the side of a `Mux`.
    """
    return {(note["line"], note["branch"]): note["why"] for note in _read()["branch"]}


def assignments() -> dict[tuple[str, int], str]:
    """Function, and how many of its assignments nothing reaches."""
    return {(note["function"], note["number"]): note["why"] for note in _read()["assignment"]}
