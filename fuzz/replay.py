"""Kept failures of a campaign, run again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..machine.errors import PenstockError
from ..machine.limits import within
from ..runs.array import array_config
from ..system.reading import check_fields, is_table, read_json
from . import programs
from .array import fails_on_array
from .campaign import Campaign, config_of, fails_on_model, fails_on_rtl
from .recipe import Recipe
from .streams import run_streams

SEEDS = range(1 << 62)
OF_PROGRAM = ("backend", "message", "origin", "recipe")


def replay(path: Path, on: str | None = None) -> str | None:
    """Run a kept failure again, as it was run: streams, a program on a fabric of its own, or one
    that is placed on an array.

    ``on``: model or rtl (default: where it failed).

    Returns
    -------
    str or None
        What is wrong, if anything is.
    """
    data = read_json(path)
    try:
        if not is_table(data):
            raise TypeError("it holds no object")
        again = _kept(data, str(path))
        backend = data["backend"]
    except PenstockError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        StopIteration,
    ) as e:
        raise PenstockError(
            f"is not a kept failure: {e}"[:200],
            str(path),
            remedy="give a file that `penstock fuzz --keep` wrote",
        ) from None
    return again(on or ("rtl" if backend == "streams" else backend))


def _kept(data: dict, where: str) -> Callable[[str], str | None]:
    """Function that runs a failure again, on the model or on RTL."""
    if data["backend"] == "streams":
        check_fields(data, ("backend", "message", "seed"), where)
        return partial(_streams, within("seed", data["seed"], SEEDS, where))
    if data["backend"] not in ("model", "rtl"):
        raise ValueError(f"no backend {data['backend']!r}")
    recipe = Recipe.from_dict(data["recipe"])
    if "array" in data:
        check_fields(data, (*OF_PROGRAM, "array", "placement"), where)
        placement = within("placement", data["placement"], SEEDS, where)
        config = array_config(data["array"])
        again = partial(fails_on_array, recipe, data["array"], placement)
    else:
        check_fields(data, (*OF_PROGRAM, "config"), where)
        config = config_of(data["config"])
        again = partial(_program, recipe, config)
    programs.prepare(recipe, config)
    return again


def _program(recipe: Recipe, config, on: str) -> str | None:
    wrong = fails_on_model(recipe, config)
    return wrong or (fails_on_rtl(recipe, config) if on == "rtl" else None)


def _streams(seed: int, on: str) -> str | None:
    campaign = Campaign()
    run_streams(campaign, 1, seed, on=on, exact=True)
    return campaign.failures[0].message if campaign.failures else None
