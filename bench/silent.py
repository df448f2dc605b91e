"""Sources of which what is left out says nothing, even where one of them imports it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.system.sources import PACKAGE, digest_of
from records import HERE, Sources


@dataclass(frozen=True)
class Silent(Sources):
    """As other sources; a module that is left out is no word of theirs.

    The overlay's exporter names configuration and fabric, and runs
    neither.
    """

    def digest(self) -> str:
        without = (*self.without, "system", *HERE, "bench/silent.py")
        return digest_of(self.files(), [PACKAGE / name for name in without])


def silent(sources: Sources) -> Silent:
    """These sources, so."""
    return Silent(sources.roots, sources.without)
