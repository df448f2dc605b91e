"""Records of runs: what docs/results holds, what made each of them, and
whether it still stands.

1. A record is made of cases. A case is what one run makes: its rows, and beside them the commit,
   the versions of the tools, the digest of the sources that it depends on, and the time it took.
2. The run alone writes it: :meth:`Record.renew`, case by case.
3. A case stands while the digest of its sources is that of the tree (`penstock.system.sources`).
   One that was made of a tree with changes has a ``+`` behind its commit, and never stands.
4. Who reads a record is noted, so that a page says what its tables are made of (:func:`note`).
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock import now
from penstock.machine.errors import PenstockError
from penstock.runs.provenance import commit, is_ancestor, versions
from penstock.system.output import write_text
from penstock.system.sources import PACKAGE, digest_of, sources_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
NOTE = "Made at "
"""How the line below a table begins."""


HERE = ("bench/records.py", "bench/inputs.py", "bench/clock.py", "bench/tables.py")


@dataclass(frozen=True)
class Sources:
    """The sources of a run: ``roots`` and all that they import, but for
    ``without``; paths from the root. What runs processes, and reads and
    writes files (`system` and this), shapes no number.
    """

    roots: tuple[str, ...]
    without: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """The files."""
        without = [PACKAGE / name for name in (*self.without, "system", *HERE)]
        roots = [path for name in self.roots for path in self._paths(name)]
        return sources_of(roots, without)

    def _paths(self, name: str) -> list[Path]:
        """Files of a root, which may be a pattern."""
        if not (found := sorted(ROOT.glob(name))):
            raise PenstockError(f"no source {name!r}")
        return found

    def digest(self) -> str:
        """What they say now."""
        return digest_of(self.files())


def preset(name: str) -> str:
    """The source of a preset of the machine."""
    return f"sim_configs/{name}.toml"


def on_model(*more: str) -> Sources:
    """Sources of a run on the model: it loads neither RTL nor bench.
    ``more``: of this run.
    """
    return Sources(("runs/api.py", *more), ("hw", "tb"))


BENCH = ("tb/fabric_test.py", "tb/bench.sv", "tb/native.cpp")
UNITS = ("hw/units/*.py", "hw/memory/*.py")


def on_rtl(*more: str) -> Sources:
    """Sources of a run on RTL that is compared with the model."""
    return Sources(("runs/api.py", *BENCH, *UNITS, *more))


FABRIC = (
    "frontend/spice/step.py",
    "hw/fabric.py",
    "hw/units/unit.py",
    "machine/config.py",
    "machine/kinds",
    "machine/record.py",
    "machine/unitgraph.py",
    "runs",
)
"""Where STeP programs, their fabrics and their configuration enter the
overlay's sources, and what shows and stores its runs. None of its
recorded graphs is a scalarised program.
"""


def of_overlay(*roots: str, without: tuple[str, ...] = ()) -> Sources:
    """Sources of a run on the overlay: what only programs of the fabric
    have is left out.
    """
    return Sources(roots, (*FABRIC, *without))


def overlay_rtl(*more: str) -> Sources:
    """Sources of a run of the overlay's RTL that is compared with its
    model.
    """
    return of_overlay("tb/overlay_api.py", "tb/overlay.cpp", "tb/overlay.sv", *more)


@dataclass(frozen=True)
class Record:
    """A file of docs/results.

    Attributes
    ----------
    name
        Of the record; its file has it, too.
    cases
        The names of its cases in order.
    run
        Makes a case: its ``rows``, and what else belongs to it.
    sources
        What a case depends on.
    needs
        Files without which a case cannot be run.
    path
        The file.

    """

    name: str
    cases: Callable[[], Iterable[str]]
    run: Callable[[str], Mapping[str, Any]]
    sources: Callable[[str], Sources]
    needs: Callable[[str], Iterable[Path]] = field(default=lambda case: ())
    path: Path = Path()

    def __post_init__(self):
        if self.path == Path():
            object.__setattr__(self, "path", RESULTS / f"{self.name}.json")

    def entries(self, begin: str = "") -> list[dict[str, Any]]:
        """What is stored of every case, or of those whose names begin
        so; that it is read is noted.
        """
        found = [e for case, e in self._stored().items() if case.startswith(begin)]
        for read in _READ:
            read |= {(self.name, e["case"]): (self, e) for e in found}
        return found

    def entry(self, case: str) -> dict[str, Any]:
        """What is stored of one case."""
        return next(e for e in self.entries(case) if e["case"] == case)

    def rows(self, begin: str = "") -> list[dict[str, Any]]:
        """The stored rows of these cases."""
        return [row for entry in self.entries(begin) for row in entry["rows"]]

    def only(self) -> dict[str, Any]:
        """The stored rows of a record of one row."""
        (row,) = self.rows()
        return row

    def commits(self) -> str:
        """Of the stored cases, as a table shows them."""
        return _listed(entry.get("commit") or "unknown" for entry in self.entries())

    def missing(self) -> list[str]:
        """Cases that are not stored."""
        stored = self._stored()
        return [case for case in self.cases() if case not in stored]

    def wrong(self, case: str) -> str:
        """Why a stored case does not stand; empty where it does."""
        entry = self._stored()[case]
        made_at = entry.get("commit") or ""
        if case not in self.cases():
            return "no such case"
        if made_at.endswith("+"):
            return "changed tree"
        if not entry.get("sources"):
            return "no digest"
        if entry["sources"] != _now(self.sources(case)):
            return "other sources"
        return "" if is_ancestor(made_at) else "unknown commit"

    def due(self) -> dict[str, str]:
        """The cases to be run, and why."""
        missing = dict.fromkeys(self.missing(), "not made")
        wrong = {case: self.wrong(case) for case in self._stored() if case in set(self.cases())}
        found = missing | {case: why for case, why in wrong.items() if why}
        return {case: found[case] for case in self.cases() if case in found}

    def seconds(self, case: str) -> float | None:
        """What a case took last."""
        return self._stored().get(case, {}).get("seconds")

    def renew(self, case: str) -> dict[str, Any]:
        """Run a case and store it; returns its entry.

        Raises
        ------
        PenstockError
            The sources changed while it ran: it is not stored.

        """
        sources = self.sources(case)
        before = sources.digest()
        start = now()
        result = dict(self.run(case))
        wall, cpu = (end - begin for end, begin in zip(now(), start, strict=True))
        if sources.digest() != before:
            raise PenstockError(
                "the sources changed while it ran: it is not stored",
                f"{self.name}/{case}",
                remedy="run it again, in a clone that nobody changes",
            )
        entry = {
            "case": case,
            "commit": commit(),
            "sources": before,
            "versions": {k: v for k, v in versions().items() if k != "commit"},
            "seconds": round(wall, 1),
            "cpu_s": round(cpu, 1),
            **result,
        }
        self._store(entry)
        return entry

    def _stored(self) -> dict[str, dict[str, Any]]:
        if not self.path.exists():
            return {}
        state = self.path.stat()
        return _read(self.path, state.st_mtime_ns, state.st_size)

    def _store(self, entry: dict[str, Any]) -> None:
        """Put a case in its place; those that are no longer asked for
        go.
        """
        stored = self._stored() | {entry["case"]: entry}
        lines = [json.dumps(stored[case]) for case in self.cases() if case in stored]
        write_text(self.path, '{"cases": [\n' + ",\n".join(lines) + "\n]}\n")


@functools.cache
def _read(path: Path, _mtime_ns: int, _size: int) -> dict[str, dict[str, Any]]:
    """What is stored in a file of this state: two writes may share a
    tick of the clock.
    """
    return {e["case"]: e for e in json.loads(path.read_text(encoding="utf-8"))["cases"]}


@functools.cache
def _now(sources: Sources) -> str:
    """What sources say as this process begins to ask."""
    return sources.digest()


Read = dict[tuple[str, str], tuple[Record, dict[str, Any]]]
"""What is read: record and entry, by the names of record and case."""

_READ: list[Read] = []
"""For each of those who want to know."""


@contextlib.contextmanager
def noting() -> Iterator[Read]:
    """What is read meanwhile."""
    read: Read = {}
    _READ.append(read)
    try:
        yield read
    finally:
        _READ.pop()


def note(read: Read) -> str:
    """The line below a table that is made from what was read; empty
    where nothing was.
    """
    if not read:
        return ""
    rows = {
        key: (record.wrong(entry["case"]), len(entry["rows"]))
        for key, (record, entry) in read.items()
    }
    total = sum(n for _, n in rows.values())
    changed = sum(n for why, n in rows.values() if why == "changed tree")
    other = sum(n for why, n in rows.values() if why not in ("", "changed tree"))
    commits = (entry.get("commit") or "a commit that is not known" for _, entry in read.values())
    parts = [f"{NOTE}{_listed(commits)}"]
    if changed:
        parts.append(f"{changed} of {total} rows were made from a tree with changes")
    if other:
        parts.append(f"{other} of {total} rows are of other sources than this tree's")
    return f"{'; '.join(parts)}."


def is_note(line: str) -> bool:
    """Whether a line of a page is a note."""
    return line.startswith(NOTE)


def _listed(commits: Iterable[str]) -> str:
    found = list(dict.fromkeys(commits))
    return ", ".join(found) if len(found) <= 3 else f"{len(found)} commits"
