"""The traces that the figures run on: files (`--traces DIR`), or seeded draws of the same sizes in
their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..machine.errors import PenstockError

__all__ = ["Lengths", "Traces"]

DRAWN_SKEWS = (0.3, 0.6, 0.9)
DRAWN_SEEDS = (0, 1, 2)
"""Of KV lengths: little, some and much variation, three draws of each."""


@dataclass(frozen=True)
class Lengths:
    """KV lengths of a batch.

    Attributes
    ----------
    name
        Of the trace, or of the draw.
    requests
        How many there are.
    params
        Parameters of the program that take them.
    seed
        Of the draw.

    """

    name: str
    requests: int
    params: dict
    seed: int = 0


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

    def lengths(self, batch: int) -> list[Lengths]:
        """Every batch of ``batch`` requests, the most even lengths first.

        A batch of 80 is one of 64, then one of 16 of as much variation.
        """
        if self.folder is None:
            return [
                Lengths(f"skew {s} draw {i}", batch, {"skew": s}, i)
                for s in DRAWN_SKEWS
                for i in DRAWN_SEEDS
            ]
        if batch == 80:
            few = self.lengths(16)
            return [
                Lengths(a.name, 80, {"trace": f"{a.params['trace']}+{b.params['trace']}"})
                for a, b in (
                    (a, min(few, key=lambda b: abs(_deviation(b) - _deviation(a))))
                    for a in self.lengths(64)
                )
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
            )
            for p in found
        ]


def _deviation(lengths: Lengths) -> int:
    """Standard deviation of the lengths, the first part of a trace's name."""
    return int(lengths.name.split("_")[0])
