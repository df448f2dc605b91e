"""The traces that the figures run on: files (`--traces DIR`), or seeded draws of the same sizes in
their place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..machine.errors import PenstockError
from ..system.reading import read_integers

DRAWN_SKEWS = (0.3, 0.6, 0.9)
DRAWN_SEEDS = (0, 1, 2)
"""Variation of KV lengths: little, some and much variation, three draws of each."""
DRAWN_BATCHES = (16, 64, 80)
BATCH = re.compile(r"b(\d+)_stdev")
"""The name of a file of KV lengths begins with the size of its batch."""


@dataclass(frozen=True)
class Lengths:
    """KV lengths of a batch."""

    name: str  # of the trace, or of the draw
    requests: int  # how many there are
    params: dict  # parameters of the program that take them
    seed: int = 0  # of the draw
    longest: int = 0  # the largest of them; 0 where they are drawn


@dataclass(frozen=True)
class Traces:
    """``folder`` with ``routing/MODEL_bBATCH.npz`` (array ``data`` [tokens, experts of a token])
    and ``kv_lengths/bBATCH_stdevNAME.npy`` (lengths [batch]); None: drawn with the programs' own
    generators.
    """

    folder: Path | None = None

    def __post_init__(self):
        if self.folder is not None and not self.folder.is_dir():
            raise PenstockError(
                f"no such folder: {self.folder}",
                "traces",
                remedy=(
                    "give the folder that has routing/ and kv_lengths/, or leave --traces out: "
                    "routing and lengths are drawn then"
                ),
            )

    @property
    def kind(self) -> str:
        return "published traces" if self.folder else "drawn traces"

    def routing(self, model: str, batch: int) -> dict:
        """Parameters of `published_moe` for the experts of each token."""
        if self.folder is None:
            return {}
        path = self.folder / "routing" / f"{model}_b{batch}.npz"
        if not path.is_file():
            raise PenstockError(
                f"no trace {path}", "traces", remedy="leave --traces out: the routing is drawn then"
            )
        return {"trace": str(path)}

    def routing_name(self, model: str, batch: int) -> str:
        """Name in tables of the routing of a model's batch."""
        return f"{model}_b{batch}" if self.folder else "drawn"

    def batches(self) -> list[int]:
        """The sizes of the batches that there are."""
        if self.folder is None:
            return list(DRAWN_BATCHES)
        found = (self.folder / "kv_lengths").glob("b*_stdev*.npy")
        sizes = {match[1] for path in found if (match := BATCH.match(path.name))}
        return sorted(map(int, sizes)) or list(DRAWN_BATCHES)

    def lengths(self, batch: int) -> list[Lengths]:
        """Every batch of ``batch`` requests, the most even lengths first."""
        if self.folder is None:
            return [
                Lengths(f"skew {s} draw {i}", batch, {"skew": s}, i)
                for s in DRAWN_SKEWS
                for i in DRAWN_SEEDS
            ]
        found = sorted((self.folder / "kv_lengths").glob(f"b{batch}_stdev*.npy"))
        if not found:
            raise PenstockError(
                f"no trace b{batch}_stdev*.npy in {self.folder / 'kv_lengths'}",
                "traces",
                remedy="leave --traces out: the lengths are drawn then",
            )
        return [
            Lengths(
                "_".join(p.stem.removeprefix(f"b{batch}_stdev").split("_")[:2]),
                batch,
                {"trace": str(p)},
                longest=int(max(read_integers(str(p)).flat, default=0)),
            )
            for p in found
        ]
