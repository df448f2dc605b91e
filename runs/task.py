"""A point as a pure description, and the key under which its result is kept.

The key is a digest of all that shapes the result:

1. the text of the program: what its file says, and all that the file imports;
2. the machine, field by field, with its recorded deliveries, and the parameters that are given;
3. the inputs, which program and seed determine, and how the point is run;
4. the sources of Penstock that the run depends on (:mod:`~penstock.system.sources`).

A comment, or a file that is moved, leaves it as it is. Versions of installed packages are no part
of it; they stand in the record.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..frontend.program import known_programs
from ..machine.config import Config, to_dict
from ..machine.errors import PenstockError
from ..system.cache import digest
from ..system.reading import read_text
from ..system.sources import PACKAGE, digest_of, sources_of
from .options import Options

STAGES = ("runs/simulation.py", "runs/recording.py")
"""The stages of a point that make its numbers, with all that they import."""
RTL = ("runs/outcomes.py", "tb/api.py", "tb/fabric_test.py", "tb/bench.sv", "tb/native.cpp")
"""Sources of a run on RTL, besides."""
MAPPING = "runs/array.py"
ARRAY = ("hw/array", "tb/array.py", "tb/parts_test.py", "tb/parts.cpp")
"""Sources of a run on an array, besides: on the model, and on RTL."""
HARDWARE = ("hw/units", "hw/memory")
"""Folders of parts that a fabric loads by name."""


@dataclass(frozen=True)
class Batch:
    """Points of one program on one machine that are run together, as plain data."""

    # program, config: as of `penstock.run`; a machine that has been read
    program: Any
    config: Config
    # points, seeds: parameters of each point, and its seed
    points: tuple[dict, ...]
    seeds: tuple[int, ...]
    places: tuple[int, ...]  # where each of them stands among all points of the call
    how: Options  # the options
    # digest of the sources that the run must depend on; None: whatever they are
    sources: str | None = None

    def only(self, at: Sequence[int]) -> Batch:
        """Some of its points, by their position in it."""
        return replace(
            self,
            points=tuple(self.points[i] for i in at),
            seeds=tuple(self.seeds[i] for i in at),
            places=tuple(self.places[i] for i in at),
        )

    def keys(self) -> list[str]:
        """The key of each point.

        Raises
        ------
        PenstockError
            The program was built in memory and has no text.
        """
        sources = self.sources or sources_digest(self.program, self.how.on_rtl)
        shared = json.dumps(
            [to_dict(self.config), _shaping(self.how), program_name(self.program)], sort_keys=True
        )
        if deliveries := self.config.machine.dram.deliveries:
            shared += read_text(deliveries)
        return [
            digest(sources, shared, json.dumps([params, seed], sort_keys=True))
            for params, seed in zip(self.points, self.seeds, strict=True)
        ]


def program_name(program: Any) -> str:
    """Name of a program in a store: its own, or that of its file."""
    if not isinstance(program, (str, Path)):
        raise PenstockError(
            f"the results of {program.name!r} cannot be kept: it was built in memory",
            rule="a store's key has the text of the program",
            remedy="write the program to a file and give its path",
        )
    name = str(program)
    return name if name in known_programs() else Path(name).stem


def _shaping(how: Options) -> dict[str, Any]:
    """The options that shape a record."""
    given = asdict(how)
    asked = {name: given[name] for name in ("on", "timing", "values", "onchip_rule", "tolerance")}
    return asked | ({"on_array": _array_digest(how.on_rtl)} if how.on_array else {})


@functools.cache
def _array_digest(rtl: bool) -> str:
    """Digest of the further dependencies of a run on an array."""
    roots = [PACKAGE / name for name in (MAPPING, *(ARRAY if rtl else ()))]
    return digest_of(sources_of(roots, [PACKAGE / "system"]))


def sources_digest(program: Any, rtl: bool) -> str:
    """Digest of the sources of Penstock that runs of a program depend on, and of the program."""
    name = program_name(program)
    known = known_programs()
    own = Path(str(importlib.import_module(known[name]).__file__) if name in known else program)
    if not own.is_file():
        raise PenstockError(f"no such file: {own}")
    return _sources_digest(own, own.stat().st_mtime_ns, rtl)


@functools.cache
def _sources_digest(own: Path, _mtime_ns: int, rtl: bool) -> str:
    roots: list[Path] = [own, *(PACKAGE / name for name in STAGES)]
    apart = [PACKAGE / "system"]
    if rtl:
        roots += [PACKAGE / name for name in (*RTL, *HARDWARE)]
    else:
        apart += [PACKAGE / "hw", PACKAGE / "tb"]
    return digest_of(sources_of(roots, apart))
