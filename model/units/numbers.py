"""Units that make and reduce numbers: tokens, addresses and selectors of them (docs/timing.md
section 3).
"""

from __future__ import annotations

import numpy as np

from ...machine.beat import STOP_DONE
from ...machine.kinds.numbers import ARITHMETIC, REDUCERS
from ...machine.limits import ADDRESS_BITS
from ..records import fast, singles, trailing_zeros
from .state import (
    BLOCKED,
    BUSY,
    FAULT_STOP,
    acts,
    agree,
    both_visible,
    fail,
    head,
    is_done,
    push_bare,
    push_done,
    push_pair,
    push_target,
    ready,
    source,
    take,
    target,
    unit,
    visible,
)

ADDRESS_MASK = (1 << ADDRESS_BITS) - 1


@unit
class Signal:
    """State of a `signal`."""

    level: int
    fn: int  # 1 + its place among the functions that reduce, 0: tokens
    init: int
    scans: int
    mask: int  # of a number
    low: int  # state
    high: int
    before: int  # stop of the beat before

    @staticmethod
    def begin(layout, u):
        p = u.kind
        payload = layout.graph.inputs(u.id)[0].payload
        return {
            "level": p.level,
            "fn": 0 if p.fn is None else 1 + REDUCERS.index(p.fn),
            "init": p.init,
            "scans": bool(p.scan),
            "mask": (1 << min(payload.bits, 32)) - 1,
            "low": p.init,
            "before": STOP_DONE,
        }


REDUCE_ADD, REDUCE_MUL, REDUCE_MAX, REDUCE_MIN, REDUCE_OR = range(1, 1 + len(REDUCERS))


@fast
def reduce(u, beat):
    """A number changes the state."""
    if u.fn == REDUCE_OR:
        u.low |= beat.low
        u.high |= beat.high
    elif u.fn == REDUCE_ADD:
        u.low = (u.low + beat.low) & u.mask
    elif u.fn == REDUCE_MUL:
        u.low = (u.low * beat.low) & u.mask
    elif u.fn == REDUCE_MAX:
        u.low = max(u.low, beat.low)
    else:
        u.low = min(u.low, beat.low)


@acts(Signal, "signal")
def signal(net, u, c):
    channel = source(net, u, 0)
    out = target(net, u, 0)
    if not visible(net, channel, c):
        return 0
    beat = head(net, channel)
    s = beat.stop
    leaves = u.scans or s >= u.level
    if leaves and not ready(out, c):
        return BLOCKED
    if u.fn and beat.data:
        reduce(u, beat)
    if leaves:
        if is_done(beat):
            push_done(net, out, c)
        elif not beat.data and s > u.level and (u.level == 0 or u.before > u.level):
            push_bare(net, out, c, s - (0 if u.scans else u.level))
        elif u.scans and not beat.data:
            push_bare(net, out, c, s)
        elif u.fn:
            push_pair(net, out, c, s - (0 if u.scans else u.level), u.low, u.high)
        else:
            push_pair(net, out, c, s - u.level, 1, 0)
    if s >= u.level:
        u.low = u.init
        u.high = 0
    u.before = s
    take(net, channel, c)
    return BUSY


ARITHMETIC_ADD, ARITHMETIC_MIN, ARITHMETIC_MAX, ARITHMETIC_LESS, ARITHMETIC_EQUAL = range(5)
ARITHMETIC_HOT = list(ARITHMETIC).index("hot")
GENERATE = {"address": 0, "expert": 1, "last": 2, "elements": 3}
GENERATE_ADDRESS, GENERATE_EXPERT, GENERATE_LAST, GENERATE_ELEMENTS = GENERATE.values()


@unit
class Generate:
    """State of a `generate`."""

    fn: int
    stride: int
    count: int  # addresses of an expert
    sent: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        return {"fn": GENERATE[p.fn], "stride": p.stride, "count": p.count}


