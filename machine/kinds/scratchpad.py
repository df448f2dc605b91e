"""The kind that holds buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from .. import limits
from ..beat import STOP_BITS, TILES_BITS, BufferRef, Payload, Scalar, Tile, beat_bits
from ..widths import Widths
from .kind import In, Kind, Out, Payloads, need, param, register
from .setting import Listed, Runtime, Setting, Table
from .uses import KEPT, QUEUES, TILES

LEVELS = ("rank", "repeat_dim", "ref")
"""Fields of a client, levels up to the bound's; `ref` is there or not."""
TURNS = Listed({"repeat": limits.SIZE_BITS})


class _Clients(Setting):
    """Writers or readers: of the slot's the first, each within the bounds of its own.

    Of a client ``rank`` and ``ref`` are levels up to the bound and ``repeat_dim`` may be false. A
    reader may have fewer loop dimensions (``affine``) than the bound, and its ``turns`` are a
    table.
    """

    in_registers = (
        "for each: bits of `rank`, `repeat_dim`, `ref`, whether it is driven, loops of `affine`, "
        "and `turns`, a table"
    )

    @staticmethod
    def _within(value: Mapping[str, Any], bound: Mapping[str, Any]) -> bool:
        levels = all(int(value[k]) <= int(bound.get(k, -1)) for k in LEVELS if k in value)
        loops = value.get("affine", 0) <= bound.get("affine", 0)
        same = value.get("listed") == bound.get("listed")
        given = [[n] for n in value["turns"]] if "turns" in value else None
        return levels and loops and same and not TURNS.misses(given, bound.get("turns"))

    def misses(self, value: Any, bound: Any) -> str:
        driven = ["ref" in x for x in value]
        first = driven == sorted(driven, reverse=True) or driven == ["ref" in x for x in bound]
        fits = len(value) <= len(bound) and all(map(self._within, value, bound))
        return "" if fits and first else f"within {bound!r}"

    def used(self, value: Any) -> Any:
        return [x | ({"turns": len(x["turns"])} if "turns" in x else {}) for x in value]

    def registers(self, bound: Any) -> Mapping[str, int]:
        out: dict[str, int] = {}
        for k, client in enumerate(bound):
            for key in LEVELS:
                out[f"_{k}_{key}"] = int(client.get(key, 0)).bit_length()
            out[f"_{k}_driven"] = int("ref" in client)
            out[f"_{k}_affine"] = int(client.get("affine", 0)).bit_length()
            turns = TURNS.registers(client.get("turns"))
            out |= {f"_{k}_turns{part}": bits for part, bits in turns.items()}
        return out

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        out: dict[str, int] = {}
        for k, client in enumerate(value):
            for key in LEVELS:
                out[f"_{k}_{key}"] = int(client.get(key, 0))
            out[f"_{k}_driven"] = int("ref" in client)
            out[f"_{k}_affine"] = client.get("affine", 0)
            turns = TURNS.values(client.get("turns"), bound[k].get("turns"))
            out |= {f"_{k}_turns{part}": number for part, number in turns.items()}
        return out

    def tables(self, bound: Any) -> Mapping[str, Table]:
        return {
            f"_{k}_turns{part}": table
            for k, client in enumerate(bound)
            for part, table in TURNS.tables(client.get("turns")).items()
        }

    def entries(self, value: Any, bound: Any) -> Mapping[str, Sequence[int]]:
        return {
            f"_{k}_turns_repeat": client["turns"]
            for k, client in enumerate(value)
            if "turns" in client
        }

    def draw(self, bound: Any, below: Any) -> Any:
        return [self._client(x, below) for x in bound[: 1 + below(len(bound))]]

    @staticmethod
    def _client(bound: Mapping[str, Any], below: Any) -> dict[str, Any]:
        """A client within a bound: its passes are driven, in turns, or as many as `repeat` says; an
        affine one has a rank of its loops.
        """
        loops = below(bound.get("affine", 0) + 1)
        client: dict[str, Any] = {"rank": loops or below(bound["rank"] + 1)}
        if "repeat_dim" in bound:
            client["repeat_dim"] = bool(below(2))
        if loops:
            client["affine"] = loops
        if "ref" in bound and below(2):
            return client | {"ref": below(bound["ref"] + 1), "repeat_dim": False}
        if "turns" in bound and below(2):
            turns = [1 + below(3) for _ in range(1 + below(bound["turns"]))]
            return client | {"turns": turns, "repeat_dim": False}
        return client


