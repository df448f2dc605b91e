"""Tokens that a run is given from outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .state import plain, tile


@dataclass(frozen=True)
class Tokens:
    """A stream from outside, int64 [tokens] each."""

    stop: np.ndarray  # stop levels
    # word, word2: what each token carries: a tile (:func:`tile_word`), a number, or the two words
    # of a selector (:func:`selector_words`)
    word: np.ndarray
    word2: np.ndarray


def tile_word(rows: int, cols: int, valid: int) -> int:
    """A tile of ``rows`` x ``cols`` elements, ``valid`` of its rows filled, that lies in no memory
    unit.
    """
    return plain(tile)(rows, cols, valid, 0)


def selector_words(targets: Iterable[int]) -> tuple[int, int]:
    """A selector of up to 128 targets, as two int64 bit patterns."""
    bits = sum(1 << i for i in set(targets))
    low, high = (x - (1 << 64) if x >> 63 else x for x in (bits & ((1 << 64) - 1), bits >> 64))
    return low, high


def tokens(items: Iterable[tuple[int, int | tuple[int, int]]]) -> Tokens:
    """Tokens from pairs of a stop and a word, or two words."""
    rows = [(s, *(w if isinstance(w, tuple) else (w, 0))) for s, w in items]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Tokens(*(np.ascontiguousarray(table[:, i]) for i in range(3)))