@fast
def generated(u, channel, x, y):
    """Count of the numbers that a data beat gives, and the first of them."""
    if u.fn == GENERATE_ADDRESS:
        return y.low, x.low * u.stride
    if u.fn == GENERATE_LAST:
        return x.low, np.int64(0)
    if u.fn == GENERATE_ELEMENTS:
        return (np.int64(x.cols) if x.rows else np.int64(0)), np.int64(0)
    for k in range(channel.n_numbers):
        if x.numbers[k]:
            return u.count, (64 * k + trailing_zeros(x.numbers[k])) * u.count
    return np.int64(0), np.int64(0)


@acts(Generate, "generate")
def generate(net, u, c):
    a = source(net, u, 0)
    b = source(net, u, 1 if u.fn == GENERATE_ADDRESS else 0)
    out = target(net, u, 0)
    if not both_visible(net, a, b, c):
        return 0
    x = head(net, a)
    y = head(net, b)
    if not agree(x, y):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    n = np.int64(0)
    first = np.int64(0)
    if x.data:
        n, first = generated(u, a, x, y)
    i = u.sent
    last = i + 1 >= n
    if is_done(x):
        push_done(net, out, c)
    elif n == 0:
        push_bare(net, out, c, x.stop + 1)
    else:
        value = (first + i) & ADDRESS_MASK
        if u.fn == GENERATE_LAST:
            value = 1 if last else 2
        elif u.fn == GENERATE_ELEMENTS and net.has_values:
            value = np.int64(singles(net.values)[x.value + i])
        elif u.fn == GENERATE_ELEMENTS:
            value = 0
        push_pair(net, out, c, x.stop + 1 if last else 0, value, 0)
    u.sent = 0 if last else i + 1
    if last:
        take(net, a, c)
        if u.fn == GENERATE_ADDRESS:
            take(net, b, c)
    return BUSY


@unit
class Address:
    """State of an `address`."""

    stride: int
    fn: int  # its place among the functions
    alone: int
    constant: int
    divisor: int
    targets: int

    @staticmethod
    def begin(layout, u):
        p = u.kind
        return {
            "stride": p.stride,
            "fn": list(ARITHMETIC).index(p.fn),
            "alone": bool(p.alone),
            "constant": p.constant,
            "divisor": p.divisor,
            "targets": p.targets,
        }


@fast
def arithmetic(u, x, y):
    """The function of two numbers, other than their sum and a selector."""
    if u.fn == ARITHMETIC_MIN:
        return min(x, y)
    if u.fn == ARITHMETIC_MAX:
        return max(x, y)
    if u.fn == ARITHMETIC_LESS:
        return np.int64(x < y)
    if u.fn == ARITHMETIC_EQUAL:
        return np.int64(x == y)
    return (x + x // u.divisor * y) & ADDRESS_MASK


@acts(Address, "address")
def address(net, u, c):
    a = source(net, u, 0)
    b = source(net, u, 1 - u.alone)
    out = target(net, u, 0)
    if not both_visible(net, a, b, c):
        return 0
    x = head(net, a)
    y = head(net, b)
    if not agree(x, y):
        fail(net, u, FAULT_STOP, c)
        return 0
    if not ready(out, c):
        return BLOCKED
    if x.data:
        first = (x.low * u.stride) & ADDRESS_MASK
        second = u.constant if u.alone else y.low
        total = (first + second) & ADDRESS_MASK
        if u.fn == ARITHMETIC_ADD:
            push_pair(net, out, c, x.stop, total, 0)
        elif u.fn == ARITHMETIC_HOT:
            push_target(net, out, c, x.stop, total if total < u.targets else -1)
        else:
            push_pair(net, out, c, x.stop, arithmetic(u, first, second), 0)
    else:
        push_bare(net, out, c, x.stop)
    take(net, a, c)
    if not u.alone:
        take(net, b, c)
    return BUSY
