"""``penstock synth overlay``: the parts of the token overlay."""

from __future__ import annotations

import argparse
from typing import Any

from ...cli.options import CONFIG
from ...machine.errors import PenstockError
from ..core.config import PIPELINED, SPECIALISED, Overlay
from ..studies.parts import CAPACITY, EVERY, Piece, alu, full_sizes, pieces, tile
from .options import add_overlay, overlay_of

OVERLAY = "overlay"
"""The word that stands for it, in place of a program."""


def add_choice(c: argparse.ArgumentParser) -> None:
    """Options of one overlay, of which those that are not given are None."""
    group = c.add_argument_group(
        f"with {OVERLAY}", "its parts, in place of those of docs/overlay_resources.md"
    )
    add_overlay(group)
    c.set_defaults(**dict.fromkeys(_defaults()))


def _defaults() -> dict[str, Any]:
    """The options of one overlay, and their values where none is given."""
    apart = argparse.ArgumentParser()
    add_overlay(apart)
    return vars(apart.parse_args([]))


def given(args: argparse.Namespace) -> dict[str, Any]:
    """The options of one overlay that are given."""
    values = {name: getattr(args, name) for name in _defaults()}
    return {name: value for name, value in values.items() if value is not None}


def synth(args: argparse.Namespace, progress) -> list[dict]:
    """Print the resources of parts, and with ``--fmax`` the clock that each reaches: a row a
    part.
    """
    from ...hw.nextpnr import check, rated
    from ...hw.synthesis import cost, look_at_parts

    if args.params or args.config != CONFIG:
        raise PenstockError(
            "an overlay has no parameters and no configuration",
            f"synth {OVERLAY}",
            remedy="leave out --set and --config; its own options are --mesh, --pe and so on",
        )
    if args.fmax:
        check(args.family, args.speed)
    chosen = given(args)
    look_at_parts()
    if args.whole or chosen:
        overlay = overlay_of(argparse.Namespace(**{**_defaults(), **chosen}))
        known = [_whole(overlay)] if args.whole else _parts(overlay)
    else:
        known = pieces()
    work = [piece for piece in known if args.only in f"{piece[0]} {piece[1]}"]
    if not work:
        names = ", ".join(dict.fromkeys(part for part, _, _ in known))
        raise PenstockError(f"no part's name contains {args.only!r}", remedy=f"parts: {names}")
    progress.plan(len(work))
    rows = []
    for part, variant, make in work:
        row = {"part": part, "variant": variant}
        if args.fmax:
            progress.stage(f"synthesise, place and route: {part}, {variant}")
            one, routed = rated(make(), seeds=args.seeds or [1], speed=args.speed)
            row |= vars(one) | {key: routed[key] for key in ("mhz", "share", "seeds", "path")}
        else:
            progress.stage(f"synthesise: {part}, {variant}")
            row |= vars(cost(make(), args.family))
        rows.append(row)
        progress.done(part)
    return rows


def _parts(overlay: Overlay) -> list[Piece]:
    """The switch; of each kind of PE the PE without ALU, its ALU, and the tile of all three."""
    name = f"{overlay.rows}x{overlay.cols} {overlay.name()}"
    kinds = _kinds(overlay)
    every = next(iter(kinds.values()))
    found: list[Piece] = [(f"{overlay.pe} switch", name, lambda: tile(overlay, every).router)]
    for kind, classes in kinds.items():
        found += [
            (f"{overlay.pe} PE", f"{kind}, no ALU", lambda c=classes: tile(overlay, c, False).pe),
            (f"ALU, {overlay.alu}", kind, lambda c=classes: alu(overlay, c)),
            (f"{overlay.pe} tile", f"{kind}, {overlay.alu}", lambda c=classes: tile(overlay, c)),
        ]
    return found


def _kinds(overlay: Overlay) -> dict[str, list[str]]:
    """Classes of operations by what a PE of them is called."""
    classes = list(PIPELINED[overlay.format])
    if overlay.kinds == "homogeneous":
        return {EVERY: classes}
    kinds: dict[str, list[str]] = {}
    for name in classes:
        kinds.setdefault(SPECIALISED[name], []).append(name)
    return {", ".join(names): names for names in kinds.values()}


def _whole(overlay: Overlay) -> Piece:
    """The mesh and what loads, starts and reads it."""
    from ...hw.overlay import Overlay as Component

    if overlay.kinds == "specialised":
        raise PenstockError(
            "which PE does what depends on the graph",
            f"synth {OVERLAY} --whole",
            remedy="leave out --whole, or --kinds specialised",
        )
    classes = dict.fromkeys(range(overlay.pes), frozenset(PIPELINED[overlay.format]))
    name = f"{overlay.rows}x{overlay.cols} {overlay.name()}, {overlay.alu}"
    return (
        "overlay",
        name,
        lambda: Component(overlay=overlay, sizes=full_sizes(CAPACITY), classes=classes),
    )
