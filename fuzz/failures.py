"""Failures that a campaign stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class StreamFailure:
    """A point of single-unit streams that went wrong: its seed says all."""

    message: str
    seed: int
    backend: str = "streams"
    path: Path | None = None

    @property
    def origin(self) -> str:
        return f"point {self.seed}"

    def to_dict(self) -> dict:
        return {"backend": self.backend, "message": self.message, "seed": self.seed}
