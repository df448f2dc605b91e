"""JSON files in: one clear error for a bad file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ...machine.errors import PenstockError
from ...system.reading import read_json

_T = TypeVar("_T")


def load(path: str | os.PathLike[str], read: Callable[[dict[str, Any]], _T]) -> _T:
    """The object in a JSON file as `read` makes it; its errors name the file."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise PenstockError(
            f"the top level is a {type(value).__name__}",
            where=os.fspath(path),
            rule="the file holds one JSON object",
        )
    try:
        return read(value)
    except PenstockError as error:
        if not error.where:
            raise
        where = f"{os.fspath(path)}: {error.where}"
        raise PenstockError(error.what, where, error.rule, error.remedy) from None


def take_list(value: Any, where: str, rule: str) -> list[Any]:
    if not isinstance(value, list):
        raise PenstockError(f"must be a list, not {_name(value)}", where=where, rule=rule)
    return value


def take_int(value: Any, where: str, rule: str, *, low: int, high: int | None = None) -> int:
    """An integer in [low, high]; `rule` says what the number is."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise PenstockError(f"must be an integer, not {_name(value)}", where=where, rule=rule)
    if value < low or (high is not None and value > high):
        bound = f"at least {low}" if high is None else f"in {low}..{high}"
        raise PenstockError(f"must be {bound}, not {value}", where=where, rule=rule)
    return value


def take_number(value: Any, where: str, rule: str, *, low: float, high: float) -> float:
    """A number in [low, high]; `rule` says what it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PenstockError(f"must be a number, not {_name(value)}", where=where, rule=rule)
    if not low <= value <= high:
        raise PenstockError(
            f"must be from {low:g} to {high:g}, not {value!r}", where=where, rule=rule
        )
    return value


def _name(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, (list, dict)) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
