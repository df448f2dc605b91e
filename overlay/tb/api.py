"""Runs overlay images on the RTL: export, build (cached, one build for many graphs), load, run,
read back.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...hw.export import export
from ...machine.errors import RunError
from ...system import children
from ...tb.program import program
from ...tb.toolchain import wave_format
from ...tb.waves import collect_overlay
from ..core.config import MEMORIES, SPECIALISED, Layout, Overlay, Sizes, needs, packet
from ..core.image import DynamicImage, Image
from ..core.ops import OP_CLASS, Op, format_of

HERE = Path(__file__).parent
TOP = "penstock_overlay"
MAX_CYCLES = 50_000_000
LEAST_DEPTH = 512
"""Memories are built with 512, 2048, 8192, .. words, so that graphs of similar size share a build.
"""


WRITE = np.dtype([(name, np.int64) for name in ("cycle", "pe", "address")] + [("value", np.uint64)])
"""A write to a value memory."""
WRITE_WORDS = 5


def token_type(overlay: Overlay, sizes: Sizes) -> tuple[np.dtype, list[tuple[str, int]]]:
    """Recorded type of a link, and the fields of its bits, LSB first: of dynamic PEs the tokens, of
    static ones the value in the first cycle and wherever it changes.
    """
    dynamic = overlay.pe != "static"
    fields = [*packet(overlay, sizes).fields] if dynamic else [("value", overlay.width)]
    columns = [("cycle", np.int64), ("link", np.int64)]
    columns += [(name, np.uint64 if name == "value" else np.int64) for name, _ in fields]
    return np.dtype(columns), fields


@dataclass
class RtlRun:
    """Outcome of an image on the RTL."""

    cycles: int  # of the run, observed: 1 + the cycle of the last write to a value memory
    counted: int  # what the overlay's cycle counter says
    # :data:`WRITE` [writes]: all that was written during the run, in order of cycles
    writes: np.ndarray = field(repr=False)
    # :func:`token_type` [tokens]: what was on the links. ``cycle`` is the one in which a router
    # puts it there.
    tokens: np.ndarray = field(repr=False)
    # uint64 [graph nodes]: bits of every node's value, read back after the run
    values: np.ndarray = field(repr=False)
    # the same for every further run on new inputs
    again: list[RtlRun] = field(default_factory=list)
    restart: int = 0  # cycles from `start` to the first cycle of a run
    # clocks, simulate_s, export_s, build_s: clock cycles simulated in all, loading and reading
    # included; wall time of simulation, export and build (0 where cached)
    clocks: int = 0
    simulate_s: float = 0.0
    export_s: float = 0.0
    build_s: float = 0.0


def run_image(
    image: Image,
    again: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    *,
    max_cycles: int = MAX_CYCLES,
    waves: str | None = None,
) -> RtlRun:
    """Load an image, run it, read every value; then, for each of ``again`` (graph nodes of sources,
    uint64 bits), load these values only and run again. ``waves``: path stem of a waveform and its
    viewer layout.

    Raises
    ------
    RunError
        A tool is missing, the RTL does not build, or a run exceeds ``max_cycles``.
    ConfigError
        A fixed memory is too small.
    """
    return run_images([image], {0: again}, max_cycles=max_cycles, waves=waves)[0]


def run_images(
    images: Sequence[Image],
    again: Mapping[int, Sequence[tuple[np.ndarray, np.ndarray]]] | None = None,
    *,
    max_cycles: int = MAX_CYCLES,
    waves: str | None = None,
    least: int = LEAST_DEPTH,
) -> list[RtlRun]:
    """Run images of one overlay one after the other, without a reset in between, on hardware that
    holds the largest of them; see :func:`run_image`.

    ``again`` maps positions in ``images`` to further inputs. ``least``: depth of memories that
    would be smaller.
    """
    again = again or {}
    overlay, sizes = hardware(images, least)
    images = [replace(image, overlay=overlay, sizes=sizes) for image in images]
    start = time.perf_counter()
    classes = classes_of(images)
    verilog, shared = _verilog(
        overlay, sizes, json.dumps({pe: sorted(names) for pe, names in classes.items()})
    )
    export_s = time.perf_counter() - start
    executable, build_s = _executable(verilog, shared, bool(waves))

    loader = _Loader(overlay, sizes)
    job: list[np.ndarray] = [loader.begin()]
    for k, image in enumerate(images):
        job += [*loader.load(image), *loader.run(max_cycles), *loader.look(image)]
        for nodes, bits in again.get(k, ()):
            job += [
                *loader.inputs(image, nodes, bits),
                *loader.run(max_cycles),
                *loader.look(image),
            ]
    answers, clocks, simulate_s = _simulate(executable, np.concatenate(job), waves, overlay)

    results = []
    at = 0
    words = overlay.width // 32

    def take(image: Image) -> RtlRun:
        nonlocal at
        counter, counted, restart, *seen = (int(v) for v in answers[at : at + 5])
        if counter != counted:
            raise RunError(
                f"the cycle counter says {counter}, the run took {counted}",
                "RTL of the overlay",
                remedy="report this",
            )
        at += 5
        columns = (WRITE_WORDS, 2 + loader.token_words, words)
        parts = []
        for n, width in zip((*seen, len(image.node_pe)), columns, strict=True):
            parts.append(answers[at : at + n * width].reshape(n, width))
            at += n * width
        writes = _writes(parts[0])
        return RtlRun(
            1 + int(writes["cycle"].max(initial=-1)),
            counter,
            writes,
            loader.tokens(parts[1]),
            _field(parts[2], 0, overlay.width),
            restart=restart,
            clocks=clocks,
            simulate_s=simulate_s,
            export_s=export_s,
            build_s=build_s,
        )

    for k, image in enumerate(images):
        result = take(image)
        result.again = [take(image) for _ in again.get(k, ())]
        results.append(result)
    return results


def hardware(images: Sequence[Image], least: int = LEAST_DEPTH) -> tuple[Overlay, Sizes]:
    """An overlay with memories for all images, rounded up from ``least`` words, and sizes that hold
    all of them; what does not change the RTL is set to its default.

    Memories that the images fix themselves stay as they are.
    """
    overlay = images[0].overlay
    fixed = dict(overlay.memories)
    if any(image.overlay != overlay for image in images):
        raise ValueError("Images must be of one overlay")
    for image in images:
        image.memories()
    sizes = Sizes(
        **{
            name: max(getattr(image.sizes, name) for image in images)
            for name in vars(images[0].sizes)
        }
    )
    depths = {
        name: fixed.get(name) or _round_up(words, least)
        for name, words in needs(overlay, sizes).items()
        if name not in ("control", "seed", "near_seed")
    }
    if "chain" in depths and "chain" not in fixed:
        depths["chain"] = 2 * depths["op"]
    if "ready" in depths and overlay.forwards:
        depths["ready"] = depths["first"]
    if "near_ready" in depths:
        depths["near_ready"] = depths["near"]
    return replace(overlay, memories=tuple(sorted(depths.items()))), Sizes()


def _round_up(words: int, depth: int) -> int:
    while depth < words:
        depth *= 4
    return depth


def classes_of(images: Sequence[Image]) -> dict[int, frozenset[str]]:
    """PE -> classes of operations that its ALU has: all of the format, or those of the kind of PE
    that the images make it; switches only where an image has some.
    """
    overlay = images[0].overlay
    every = {OP_CLASS[op] for op in format_of(overlay.format).ops if op in OP_CLASS}
    if not any(isinstance(image, DynamicImage) and image.conditional for image in images):
        every.remove("switch")
    if overlay.kinds == "homogeneous":
        return dict.fromkeys(range(overlay.pes), frozenset(every))
    out = {}
    for pe in range(overlay.pes):
        codes = {int(code) for image in images for code in np.unique(_codes(image, pe))}
        kinds = {SPECIALISED[OP_CLASS[Op(code)]] for code in codes if Op(code) in OP_CLASS} or {
            "add"
        }
        out[pe] = frozenset(
            name for name, kind in SPECIALISED.items() if kind in kinds and name in every
        )
    return out


def _codes(image: Image, pe: int) -> np.ndarray:
    return np.asarray(image.columns("op" if image.overlay.pe != "static" else "context", pe)["op"])


@functools.lru_cache(maxsize=16)
def _verilog(overlay: Overlay, sizes: Sizes, classes: str) -> tuple[str, tuple[str, ...]]:
    from ...hw.overlay import Overlay as Component

    done = export(
        Component(
            overlay=overlay,
            sizes=sizes,
            classes={int(pe): frozenset(names) for pe, names in json.loads(classes).items()},
            probes=True,
        ),
        TOP,
    )
    return done.verilog, done.shared


def _executable(verilog: str, shared: Sequence[str], waves: bool) -> tuple[Path, float]:
    """The simulator of an exported overlay, from the cache if it is there, and the wall time of
    building it. One for waveforms is not hierarchical, so that they show all tiles.
    """
    probes = HERE / "overlay.sv"
    files = {probes.name: probes.read_text(encoding="utf-8"), f"{TOP}.v": verilog}
    main = HERE / "overlay.cpp"
    return program(files, TOP, main, shared=() if waves else shared, waves=waves)


def _simulate(
    executable: Path, job: np.ndarray, waves: str | None, overlay: Overlay
) -> tuple[np.ndarray, int, float]:
    with children.temporary() as folder:
        source = folder / "job"
        target = folder / "out"
        job.astype("<u4").tofile(source)
        dump = [folder / f"dump.{wave_format()}"] if waves else []
        done = children.run([executable, source, target, *dump])
        if done.returncode:
            raise RunError(
                done.stderr.strip().splitlines()[-1]
                if done.stderr.strip()
                else f"the simulator ended with {done.returncode}",
                "RTL of the overlay",
                remedy=f"the simulator is {executable}",
            )
        if waves:
            collect_overlay(folder, waves, overlay)
        clocks, seconds = done.stdout.split()
        return np.fromfile(target, "<u4"), int(clocks), float(seconds)


class _Loader:
    """Commands of overlay.cpp for one overlay."""

    def __init__(self, overlay: Overlay, sizes: Sizes):
        from ...hw.overlay import load_layout, look_layout

        self.overlay = overlay
        self.numbers = {name: k for k, name in enumerate(MEMORIES[overlay.pe])}
        self.load_fields = load_layout(overlay, sizes)
        self.look_fields = look_layout(overlay, sizes)
        self.held: dict[tuple[str, int], np.ndarray] = {}
        self.token, self.token_fields = token_type(overlay, sizes)
        self.token_words = -(-sum(bits for _, bits in self.token_fields) // 32)

    def begin(self) -> np.ndarray:
        """Header of the answer: how many words a token has."""
        return np.array([4, self.token_words], np.uint32)

    def tokens(self, rows: np.ndarray) -> np.ndarray:
        """Tokens on the links, from the words of the answer."""
        out = np.zeros(len(rows), self.token)
        # A link's register shows a cycle later what a router put there.
        registered = self.overlay.pe == "static" or self.overlay.torus
        out["cycle"] = rows[:, 0].astype(np.int64) - registered
        out["link"] = rows[:, 1]
        at = 0
        for name, bits in self.token_fields:
            out[name] = _field(rows[:, 2:], at, bits)
            at += bits
        return out

    def load(self, image: Image) -> list[np.ndarray]:
        """Every word of an image that its memory does not hold."""
        out = []
        for memory in image.memories().values():
            if not memory.loaded:
                continue
            for pe in range(self.overlay.pes):
                columns = {
                    name: np.asarray(column)
                    for name, column in image.columns(memory.name, pe).items()
                }
                at = self._new(memory.name, pe, np.stack([*columns.values()], axis=1))
                here = {name: column[at] for name, column in columns.items()}
                out += self._words(memory.layout, memory.name, np.full(len(at), pe), at, here)
        return out

    def _new(self, memory: str, pe: int, words: np.ndarray) -> np.ndarray:
        """Addresses of the words that a memory does not hold: before its first word it is zero, and
        a run writes values only.
        """
        held = self.held.get((memory, pe), np.zeros((0, words.shape[1]), words.dtype))
        kept = np.zeros((max(len(held), len(words)), words.shape[1]), words.dtype)
        kept[: len(held)] = held
        new = np.flatnonzero((kept[: len(words)] != words).any(axis=1))
        kept[: len(words)] = words
        if memory == "control" or (memory == "value" and len(held)):
            return np.arange(len(words))
        self.held[memory, pe] = kept
        return new

    def inputs(self, image: Image, nodes: np.ndarray, bits: np.ndarray) -> list[np.ndarray]:
        """New values of sources."""
        return self._words(
            image.memories()["value"].layout,
            "value",
            image.node_pe[nodes],
            image.node_address[nodes],
            {"value": bits},
        )

    def _words(
        self,
        layout: Layout,
        memory: str,
        pe: np.ndarray,
        address: np.ndarray,
        columns: Mapping[str, np.ndarray],
    ) -> list[np.ndarray]:
        n = len(pe)
        head = {"pe": pe, "memory": np.full(n, self.numbers[memory]), "address": address}
        fields = [*self.load_fields.fields[:-1], *layout.fields]
        return [
            np.array([1, n], np.uint32),
            pack(
                fields,
                [*head.values(), *(columns[name] for name, _ in layout.fields)],
                self.load_fields.width,
            ),
        ]

    def look(self, image: Image) -> list[np.ndarray]:
        """The values of all graph nodes."""
        return [
            np.array([3, len(image.node_pe)], np.uint32),
            pack(
                self.look_fields.fields, [image.node_pe, image.node_address], self.look_fields.width
            ),
        ]

    def run(self, limit: int) -> list[np.ndarray]:
        return [np.array([2, limit], np.uint32)]


def _writes(rows: np.ndarray) -> np.ndarray:
    out = np.zeros(len(rows), WRITE)
    for k, name in enumerate(("cycle", "pe", "address")):
        out[name] = rows[:, k]
    out["value"] = _field(rows[:, 3:], 0, 64)
    return out


def _field(rows: np.ndarray, at: int, bits: int) -> np.ndarray:
    """Up to 64 bits from bit ``at`` on of words of 32 bits, LSB first: uint64 [rows]."""
    out = np.zeros(len(rows), np.uint64)
    first, shift = divmod(at, 32)
    for k in range(first, -(-(at + bits) // 32)):
        word = rows[:, k].astype(np.uint64)
        up = 32 * (k - first) - shift
        out |= word << np.uint64(up) if up >= 0 else word >> np.uint64(-up)
    return out & np.uint64(2**bits - 1)


def pack(
    fields: Sequence[tuple[str, int]], columns: Sequence[np.ndarray], width: int
) -> np.ndarray:
    """Columns of non-negative integers as words of ``width`` bits, LSB first: uint32 [rows *
    ceil(width / 32)].
    """
    out = np.zeros((len(columns[0]), -(-width // 32)), np.uint64)
    at = 0
    for (name, bits), column in zip(fields, columns, strict=True):
        column = np.asarray(column).astype(np.uint64)
        if bits < 64 and column.size and int(column.max()) >> bits:
            raise ValueError(f"{name} must fit in {bits} bits, not {int(column.max())}")
        for low in range(0, bits, 32):
            part = (column >> np.uint64(low)) & np.uint64(0xFFFFFFFF)
            word, shift = divmod(at + low, 32)
            out[:, word] |= part << np.uint64(shift) & np.uint64(0xFFFFFFFF)
            if word + 1 < out.shape[1]:
                out[:, word + 1] |= part >> np.uint64(32 - shift)
        at += bits
    return out.astype(np.uint32).ravel()
