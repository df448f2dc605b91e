"""The event-driven engine of the `machine` timing: a calendar of units to evaluate, the memory
interconnect, and the off-chip memory.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numba import njit, types

from . import dram
from .acts import act
from .units import *
from .units import fail, fast, store_step_on, trailing_zeros, wake, walk_on

RUNNING, DONE, QUIET, LIMIT, FULL, FAILED = range(
    6
)  # why `advance` returned; FULL: a log has no room for another cycle


@fast
def evaluate(S, V, LOG, SUNK, SUNK_V, u, c):
    kind = S[u + U_KIND]
    if kind == K_SINK:
        return sink(S, V, LOG, SUNK, SUNK_V, u, c)
    return act(S[S[G_ACTS] + kind], S, V, LOG, u, c)


@fast
def account(S, u, c, flags):
    """Busy and blocked cycles: those since the last evaluation were as that one left the unit."""
    if S[u + U_STATUS]:
        S[u + U_BLOCKED] += c - S[u + U_EVAL] - 1
    S[u + U_EVAL] = c
    S[u + U_STATUS] = 0
    if flags & BUSY:
        S[u + U_BUSY] += 1
        S[u + U_BUSY_AT] = c
    elif flags & BLOCKED:
        S[u + U_BLOCKED] += 1
        S[u + U_STATUS] = 1


@fast
def line_address(S, u, address, write):
    if address < S[u + L_LIMIT_LOW] or address + (1 if write else 64) > S[u + L_LIMIT_HIGH]:
        fail(S, FAULT_ADDRESS, u, address)
        return False
    return True


@fast
def send(S, D, LOG, u, c, address, line, lane, count):
    """One line of a chunk granted in `c`."""
    at = dram.accept(D, c + 1, line, lane, count)
    if at == dram.FULL:
        fail(S, FAULT_FLIGHT, u, c)
        return
    wake(S, S[G_DRAM_UNIT], at)
    if S[G_TRACE]:
        n = S[G_LOGGED]
        S[G_LOGGED] = n + 1
        LOG[n, 0] = 2
        LOG[n, 1] = S[u + U_PORT]
        LOG[n, 2] = c
        LOG[n, 3] = address


@fast
def grant_load(S, V, M, D, LOG, u, c):
    y = S[u + L_GENERATOR]
    t = S[G_T]
    w = S[G_W]
    e = S[u + L_E]
    first = S[y + Y_CHUNK] * w
    count = min(w, S[y + Y_V] - first)
    row = S[y + Y_ROW] + S[y + Y_BAND] * t + first
    address = (
        S[u + L_BASE]
        + row * S[u + L_PITCH]
        + (S[y + Y_COL] - S[y + Y_K]) * (64 // e)
        + S[y + Y_STEP] * 64
    )
    group = S[u + L_RING_TAIL]
    ring = S[u + L_RING] + group * RING_WORDS
    S[ring], S[ring + 1] = count, S[u + L_SEQUENCE]
    for i in range(count):
        if not line_address(S, u, address, False):
            return
        send(S, D, LOG, u, c, address, S[u + U_PORT] << 44 | group << 8 | i, i, count)
        if S[G_VALUES]:
            value = S[u + L_RING_VALUE] + (group * w + i) * e
            half = address >> 1
            if e == 16:
                for j in range(16):
                    V[value + j] = np.uint32(M[half + 2 * j]) | np.uint32(
                        M[half + 2 * j + 1]
                    ) << np.uint32(16)
            else:
                for j in range(32):
                    V[value + j] = np.uint32(M[half + j]) << np.uint32(16)
        address += S[u + L_PITCH]
    S[u + L_SEQUENCE] += count
    S[G_READ] += count
    S[u + L_RING_TAIL] = group + 1 if group + 1 < S[u + L_GROUPS] else 0
    S[u + L_USED] += 1
    S[y + Y_CHUNK] += 1
    if S[y + Y_CHUNK] == S[y + Y_CHUNKS]:
        S[y + Y_CHUNK] = 0
        S[y + Y_STEP] += 1
        if S[y + Y_STEP] == S[y + Y_N]:
            walk_on(S, u, y)


@fast
def write_element(M, e, at, x):
    if e == 16:
        M[2 * at] = np.uint16(x & np.uint32(0xFFFF))
        M[2 * at + 1] = np.uint16(x >> np.uint32(16))
    else:
        M[at] = np.uint16(x >> np.uint32(16))


@fast
def grant_store(S, V, M, D, LOG, u, c):
    t = S[G_T]
    w = S[G_W]
    e = S[u + L_E]
    carry = S[u + T_CARRY]
    b = S[u + L_BLOCKS] + S[u + L_BLOCK_HEAD] * BLOCK_WORDS
    v = S[u + T_CARRY_ROWS] if carry else S[b + X_ROWS]
    first = S[u + T_CHUNK] * w
    count = min(w, v - first)
    k = S[u + T_COL] % e
    row = S[u + T_ROW] + S[u + T_BAND] * t + first
    size = 64 // e
    address = S[u + L_BASE] + row * S[u + L_PITCH] + (S[u + T_COL] - k) * size + S[u + T_STEP] * 64
    carried = S[u + T_CARRY_COLS]
    own = 0 if carry else min(S[b + X_COLS], e - k)
    high = address + (k + own if own else carried) * size  # one past the last byte written
    low = address + (0 if carried else k * size)
    slot = 0
    if S[u + T_RANDOM]:
        slot = due_slot(S, u)
        S[slot + 2] += count
        slot = (slot - S[u + T_DUE]) // DUE_WORDS
    for i in range(count):
        if low < S[u + L_LIMIT_LOW] or high > S[u + L_LIMIT_HIGH]:
            fail(S, FAULT_ADDRESS, u, address)
            return
        send(
            S,
            D,
            LOG,
            u,
            c,
            address,
            S[u + U_PORT] << 44 | slot << 40 | S[u + L_SEQUENCE] + i,
            i,
            count,
        )
        if S[G_VALUES]:
            r = first + i
            at = address // size
            for j in range(carried):
                write_element(M, e, at + j, V[S[u + T_CARRY_VALUE] + r * e + e - k + j])
            for j in range(own):
                write_element(M, e, at + k + j, V[S[b + X_BLOCK_VALUE] + r * e + j])
        address += S[u + L_PITCH]
        low += S[u + L_PITCH]
        high += S[u + L_PITCH]
    S[u + L_SEQUENCE] += count
    S[u + T_ACKS] += count
    S[G_WRITTEN] += count
    S[u + T_CHUNK] += 1
    if S[u + T_CHUNK] == S[u + T_CHUNKS]:
        store_step_on(S, V, u)


@fast
def interconnect(S, V, M, D, LOG, c):
    """Grant one chunk."""
    n = S[G_NPORTS]
    p = S[G_GRANT] if S[G_ROUND_ROBIN] else 0
    while True:
        u = S[S[G_PORTS] + p]
        p = p + 1 if p + 1 < n else 0
        if S[u + L_PRESENT]:
            break
    S[G_GRANT] = p
    if S[G_FIRST_REQUEST] < 0:
        S[G_FIRST_REQUEST] = c
    S[u + L_PRESENT] = 0
    S[G_PRESENT] -= 1
    if S[u + U_BUSY_AT] != c:
        S[u + U_BUSY_AT] = c
        S[u + U_BUSY] += 1
        S[u + U_BLOCKED] -= 1  # presented, so counted (now or at the next evaluation) as blocked
    if S[u + U_KIND] == K_LOAD:
        grant_load(S, V, M, D, LOG, u, c)
    else:
        grant_store(S, V, M, D, LOG, u, c)
    wake(S, S[u + U_ID], c + 1)


@fast
def responses(S, D, LOG, c):
    """Lines delivered in `c`: visible to their unit from the next cycle."""
    out = S[S[G_OUT] :]
    n = dram.deliver(D, c, out)
    S[G_EVENTS] += n
    if D[dram.EARLIEST] < dram.NEVER:
        wake(S, S[G_DRAM_UNIT], D[dram.EARLIEST])
    for i in range(n):
        line = out[i]
        u = S[S[G_PORTS] + (line >> 44)]
        sequence = line & ((np.int64(1) << 44) - 1)
        if S[u + U_KIND] == K_LOAD:
            ring = S[u + L_RING] + (sequence >> 8) * RING_WORDS
            sequence = S[ring + 1] + (sequence & 255)
            S[ring] -= 1
            if S[ring] == 0:
                wake(S, S[u + U_ID], c + 1)
        else:
            waits = u + T_ACKS
            if S[u + T_RANDOM]:
                S[waits] -= 1
                waits = S[u + T_DUE] + (sequence >> 40) * DUE_WORDS + 2
            S[waits] -= 1
            if S[waits] == 0:
                wake(S, S[u + U_ID], c + 1)
            sequence &= (np.int64(1) << 40) - 1
        if S[G_TRACE]:
            k = S[G_LOGGED]
            S[G_LOGGED] = k + 1
            LOG[k, 0] = 3
            LOG[k, 1] = line >> 44
            LOG[k, 2] = c
            LOG[k, 3] = sequence


def _advance(S, V, M, D, LOG, SUNK, SUNK_V, limit):
    """Run from cycle `S[G_NOW]` until the run is over, stuck or failed, a log is full, or `limit`
    cycles are over.
    """
    words = S[G_WORDS]
    mask = S[G_MASK]
    dram_unit = S[G_DRAM_UNIT]
    evaluated = 0
    c = S[G_NOW]
    status = RUNNING
    while True:
        # The next cycle in which something happens.
        if S[G_PRESENT] == 0:
            empty = 0
            while empty <= mask:
                at = S[G_WHEEL] + (c & mask) * words
                some = np.int64(0)
                for i in range(words):
                    some |= S[at + i]
                if some:
                    break
                c += 1
                empty += 1
            if empty > mask:
                status = QUIET
                break
        if c >= limit:
            status = LIMIT
            break
        if (
            S[G_LOGGED] + S[G_MAX_CYCLE_LOG] > LOG.shape[0]
            or S[G_SUNK] + S[G_NUNITS] > SUNK.shape[0]
            or S[G_RECORDED] == S[G_RECORD_ROOM]
        ):
            status = FULL
            break
        S[G_NOW] = c
        at = S[G_WHEEL] + (c & mask) * words
        memory = False
        for i in range(words):
            bits = S[at + i]
            S[at + i] = 0
            while bits:
                unit = (i << 6) + trailing_zeros(bits)
                bits &= bits - 1
                if unit == dram_unit:
                    memory = True
                    continue
                u = S[G_UNITS] + unit * UNIT_WORDS
                flags = evaluate(S, V, LOG, SUNK, SUNK_V, u, c)
                evaluated += 1
                account(S, u, c, flags)
                if flags & (BUSY | ACTIVE):
                    wake(S, unit, c + 1)
        if memory:
            responses(S, D, LOG, c)
        if S[G_PRESENT]:
            interconnect(S, V, M, D, LOG, c)
        c += 1
        if S[G_ERROR]:
            status = FAILED
            break
        if S[G_OPEN] == 0 and S[G_HAD_OPEN]:
            status = DONE
            break
    S[G_NOW] = c
    S[G_EVALS] += evaluated
    return status


advance = njit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)(_advance)

_I1 = types.int64[::1]
_I2 = types.int64[:, ::1]
_V1 = types.uint32[::1]
_V2 = types.uint32[:, ::1]
_SIGNATURE = (_I1, _V1, types.uint16[::1], _I1, _I2, _I2, _V2, types.int64)


def compile_all() -> None:
    """Compile what a run calls, into numba's cache, unless it is there."""
    advance.compile(_SIGNATURE)


def _stamp_sources() -> None:
    """Let the compiled engine depend on all the files it inlines: numba's cache looks at this file
    only.
    """
    folder = Path(__file__).parent
    sources = [
        folder / "engine.py",
        folder / "acts.py",
        folder / "dram.py",
        *sorted((folder / "units").glob("*.py")),
    ]
    text = b"".join(path.read_bytes() for path in sources)
    advance._cache._cache_file._source_stamp = hashlib.sha256(text).hexdigest()


_stamp_sources()
