"""Values of the options of ``penstock overlay``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...machine.errors import PenstockError
from ...machine.limits import MOST_SECONDS, SIDES, within
from ..core.config import CHOICES, FOREIGN, Overlay

LISTS = ("pe", "local", "network")
"""Fields that `compare` may name several times: every combination is run."""
VARIANT = {
    "pe": "kind of PE",
    "network": "of dynamic PEs: buffered mesh, or deflection torus",
    "local": "of dynamic PEs: a token for every edge (the paper's), or results forwarded",
    "alu": "latency 1 (the paper's), or that of the pipelined or the deep ALU, or of the deep one "
    "behind a register of its operands",
    "format": "of every value",
    "kinds": "every PE does every operation, or one class of them",
}
"""Fields with named values that are options, and their help."""


def mesh_of(text: str, what: str = "--mesh") -> tuple[int, int]:
    """Rows and columns of RxC."""
    if not (m := re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)):
        raise PenstockError(f"{what} takes ROWSxCOLUMNS, not {text[:60]!r}")
    return within(f"{what}: rows", int(m[1]), SIDES), within(f"{what}: columns", int(m[2]), SIDES)


def memory_depths(pairs: list[str]) -> dict[str, int]:
    """Depths of NAME=WORDS."""
    memories = {}
    for pair in pairs:
        name, eq, words = pair.partition("=")
        if not eq or not re.fullmatch(r"[0-9]{1,18}", words):
            raise PenstockError(f"--memory takes NAME=WORDS, not {pair[:60]!r}")
        if name in memories:
            raise PenstockError(f"--memory {name} is given twice")
        memories[name] = int(words)
    return memories


def add_placement(parser) -> None:
    """Options of how a graph is placed."""
    parser.add_argument(
        "--objective",
        choices=("cut", "connectivity", "time"),
        help=(
            "what the placement is made for (default: time, the length of the schedule, for static "
            "PEs; for dynamic ones that or cut or connectivity, which counts what is sent, "
            "whichever takes fewer cycles)"
        ),
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="moves that improve a placement for time (default: few); equal for equal seeds",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="improve it for so long, each; what is reached depends on the machine",
    )


def effort_of(args, overlays: Sequence[Overlay]):
    """Effort for improving placements on these overlays."""
    from ...scheduler.token import Effort, methods_of
    from ...scheduler.token.mapping import TIME

    methods = {args.objective} if args.objective else set().union(*map(methods_of, overlays))
    if TIME not in methods and (args.steps, args.seconds) != (None, None):
        raise PenstockError(
            "--steps and --seconds improve a placement for time, not for "
            + " or ".join(sorted(methods)),
            remedy="leave them out, or use --objective time",
        )
    if args.steps is not None:
        within("--steps", args.steps, range(10**9 + 1))
    if args.seconds is not None and not 0 < args.seconds <= MOST_SECONDS:
        raise PenstockError(f"--seconds must be above 0, at most {MOST_SECONDS}")
    return Effort(args.steps, args.seconds)


def add_overlay(c, several: bool = False) -> None:
    """Options of one overlay, or of ``several``; :func:`overlay_of` and :func:`overlays_of` read
    them.
    """
    mesh = {"action": "append", "help": "rows x columns; may be repeated (default 4x4)"}
    c.add_argument(
        "--mesh",
        metavar="RxC",
        **(mesh if several else {"default": "4x4", "help": "rows x columns (default 4x4)"}),
    )
    for name, what in VARIANT.items():
        one = getattr(Overlay, name)
        default = {"default": one, "help": f"{what} (default {one})"}
        if several and name in LISTS:
            usual = "default all" if name != "network" else f"default {one}"
            default = {"action": "append", "help": f"{what}; may be repeated ({usual})"}
        c.add_argument(f"--{name}", choices=CHOICES[name], **default)
    c.add_argument(
        "--fifo-depth",
        type=int,
        default=Overlay.fifo_depth,
        metavar="N",
        help=f"of the router FIFOs (default {Overlay.fifo_depth})",
    )
    c.add_argument(
        "--memory",
        action="append",
        default=[],
        metavar="NAME=WORDS",
        help="fix the depth of a PE memory (default: what the graph needs, or 1024)",
    )


def refuse_foreign(kind: str, given: Iterable[str]) -> None:
    """Refuse options that only other kinds of PEs have."""
    if foreign := [name for name in given if name in FOREIGN[kind]]:
        others = " and ".join(k for k, fields in FOREIGN.items() if foreign[0] not in fields)
        name = foreign[0].replace("_", "-")
        raise PenstockError(
            f"--{name} is of {others} PEs only", remedy=f"leave out --pe {kind}, or --{name}"
        )


def overlay_of(args) -> Overlay:
    """The overlay that the options of :func:`add_overlay` say."""
    names = (*VARIANT, "fifo_depth")
    refuse_foreign(args.pe, [n for n in names if getattr(args, n) != getattr(Overlay, n)])
    rows, cols = mesh_of(args.mesh)
    memories = memory_depths(args.memory)
    return Overlay(
        rows=rows,
        cols=cols,
        fifo_depth=args.fifo_depth,
        memories=tuple(memories.items()),
        **{name: getattr(args, name) for name in VARIANT},
    )


def overlays_of(args) -> list[Overlay]:
    """The overlays that the options of :func:`add_overlay` for several say, on a 1x1 mesh."""
    from ..runs.comparison import variants

    lists = {n: getattr(args, n) for n in LISTS}
    if lists["pe"] and len(lists["pe"]) == 1:
        refuse_foreign(lists["pe"][0], [n for n, values in lists.items() if values])
    one = {n: getattr(args, n) for n in (*VARIANT, "fifo_depth") if n not in LISTS}
    return variants(lists, **one, memories=memory_depths(args.memory))
