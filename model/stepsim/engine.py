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
from . import buffer_units, compute_units, flatmap_units, memory_units, routing_units, shape_units
from .calendar import advance, pop
from .hbm import tick
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
    U_KIND,
    U_WHY,
    inner,
)

KIND_CODES = {
    name: code
    for code, name in enumerate(
        (
            "load",
            "store",
            "source",
            "sink",
            "map",
            "map_accum",
            "accum",
            "broadcast",
            "flatten",
            "promote",
            "reshape",
            "repeat",
            "zip",
            "bufferize",
            "streamify",
            "load_ref",
            "store_at",
            "stream",
            "scan",
            "expand",
            "streamify_ref",
            "partition",
            "reassemble",
            "eager_merge",
            "split",
            "address_range",
            "expert_addresses",
            "last_filter",
        )
    )
}
(
    _LOAD,
    _STORE,
    _SOURCE,
    _SINK,
    _MAP,
    _MAP_ACCUM,
    _ACCUM,
    _BROADCAST,
    _FLATTEN,
    _PROMOTE,
    _RESHAPE,
    _REPEAT,
    _ZIP,
    _BUFFERIZE,
    _STREAMIFY,
    _LOAD_REF,
    _STORE_AT,
    _STREAM,
    _SCAN,
    _EXPAND,
    _STREAMIFY_REF,
    _PARTITION,
    _REASSEMBLE,
    _EAGER_MERGE,
    _SPLIT,
    _ADDRESS_RANGE,
    _EXPERT_ADDRESSES,
    _LAST_FILTER,
) = range(len(KIND_CODES))


@inner
def _step(net, u, t):
    """Let unit u go on at t until it waits again."""
    kind = net.unit[u, U_KIND]
    if kind == _LOAD:
        memory_units.load(net, u, t)
    elif kind == _MAP_ACCUM or kind == _ACCUM or kind == _SCAN:
        compute_units.accum(net, u, t, kind == _SCAN)
    elif kind == _MAP:
        compute_units.map_(net, u, t)
    elif kind == _BROADCAST:
        shape_units.broadcast(net, u, t)
    elif kind == _FLATTEN or kind == _PROMOTE:
        shape_units.restop(net, u, t, kind == _FLATTEN)
    elif kind == _RESHAPE:
        shape_units.reshape(net, u, t)
    elif kind == _REPEAT:
        shape_units.repeat(net, u, t)
    elif kind == _ZIP:
        shape_units.zip_(net, u, t)
    elif kind == _BUFFERIZE:
        buffer_units.bufferize(net, u, t)
    elif kind == _STREAMIFY:
        buffer_units.streamify(net, u, t)
    elif kind == _STORE:
        memory_units.store(net, u, t)
    elif kind == _SOURCE or kind == _STREAM:
        memory_units.source(net, u, t)
    elif kind == _SINK:
        memory_units.sink(net, u, t)
    else:
        _step_dynamic(net, u, t, kind)


@inner
def _step_dynamic(net, u, t, kind):
    """Units of dynamic routing, references and run-time lists."""
    if kind == _LOAD_REF:
        memory_units.load_by_reference(net, u, t)
    elif kind == _STORE_AT:
        memory_units.store_at(net, u, t)
    elif kind == _EXPAND:
        shape_units.expand(net, u, t)
    elif kind == _STREAMIFY_REF:
        buffer_units.streamify_by_reference(net, u, t)
    elif kind == _PARTITION:
        routing_units.partition(net, u, t)
    elif kind == _REASSEMBLE:
        routing_units.reassemble(net, u, t)
    elif kind == _EAGER_MERGE:
        routing_units.eager_merge(net, u, t)
    elif kind == _SPLIT:
        flatmap_units.split(net, u, t)
    else:
        flatmap_units.generate(net, u, t)


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
            now = net.g[G_NOW]
            if net.g[G_ACTIVE] > 0:
                tick(net)
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
