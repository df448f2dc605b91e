"""Recording of a run by the bench, in as few arrays as there can be: the beats of all channels, and
the lines of all ports, one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..machine.trace import ChannelTrace, PortTrace

BEAT = {
    "accept": np.int64,
    "take": np.int64,
    "stop": np.uint8,
    "data": np.uint8,
    "digest": np.uint64,
}
LINE = {"accept": np.int64, "deliver": np.int64, "address": np.int64, "digest": np.uint64}
"""Columns of beats and of lines; `native.cpp` fills them in this order."""


class Recorded:
    """A run's channels and ports, by number.

    Parameters
    ----------
    out
        Arrays by name, of :meth:`.native.Native.results`.
    """

    def __init__(self, out: Mapping[str, np.ndarray]):
        self._out = out
        self._sizes = out["channel_sizes"]
        self._first = _starts(self._sizes[:, 0])
        self._first_word = _starts(self._sizes[:, 2])
        self._first_line = _starts(out["port_sizes"])

    def channel(self, k: int) -> ChannelTrace:
        """The beats of a channel."""
        own = slice(self._first[k], self._first[k + 1])
        return ChannelTrace(*(self._out[f"c_{name}"][own] for name in BEAT))

    def port(self, k: int) -> PortTrace:
        """The lines of a port."""
        own = slice(self._first_line[k], self._first_line[k + 1])
        return PortTrace(*(self._out[f"p_{name}"][own] for name in LINE))

    def held(self, k: int) -> int:
        """Beats that are in a channel at the end."""
        accepted, taken, _ = self._sizes[k]
        return int(accepted - taken)

    def words(self, k: int) -> np.ndarray | None:
        """The whole beats of a channel, where they were kept and there are any."""
        words = self._out["c_words"][self._first_word[k] : self._first_word[k + 1]]
        return words.reshape(int(self._sizes[k, 0]), -1) if len(words) else None


def _starts(sizes: np.ndarray) -> list[int]:
    """Begin of each list, and the end of the last one."""
    return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
