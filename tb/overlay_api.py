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

from ..machine.errors import RunError
from ..machine.overlay import MEMORIES, SPECIALISED, Layout, Overlay, Sizes, needs
from ..machine.overlay_image import Image
from ..machine.token_ops import OP_CLASS, Op, format_of
from ..system import children
from . import runner

__all__ = ["MAX_CYCLES", "RtlRun", "classes_of", "hardware", "run_image", "run_images"]

TOP = "penstock_overlay"
MAX_CYCLES = 50_000_000
LEAST_DEPTH = 512
"""Memories are built with 512, 2048, 8192, .. words, so that graphs of similar size share a build.
"""


@dataclass
class RtlRun:
    """What an image did on the RTL.

    Attributes
    ----------
    cycles
        Of the run.
    values
        uint64 [graph nodes]: bits of every node's value, read back after the run.
    again
        The same for every further run on new inputs.
    restart
        Cycles from `start` to the first cycle of a run.
    clocks, simulate_s, export_s, build_s
        Clock cycles simulated in all, loading and reading included; wall time of simulation, export
        and build (0 where cached).

    """

    cycles: int
    values: np.ndarray
    again: list[RtlRun] = field(default_factory=list)
    restart: int = 0
    clocks: int = 0
    simulate_s: float = 0.0
    export_s: float = 0.0
    build_s: float = 0.0


def run_image(
    image: Image,
    again: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    *,
    max_cycles: int = MAX_CYCLES,
) -> RtlRun:
    """Load an image, run it, read every value; then, for each of ``again`` (graph nodes of sources,
    uint64 bits), load these values only and run again.

    Raises
    ------
    RunError
        A tool is missing, the RTL does not build, or a run exceeds ``max_cycles``.
    ConfigError
        A fixed memory is too small.

    """
    return run_images([image], {0: again}, max_cycles=max_cycles)[0]


