# type: ignore
"""Attention with a maximum, scores held in a buffer."""

from common import *
from step_py.datatype import *
from step_py.functions import accum_fn, init_fn, map_accum_fn, map_fn
from step_py.ops import *
from step_py.utility_ops import *

M, N, D, tm, tn = 16, 32, 16, 8, 16
q, k, v = values(M, D, seed=1), values(N, D, seed=2), values(N, D, seed=3)
qr = RepeatStatic(graph, load(q, (tm, D), (M // tm,), (1,)), N // tn)
lk, lv = (load(t, (tn, D), (M // tm, N // tn), (0, 1)) for t in (k, v))
qkt = BinaryMap(graph, qr, lk, map_fn.Matmul(weight_transposed=True), False, 1024)
two = Broadcast(graph, qkt, 2)
cols = RetileStreamify(graph, (two, 0), False, chunk=1)
top = Accum(
    graph,
    cols,
    Tile(Float32(), (tm, 1)),
    accum_fn.Max(),
    init_fn.Empty((tm, 1), Float32()),
    1,
    False,
    1024,
)
neg = RepeatStatic(
    graph, UnaryMap(graph, top, map_fn.MulImmediate(constant=-1.0), False, 1024), N // tn
)
held = Streamify(graph, Bufferize(graph, (two, 1), 1), [], 1)
e = UnaryMap(
    graph, BinaryMap(graph, held, neg, map_fn.Add(), False, 1024), map_fn.Exp(), False, 1024
)
eb = Broadcast(graph, e, 2)
num = BinaryMapAccum(
    graph, (eb, 0), lv, map_accum_fn.Matmul(), init_fn.Zero((tm, D), Float32()), 1, False, 1024
)
den = UnaryMap(
    graph,
    Accum(
        graph,
        (eb, 1),
        Tile(Float32(), (tm, tn)),
        accum_fn.Add(),
        init_fn.Zero((tm, tn), Float32()),
        1,
        False,
        1024,
    ),
    map_fn.RowWiseSum(),
    False,
    1024,
)
store(BinaryMap(graph, num, den, map_fn.Div(), True, 1024))
run(depth=64)
s = q @ k.T
s = np.exp(s - s.max(1, keepdims=True))
check("out", (s / s.sum(1, keepdims=True)) @ v)
