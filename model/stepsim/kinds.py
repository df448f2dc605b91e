"""The kinds of units by name: what steps each, and in which order the loop asks.

A module of units registers its compiled step functions with
:func:`steps`. The loop calls the one of a unit's kind through
:func:`chosen`, for compiled code cannot look a function up by number.
"""

from __future__ import annotations

from collections.abc import Callable

from .state import U_KIND, inner

STEPS: dict[str, Callable] = {}
"""Step functions by kind: ``step(net, u, t)`` lets unit u go on at t until it waits again."""


def steps(*kinds: str) -> Callable[[Callable], Callable]:
    """Register a compiled function as what steps units of these kinds."""

    def register(function: Callable) -> Callable:
        STEPS.update(dict.fromkeys(kinds, function))
        return function

    return register


def codes() -> dict[str, int]:
    """The number of each kind in the arrays of a run."""
    return {kind: code for code, kind in enumerate(STEPS)}


def chosen() -> Callable:
    """One compiled function that steps a unit of any kind: a choice among six groups, and in each
    among its kinds. (A longer chain of calls takes minutes to compile.)
    """
    functions = list(STEPS.values())
    each = -(-len(functions) // FAN)
    groups = [
        _among(functions[first : first + each], first, 1)
        for first in range(0, len(functions), each)
    ]
    return _among(groups, 0, each)


FAN = 6


@inner
def _nothing(net, u, t):
    return


def _among(functions: list[Callable], first: int, each: int) -> Callable:
    """A choice among at most FAN functions of ``each`` kinds, from kind ``first`` on."""
    a, b, c, d, e, f = [*functions, *[_nothing] * (FAN - len(functions))]

    @inner
    def step(net, u, t):
        place = (net.unit[u, U_KIND] - first) // each
        if place == 0:
            a(net, u, t)
        elif place == 1:
            b(net, u, t)
        elif place == 2:
            c(net, u, t)
        elif place == 3:
            d(net, u, t)
        elif place == 4:
            e(net, u, t)
        else:
            f(net, u, t)

    return step
