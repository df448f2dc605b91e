"""Python's side of native.cpp, inside the simulator process."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from pathlib import Path

import numpy as np

from ..machine.config import dram_from
from ..machine.faults import Fault
from ..model import dram_step
from ..model.dram_state import Dram
from ..system.machine_code import Loaded
from .recorded import BEAT, LINE

HALT = {0: "running", 1: "done", 2: "cycle limit", 3: "no activity", 4: "error flag", 5: "fault"}
FAULTS = {
    1: "access outside its allocation",
    2: "request of an unknown port",
    3: "tag already in flight",
    4: "the fabric's cycle counter is wrong",
    5: "a channel delivered a beat that it never accepted",
    6: "the DRAM model has more lines in flight or delivered than it has room for",
    7: "a channel delivered another beat than the one that it accepted",
    8: "a FIFO that no channel of the program uses has a beat",
    9: "a beat has bits outside its payload",
    10: "a channel has another number of places than its depth",
    11: Fault.RECORDED.what,
}
STATUS = (
    "halt",
    "done_cycle",
    "cycles_seen",
    "first_request",
    "in_flight",
    "lines_read",
    "lines_written",
    "fault",
    "fault_cycle",
    "fault_index",
    "fault_value",
    "error",
    "error_unit",
)


def read_job() -> dict:
    """The job that the command which started the simulator has written."""
    return json.loads(Path(os.environ["PENSTOCK_JOB"]).read_text(encoding="utf-8"))


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded instance of native.cpp."""
    return ctypes.CDLL(os.environ["PENSTOCK_LIBRARY"])


def _pointer(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


class Native:
    """One simulation's recorder, memory and stream agents.

    Parameters
    ----------
    channels
        Number of probed channels; their ids count from 0.
    """

    def __init__(self, channels: int):
        self.lib = library()
        self.channels = channels
        self._keep_alive: list = []
        self._step: Loaded | None = None

    def _call(self, name: str, *args) -> None:
        getattr(self.lib, f"penstock_tb_{name}")(
            *(ctypes.c_int64(a) if isinstance(a, int) else a for a in args)
        )

    def begin(self, job: dict, inputs, limit: int) -> None:
        """Clear the last run and hand over memory image, DRAM, streams and limits; reset must be
        high.
        """
        self._keep_alive = []
        self.channels = job["channels"]
        self.ports = job["ports"]
        self._call("begin", self.channels, job["ports"], len(job["sources"]), len(job["sinks"]))
        self._call("limits", limit, job["idle"], job["quiet"])
        self._call("mutant", job["mutant"])
        if "channel_of" in inputs:
            self._fifos(inputs)
        places = np.ascontiguousarray(inputs["places"], np.int32)
        self._call("places", len(places), _pointer(places))
        for channel in job["keep"]:
            self._call("keep", channel)
        self.image = np.array(inputs["image"], np.uint8)
        if job["ports"]:
            self.ranges = np.ascontiguousarray(inputs["ranges"], np.uint64)
            entry, state = self._dram(job["dram"], Path(job["dram_step"]), int(inputs["lines"]))
            self._call(
                "memory",
                _pointer(self.image),
                _pointer(self.ranges),
                job["lanes"],
                job["responses"],
                job["dram"]["line_bytes"],
                entry,
                state,
            )
            waits = np.ascontiguousarray(inputs["waits"], np.uint8)
            self._call("waits", len(waits), _pointer(waits))
        for i, unit in enumerate(job["sources"]):
            words = np.ascontiguousarray(inputs[f"source{unit}_words"], np.uint32)
            release = np.ascontiguousarray(inputs[f"source{unit}_release"], np.int64)
            self._call(
                "source", i, len(release), words.shape[1], _pointer(words), _pointer(release)
            )
        for i, unit in enumerate(job["sinks"]):
            release = np.ascontiguousarray(inputs[f"sink{unit}_release"], np.int64)
            self._call("sink", i, len(release), _pointer(release))

    def _fifos(self, inputs) -> None:
        """Say which channel each physical FIFO is, and how its beats become the channel's."""
        for k, (width, fifo_width) in enumerate(inputs["formats"]):
            moves = np.ascontiguousarray(inputs[f"moves{k}"], np.int64)
            self._call("format", int(width), len(moves), _pointer(moves), int(fifo_width))
        tables = [np.ascontiguousarray(inputs[x], np.int32) for x in ("channel_of", "format_of")]
        self._call("fifos", len(tables[0]), *map(_pointer, tables))

    def _dram(self, table: dict, code: Path, lines: int):
        """The model's own DRAM: its compiled step as a C function, and its state."""
        if self._step is None:
            self._step = dram_step.load(code)
        self.dram = dram = Dram(dram_from(table), lines)
        self._keep_alive.append(dram)
        return ctypes.c_void_p(self._step.address), _pointer(dram.state)

    def results(self) -> dict[str, np.ndarray]:
        """All that was recorded since :meth:`begin`, as
        :class:`.recorded.Recorded` reads it.
        """
        status = np.zeros(len(STATUS), np.int64)
        self._call("status", _pointer(status))
        out = {"status": status, "image": self.image}
        for name, column in (self.dram.counters or {}).items() if self.ports else ():
            out[f"dram_{name}"] = np.array(column, np.int64)
        out |= self._beats()
        out |= self._lines()
        self.lib.penstock_tb_post_size.restype = ctypes.c_int64
        out["posts"] = np.zeros((self.lib.penstock_tb_post_size(), 4), np.int64)
        self._call("posts", _pointer(out["posts"]))
        return out

    def _beats(self) -> dict[str, np.ndarray]:
        """The beats of all channels, one channel behind the other."""
        sizes = np.zeros((self.channels, 3), np.int64)
        for c in range(self.channels):
            self._call("channel_size", c, _pointer(sizes[c]))
        beats, _, words = sizes.sum(axis=0, dtype=np.int64).tolist()
        columns = {name: np.zeros(beats, dtype) for name, dtype in BEAT.items()}
        kept = np.zeros(words, np.uint32)
        at = word = 0
        for c, (n, _, n_words) in enumerate(sizes.tolist()):
            parts = [_pointer(column[at:]) for column in columns.values()]
            self._call("channel", c, *parts, _pointer(kept[word:]))
            at += n
            word += n_words
        named = {f"c_{name}": column for name, column in columns.items()}
        return {"channel_sizes": sizes, **named, "c_words": kept}

    def _lines(self) -> dict[str, np.ndarray]:
        """The lines of all ports, one port behind the other."""
        size_of = self.lib.penstock_tb_port_size
        size_of.restype = ctypes.c_int64
        sizes = np.array([size_of(ctypes.c_int64(p)) for p in range(self.ports)], np.int64)
        columns = {name: np.zeros(int(sizes.sum()), dtype) for name, dtype in LINE.items()}
        at = 0
        for p, n in enumerate(sizes.tolist()):
            self._call("port", p, *(_pointer(column[at:]) for column in columns.values()))
            at += n
        return {"port_sizes": sizes, **{f"p_{name}": column for name, column in columns.items()}}