def _spills(kind: Any) -> bool:
    return kind.spill > 0


@register
class Scratchpad(Kind):
    """Paged memory of buffers (docs/timing.md section 4).

    Writers share one port, and readers another. A writer stalls while no page is free, or while it
    holds as many buffers as it may.
    """

    name = "scratchpad"
    memory = True
    pages: int = param("pages", limits.PAGES)
    frames: int = param("tiles a page", limits.FRAMES)
    writers: list[Any] = param("list of {rank}", setting=_Clients())
    limit: list[Any] = param(
        "list: buffers that each writer may hold at a time (run time)", limits.PAGES, runtime=True
    )
    readers: list[Any] = param(
        "list of {rank, repeat_dim}. It has `turns` (repeats of each buffer, in turn) where they "
        "differ, `ref` (a level) where a stream drives the reads. Where tiles are read in another "
        "order it has `affine` (loop dimensions) or `listed` (tile and stop of each beat of a "
        "pass)",
        setting=_Clients(),
    )
    repeat: list[Any] = param("list: repeats per reader (run time)", limits.SIZES, runtime=True)
    shape: list[Any] = param(
        "trips of the loops of the affine readers, one after the other, each outermost first "
        "(run time)",
        limits.COUNTS,
        setting=Runtime(limits.COUNTS, fill=1, front=True),
        default=(),
    )
    stride: list[Any] = param(
        "likewise, in tiles, what a step of each loop advances (run time)",
        limits.SIZES,
        setting=Runtime(limits.SIZES, front=True),
        default=(),
    )
    spill: int = param(
        "tiles of a buffer that may lie off-chip, behind those for which it has pages; 0: none",
        limits.SPILLED,
        default=0,
    )
    block: int = param("with `spill`: tiles of a row of lines", limits.FRAMES, default=1)
    write = In("tiles of a writer's buffers", many="writers")
    read = In("references to the buffers that a reader reads", many="readers")
    drive = In("one beat for each pass of a reader with `ref`", many="driven")
    stored = In("with `spill`: a token for each block in memory", when=_spills)
    fetched = In("with `spill`: tiles of the blocks that a reader reads", "readers", _spills)
    buffer = Out("references to a writer's buffers", many="writers")
    data = Out("tiles that a reader reads", many="readers")
    place = Out("with `spill`: numbers of the blocks that leave", when=_spills)
    spilled = Out("with `spill`: their tiles", when=_spills)
    fetch = Out("with `spill`: numbers of the blocks that a reader reads", "readers", _spills)

    @property
    def driven(self) -> int:
        """Readers that a reference stream drives."""
        return sum("ref" in r for r in self.readers)

    @property
    def clients(self) -> int:
        """Writers and readers: ports that a scratchpad has whether or not it spills."""
        return len(self.writers) + len(self.readers)

    def behind(self, output: int) -> list[int]:
        """Inputs on which an output depends: each writer and each reader is independent."""
        writers = len(self.writers)
        n = self.clients
        if output < n:
            return [output, *range(n, n + self.driven)]
        return list(range(writers)) if output < n + 2 else [writers + output - n - 2]

    @property
    def number_bits(self) -> int:
        """Bits of the number of a block off-chip."""
        return max(1, (self.spill // self.block - 1).bit_length())

    @property
    def on_chip(self) -> int:
        """Tiles of a buffer that has all pages."""
        return self.pages * self.frames

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        reference = BufferRef(self.pages)
        kept = limits.metadata_bits(self.pages, writers=len(self.writers), posts=posts)
        for r in self.readers:
            kept += limits.SIZE_BITS * len(r.get("turns") or ())
            kept += (TILES_BITS + STOP_BITS + 1) * len(r.get("listed") or ())
            if r.get("affine") or r.get("listed"):
                kept += self.pages * reference.page_bits
        queues = limits.REFERENCES * len(self.writers) * beat_bits(reference)
        queues += limits.TILES * len(self.readers) * beat_bits(inputs[0])
        if self.spill:
            about = 2 * t.bit_length() + STOP_BITS + 1
            kept += self.spill * about
            place = (self.block - 1).bit_length() + 1
            queues += limits.ABSENT * len(self.readers) * (about + place)
        return {TILES: self.pages * self.frames * beat_bits(inputs[0]), KEPT: kept, QUEUES: queues}

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...]:
        writers = len(self.writers)
        readers = len(self.readers)
        need(writers > 0 and readers > 0, "a scratchpad has at least one writer and one reader")
        need(not self.frames & (self.frames - 1), "tiles a page are a power of two")
        need(
            len(self.limit) == writers and max(self.limit) <= self.pages,
            "each writer may hold a number of buffers, of at most as many as there are pages",
        )
        need(len(self.repeat) == readers, "each reader has its repeats")
        self._loops()
        tiles = set(inputs[:writers])
        references = set(inputs[writers : writers + readers])
        need(
            len(tiles) == 1 and isinstance(inputs[0], Tile),
            "its writers take tiles of one element type",
        )
        need(references == {BufferRef(self.pages)}, "its readers take references to its pages")
        given = (BufferRef(self.pages),) * writers + inputs[:1] * readers
        if not self.spill:
            return given
        need(not self.spill % self.block, "what it spills are whole blocks")
        blocks = Scalar(self.number_bits)
        return given + (blocks, inputs[0]) + (blocks,) * readers

    def _loops(self) -> None:
        """The rules of affine readers."""
        loops = [r.get("affine", 0) for r in self.readers]
        need(
            len(self.shape) == len(self.stride) == sum(loops),
            "each loop of an affine reader has its trips and its stride",
        )
        steps = iter(zip(self.shape, self.stride, strict=True))
        for reader, n in zip(self.readers, loops, strict=True):
            need(not n or reader["rank"] == n, "an affine reader's rank is the number of its loops")
            last = sum((trips - 1) * stride for trips, stride in islice(steps, n))
            need(last < 1 << TILES_BITS, f"a buffer has at most {1 << TILES_BITS} tiles")
            if "listed" in reader:
                self._list(reader)

    @staticmethod
    def _list(reader: Mapping[str, Any]) -> None:
        """The rules of a listed reader."""
        entries = reader["listed"]
        need(not reader.get("affine"), "tiles are read in an affine order or in a listed one")
        need(len(entries) in limits.QUEUES, f"a list has 1 to {limits.QUEUES[-1]} tiles")
        need(
            all(0 <= tile < 1 << TILES_BITS for tile, _ in entries),
            f"a buffer has at most {1 << TILES_BITS} tiles",
        )
        need(
            all(0 <= stop < reader["rank"] for _, stop in entries[:-1])
            and entries[-1][1] == reader["rank"],
            "a list ends with a stop of the reader's rank, and has lower ones before",
        )

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """References of each writer, tiles of each reader (docs/timing.md section 4, rules 2, 4, 7
        and 8).
        """
        n = len(self.writers)
        out = [max(top - w["rank"], 0) for top, w in zip(inputs, self.writers, strict=False)]
        given = iter(inputs[n + len(self.readers) :])
        for reader, top in zip(self.readers, inputs[n:], strict=False):
            buffer = reader.get("affine") or reader["rank"]
            passes = next(given) if "ref" in reader else top + bool(reader["repeat_dim"])
            out.append(buffer + passes)
        return tuple(out) + ((0, 2) + (0,) * len(self.readers) if self.spill else ())
