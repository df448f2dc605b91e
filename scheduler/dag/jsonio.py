"""JSON files in: one clear error for a bad file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from penstock.machine.errors import PenstockError

__all__ = ["read_object", "take_list", "take_int", "take_number"]


def read_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object stored in a file."""
    where = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PenstockError(f"cannot read the file: {error.strerror or error}", where=where) from None
    except UnicodeDecodeError as error:
        raise PenstockError(f"not a UTF-8 text file (byte {error.start})", where=where, rule="the file holds one JSON object") from None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise PenstockError(f"not JSON: {error.msg}", where=f"{where}, line {error.lineno} column {error.colno}",
                            rule="the file holds one JSON object") from None
    except (RecursionError, ValueError):
        raise PenstockError("not usable JSON: nested too deeply or a number with too many digits", where=where,
                            rule="the file holds one JSON object") from None
    if not isinstance(value, dict):
        raise PenstockError(f"the top level is a {type(value).__name__}", where=where, rule="the file holds one JSON object")
    return value


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


def take_number(value: Any, where: str, rule: str, *, positive: bool) -> float:
    """A finite number, above zero or at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PenstockError(f"must be a number, not {_name(value)}", where=where, rule=rule)
    low_enough = value > 0 if positive else value >= 0
    if not (low_enough and value < 1e300):
        raise PenstockError(f"must be {'positive' if positive else 'at least 0'} and finite, not {value!r}"[:120], where=where, rule=rule)
    return value


def _name(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, (list, dict)) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
