"""The loop: cycle by cycle while the HBM node takes requests, from wake-up to wake-up otherwise.

Units are called by their address, as those of `penstock.model.engine`; a run compiles the kinds
that it has.
"""

import functools
from pathlib import Path

from numba.core.ccallback import CFunc

from .. import acts
from ..compiling import jit, stamp
from ..records import at_address, call_act, digest_of
from . import buffer_units, compute_units, flatmap_units, memory_units, routing_units, shape_units
from .calendar import advance, pop
from .hbm import rush, tick
from .state import GROW, KINDS, OK, Net, Unit

UNITS = (memory_units, compute_units, shape_units, buffer_units, routing_units, flatmap_units)
"""Modules that register the kinds of units."""

_DIGEST = digest_of(
    Path(acts.__file__),
    Path(acts.__file__).with_name("compiling.py"),
    *sorted(Path(__file__).parent.glob("*.py")),
)
_net_at = at_address(Net)


@functools.cache
def act(kind: str) -> CFunc:
    """The function of a kind, compiled or from numba's cache."""
    return acts.compiled(f"step_{kind}", Net, *KINDS[kind], _DIGEST, flags=False)


@jit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def simulate(address):
    """Run until nothing is left to do (fault OK), a unit fails, or there is no room for a cycle
    (GROW: enlarge, call again).
    """
    net = _net_at(address)
    net.fault = OK
    while True:
        if net.stored > net.store_room or net.logged > net.log_room:
            net.fault = GROW
            return
        if net.n_active > 0:
            rush(net)
            tick(net)
        now = net.now
        at = pop(net)
        while at:
            u = Unit(net, at, 0)
            u.spent[u.why] += now - u.clock
            u.clock = now
            call_act(u.act, net, at, now)
            if net.fault != OK:
                return
            at = pop(net)
        if not advance(net, net.n_active > 0):
            return


stamp(simulate, _DIGEST)
