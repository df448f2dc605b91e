"""Sources and sinks."""

from __future__ import annotations

from .state import *

O_BEATS, O_NEXT, O_RELEASE, O_BEAT = range(
    U_OWN, U_OWN + 4
)  # O_BEAT: slot-like records, one a beat


@fast
def source(S, V, LOG, u, c):
    if S[u + O_NEXT] == S[u + O_BEATS]:
        return 0
    release = S[S[u + O_RELEASE] + S[u + O_NEXT]]
    if release > c:
        wake(S, S[u + U_ID], release)
        return 0
    out = S[S[u + U_OUT]]
    if not ready(S, out, c):
        return BLOCKED
    beat = S[u + O_BEAT] + S[u + O_NEXT] * S[out + C_SLOT_WORDS]
    forward(S, V, LOG, beat, out, c, S[beat + X_STOP])
    S[u + O_NEXT] += 1
    return BUSY


N_RELEASES, N_NEXT, N_RELEASE, N_SEEN, N_PAD = range(U_OWN, U_OWN + 5)


@fast
def sink(S, V, LOG, SUNK, SUNK_V, u, c):
    source = S[S[u + U_IN]]
    slot = head(S, source, c)
    if slot < 0:
        return 0
    if is_done(S, slot) and not S[u + N_SEEN]:
        S[u + N_SEEN] = 1
        S[G_OPEN] -= 1
    if S[u + N_NEXT] < S[u + N_RELEASES]:
        release = S[S[u + N_RELEASE] + S[u + N_NEXT]]
        if release > c:
            wake(S, S[u + U_ID], release)
            return 0
    n = S[G_SUNK]
    S[G_SUNK] = n + 1
    SUNK[n, 0] = S[u + U_ID]
    SUNK[n, 1] = c
    SUNK[n, 2] = S[slot + X_STOP]
    SUNK[n, 3] = S[slot + X_DATA]
    for i in range(S[source + C_META]):
        SUNK[n, 4 + i] = S[slot + X_META + i] * S[slot + X_DATA]
    if S[G_VALUES]:
        for i in range(S[source + C_VALUES]):
            SUNK_V[n, i] = V[S[slot + X_VALUE] + i]
    S[u + N_NEXT] += 1
    if S[slot + X_DATA]:
        post(S, S[u + N_PAD], S[slot + X_META], -1)
    take(S, LOG, source, c)
    return BUSY