def run_images(
    images: Sequence[Image],
    again: Mapping[int, Sequence[tuple[np.ndarray, np.ndarray]]] | None = None,
    *,
    max_cycles: int = MAX_CYCLES,
) -> list[RtlRun]:
    """Run images of one overlay one after the other, without a reset in between, on hardware that
    holds the largest of them; see :func:`run_image`.

    ``again`` maps positions in ``images`` to further inputs.
    """
    again = again or {}
    overlay, sizes = hardware(images)
    images = [replace(image, overlay=overlay, sizes=sizes) for image in images]
    start = time.perf_counter()
    classes = classes_of(images)
    verilog, shared = _verilog(
        overlay, sizes, json.dumps({pe: sorted(names) for pe, names in classes.items()})
    )
    export_s = time.perf_counter() - start
    executable, build_s = _executable(verilog, shared)

    loader = _Loader(overlay, sizes)
    job: list[np.ndarray] = []
    for k, image in enumerate(images):
        job += [*loader.load(image), *loader.run(max_cycles), *loader.look(image)]
        for nodes, bits in again.get(k, ()):
            job += [
                *loader.inputs(image, nodes, bits),
                *loader.run(max_cycles),
                *loader.look(image),
            ]
    answers, clocks, simulate_s = _simulate(executable, np.concatenate(job))

    results = []
    at = 0
    words = overlay.width // 32

    def take(image: Image) -> RtlRun:
        nonlocal at
        cycles, counted, restart = (int(v) for v in answers[at : at + 3])
        if cycles != counted:
            raise RunError(
                f"the cycle counter says {cycles}, the run took {counted}",
                "RTL of the overlay",
                remedy="report this",
            )
        n = len(image.node_pe)
        raw = answers[at + 3 : at + 3 + n * words].astype(np.uint64).reshape(n, words)
        at += 3 + n * words
        values = raw[:, 0] if words == 1 else raw[:, 0] | raw[:, 1] << np.uint64(32)
        return RtlRun(
            cycles,
            values,
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


def hardware(images: Sequence[Image]) -> tuple[Overlay, Sizes]:
    """An overlay with memories for all images, rounded up, and sizes that hold all of them; what
    does not change the RTL is set to its default.

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
        name: fixed.get(name) or _round_up(words)
        for name, words in needs(overlay, sizes).items()
        if name not in ("control", "seed")
    }
    if "chain" in depths and "chain" not in fixed:
        depths["chain"] = 2 * depths["op"]
    if "ready" in depths and overlay.ready == "criticality":
        depths["ready"] = depths["first"]
    neutral = {"sends": "multicast", "sources": "fired"} if overlay.pe == "static" else {}
    return replace(overlay, memories=tuple(sorted(depths.items())), **neutral), Sizes()


def _round_up(words: int) -> int:
    depth = LEAST_DEPTH
    while depth < words:
        depth *= 4
    return depth


def classes_of(images: Sequence[Image]) -> dict[int, frozenset[str]]:
    """PE -> classes of operations that its ALU has: all of the format, or those of the kind of PE
    that the images make it.
    """
    overlay = images[0].overlay
    every = {OP_CLASS[op] for op in format_of(overlay.format).ops if op in OP_CLASS}
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
    return np.asarray(image.columns("op" if image.overlay.pe == "dynamic" else "context", pe)["op"])


@functools.lru_cache(maxsize=16)
def _verilog(overlay: Overlay, sizes: Sizes, classes: str) -> tuple[str, tuple[str, ...]]:
    from ..hw.export import export
    from ..hw.overlay import Overlay as Component

    done = export(
        Component(
            overlay=overlay,
            sizes=sizes,
            classes={int(pe): frozenset(names) for pe, names in json.loads(classes).items()},
        ),
        TOP,
    )
    return done.verilog, done.shared


def _executable(verilog: str, shared: Sequence[str]) -> tuple[Path, float]:
    """The simulator of an exported overlay, from the cache if it is there, and the wall time of
    building it.
    """
    return runner.program({f"{TOP}.v": verilog}, TOP, runner.TB / "overlay.cpp", shared=shared)


def _simulate(executable: Path, job: np.ndarray) -> tuple[np.ndarray, int, float]:
    with children.temporary() as folder:
        source = folder / "job"
        target = folder / "out"
        job.astype("<u4").tofile(source)
        done = children.run([executable, source, target])
        if done.returncode:
            raise RunError(
                done.stderr.strip().splitlines()[-1]
                if done.stderr.strip()
                else f"the simulator ended with {done.returncode}",
                "RTL of the overlay",
                remedy=f"the simulator is {executable}",
            )
        clocks, seconds = done.stdout.split()
        return np.fromfile(target, "<u4"), int(clocks), float(seconds)


class _Loader:
    """Commands of overlay.cpp for one overlay."""

    def __init__(self, overlay: Overlay, sizes: Sizes):
        from ..hw.overlay import load_layout, look_layout

        self.overlay = overlay
        self.numbers = {name: k for k, name in enumerate(MEMORIES[overlay.pe])}
        self.load_fields = load_layout(overlay, sizes)
        self.look_fields = look_layout(overlay, sizes)

    def load(self, image: Image) -> list[np.ndarray]:
        """Every word of an image."""
        out = []
        for memory in image.memories().values():
            if not memory.loaded:
                continue
            for pe in range(self.overlay.pes):
                columns = {
                    name: np.asarray(column)
                    for name, column in image.columns(memory.name, pe).items()
                }
                out += self._words(
                    memory.layout,
                    memory.name,
                    np.full(len(next(iter(columns.values()))), pe),
                    None,
                    columns,
                )
        return out

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
        address: np.ndarray | None,
        columns: Mapping[str, np.ndarray],
    ) -> list[np.ndarray]:
        n = len(pe)
        head = {
            "pe": pe,
            "memory": np.full(n, self.numbers[memory]),
            "address": np.arange(n) if address is None else address,
        }
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
