"""The loop: cycle by cycle while the HBM node takes requests, from wake-up to wake-up otherwise.

One compiled function, cached on disk. The functions it calls live in other modules, and the cache
would not see them change; the digest of the package's sources, which it carries as a constant,
makes a changed source a new function.

It is compiled without reference counts (`_nrt=False`, for it and all it calls): nothing is
allocated in there, and counting the references to each array of the state at each call took more
than 95 % of the time.
"""

import hashlib
from pathlib import Path

from ..compiling import jit
from . import (
    buffer_units,
    compute_units,
    flatmap_units,
    kinds,
    memory_units,
    routing_units,
    shape_units,
)
from .calendar import advance, pop
from .hbm import rush, tick
from .state import (
    G_ACTIVE,
    G_FAULT,
    G_LOGGED,
    G_LOGGING,
    G_NOW,
    G_SLACK_LOG,
    G_SLACK_STORE,
    G_STORED,
    GROW,
    OK,
    U_CLOCK,
    U_WHY,
)

UNITS = (memory_units, compute_units, shape_units, buffer_units, routing_units, flatmap_units)
"""Modules that register the kinds of units; those of a run's inner loop first."""
KIND_CODES = kinds.codes()
"""The number of each kind in the arrays of a run."""
_step = kinds.chosen()


def _compile():
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = int(hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:12], 16)

    @jit(cache=True, _nrt=False, error_model="numpy")
    def simulate(net):
        """Run until nothing is left to do (fault OK), a unit fails, or an array is full (GROW:
        enlarge, call again).
        """
        if digest < 0:
            return
        net.g[G_FAULT] = OK
        while True:
            if net.g[G_STORED] + net.g[G_SLACK_STORE] > len(net.store) or (
                net.g[G_LOGGING] and net.g[G_LOGGED] + net.g[G_SLACK_LOG] > len(net.log)
            ):
                net.g[G_FAULT] = GROW
                return
            if net.g[G_ACTIVE] > 0:
                rush(net)
                tick(net)
            now = net.g[G_NOW]
            u = pop(net)
            while u >= 0:
                net.spent[u, net.unit[u, U_WHY]] += now - net.unit[u, U_CLOCK]
                net.unit[u, U_CLOCK] = now
                _step(net, u, now)
                if net.g[G_FAULT] != OK:
                    return
                u = pop(net)
            if not advance(net, net.g[G_ACTIVE] > 0):
                return

    return simulate


simulate = _compile()
