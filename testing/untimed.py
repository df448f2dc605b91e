"""A unit graph without time: what each unit kind does to its beats (docs/timing.md section 3), as
lists.

Written from the contract, not from the front end's evaluator, so that lowering can be checked
before and beside the model.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..machine import arith
from ..machine.image import pack, unpack
from ..machine.unitgraph import UnitGraph
from ..model.functions import lookup


@dataclass(frozen=True)
class Beat:
    value: object  # t x t array, a tuple of beats, or a list of beats (buffer)
    rows: int
    cols: int
    stop: int


class Untimed:
    def __init__(self, graph: UnitGraph, tensors: dict):
        self.g = graph
        self.t = graph.t
        self.done = {}
        self.image = pack(graph, tensors)
        self.inputs = unpack(
            replace(graph, tensors=tuple(replace(x, role="output") for x in graph.tensors)),
            self.image,
        )
        self.outputs = {}

    def run(self) -> dict:
        for u in self.g.units:
            if u.kind == "store":
                self.store(u)
        return self.outputs

    def channel(self, unit, port):
        """Beats on the channel into an input."""
        (c,) = [c for c in self.g.channels if c.dst == (unit.id, port)]
        return self.output(*c.src)

    def output(self, unit_id, port):
        if (unit_id, port) not in self.done:
            u = self.g.units[unit_id]
            result = (
                getattr(self, u.kind)(u, port)
                if u.kind in ("scratchpad", "split")
                else getattr(self, u.kind)(u)
            )
            self.done[unit_id, port] = result
        return self.done[unit_id, port]

    def load(self, u):
        p = u.params
        t = self.t
        out = []
        data = self.inputs[p["tensor"]].astype(np.float32)
        for index in np.ndindex(*p["shape"]):
            row0 = sum(i * s for i, s in zip(index, p["row_step"], strict=False))
            col0 = sum(i * s for i, s in zip(index, p["col_step"], strict=False))
            valid = data[row0 : row0 + p["rows"], col0 : col0 + p["cols"]]
            bands = -(-p["rows"] // t)
            width = -(-p["cols"] // t)
            outer = 0
            for i, n in zip(reversed(index), reversed(p["shape"]), strict=False):
                if i != n - 1:
                    break
                outer += 1
            for b in range(bands):
                for c in range(width):
                    block = valid[b * t : (b + 1) * t, c * t : (c + 1) * t]
                    stop = 0 if c < width - 1 else 1 if b < bands - 1 else 2 + outer
                    out.append(self.tile(block, stop))
        return out

    def tile(self, block, stop):
        value = np.zeros((self.t, self.t), np.float32)
        value[: block.shape[0], : block.shape[1]] = block
        rows, cols = block.shape
        return Beat(value, rows if cols else 0, cols if rows else 0, stop)

    def store(self, u):
        p = u.params
        t = self.t
        (tensor,) = [x for x in self.g.tensors if x.name == p["tensor"]]
        out = np.zeros((tensor.rows, tensor.cols), self.inputs[tensor.name].dtype)
        j = band = c = 0
        width = -(-tensor.cols // p["cols"])
        for beat in self.channel(u, 0):
            r0 = j // width * p["rows"] + band * t
            c0 = j % width * p["cols"] + c * t
            out[r0 : r0 + beat.rows, c0 : c0 + beat.cols] = beat.value[: beat.rows, : beat.cols]
            assert (beat.stop >= 1) == (c == -(-p["cols"] // t) - 1), (
                "a row of tiles ends where the type says"
            )
            c, band, j = (
                (c + 1, band, j)
                if beat.stop == 0
                else (0, band + 1, j)
                if beat.stop == 1
                else (0, 0, j + 1)
            )
        self.outputs[tensor.name] = out

    def broadcast(self, u):
        return self.channel(u, 0)

    def flatten(self, u):
        lo = u.params["lo"]
        hi = u.params["hi"]
        return [
            replace(b, stop=b.stop if b.stop <= lo else lo if b.stop <= hi else b.stop - (hi - lo))
            for b in self.channel(u, 0)
        ]

    def promote(self, u):
        level = u.params["level"]
        out = [
            replace(b, stop=b.stop if b.stop < level else b.stop + 1) for b in self.channel(u, 0)
        ]
        if u.params["outermost"]:
            out = [*self.channel(u, 0)[:-1], replace(out[-1], stop=level)]
        return out

    def reshape(self, u):
        p = u.params
        out = []
        count = 0
        d = p["dim"]
        beats = self.channel(u, 0)
        for i, b in enumerate(beats):
            if b.stop < d:
                out.append(b)
                continue
            count += 1
            over = b.stop > d or (p["pad"] and i == len(beats) - 1)
            end = b.stop + 1 if b.stop > d else d + 1
            if count == p["chunk"]:
                out.append(replace(b, stop=b.stop + 1))
                count = 0
            elif over:
                assert p["pad"]
                out.append(replace(b, stop=d))
                for j in range(p["chunk"] - count):
                    for r in range(p["pad_rows"]):
                        for c in range(p["pad_cols"]):
                            inner = (
                                0 if c < p["pad_cols"] - 1 else 1 if r < p["pad_rows"] - 1 else d
                            )
                            last = (
                                j == p["chunk"] - count - 1
                                and r == p["pad_rows"] - 1
                                and c == p["pad_cols"] - 1
                            )
                            out.append(self.tile(np.zeros((0, 0)), end if last else inner))
                count = 0
            else:
                out.append(b)
        return out

    def repeat(self, u):
        n = u.params["count"]
        return [
            replace(b, stop=b.stop + 1 if i == n - 1 else 0)
            for b in self.channel(u, 0)
            for i in range(n)
        ]

    def zip(self, u):
        a = self.channel(u, 0)
        b = self.channel(u, 1)
        assert [x.stop for x in a] == [x.stop for x in b]
        return [Beat((x, y), 0, 0, x.stop) for x, y in zip(a, b, strict=False)]

    def split(self, u, port):
        return self.channel(u, 0)[port :: u.params["n"]]

    def merge(self, u):
        parts = [self.channel(u, i) for i in range(u.params["n"])]
        return [parts[i % len(parts)][i // len(parts)] for i in range(sum(map(len, parts)))]

    def map(self, u):
        if u.params["tuple_in"]:
            groups = [b.value for b in self.channel(u, 0)]
            stops = [b.stop for b in self.channel(u, 0)]
        else:
            streams = [self.channel(u, i) for i in range(u.params["arity"])]
            groups = list(zip(*streams, strict=True))
            stops = [b.stop for b in streams[0]]
            assert all([b.stop for b in s] == stops for s in streams)
        fn = lookup(u.params["fn"]).reference
        out = []
        for g, stop in zip(groups, stops, strict=False):
            a = g[0]
            value = fn(*[x.value for x in g])
            out.append(self.tile(value[: a.rows, : a.cols], stop))
        return out

    def matmul(self, u):
        a = self.channel(u, 0)
        b = self.channel(u, 1)
        assert [x.stop for x in a] == [x.stop for x in b], "operands meet with equal stops"
        bt = u.params["transposed"]
        product = arith.matmul_bt if bt else arith.matmul
        return [
            Beat(product(x.value, y.value), x.rows, y.rows if bt else y.cols, x.stop)
            for x, y in zip(a, b, strict=True)
        ]

    def accum(self, u):
        mask = u.params["reduce"]
        reduced = [d for d in range(mask.bit_length()) if mask >> d & 1]
        top = reduced[-1]
        out = []
        acc = {}
        outstop = {}
        idx = 0
        start = dict.fromkeys(reduced, 0)
        first = dict.fromkeys(reduced, True)
        for b in self.channel(u, 0):
            s = b.stop
            assert idx < u.params["depth"]
            acc[idx] = (
                b
                if all(first.values())
                else replace(acc[idx], value=arith.add(acc[idx].value, b.value))
            )
            outstop[idx] = sum(1 for d in range(s) if d not in reduced)
            here = idx
            if s <= top and s in reduced:
                idx = start[s]
                first[s] = False
            else:
                idx += 1
            for j in reduced:
                if j < s:
                    first[j] = True
                    start[j] = idx
            if s > top:
                out += [replace(acc[i], stop=outstop[i]) for i in range(here + 1)]
                idx = 0
                start = dict.fromkeys(reduced, 0)
        return out

    def scratchpad(self, u, port):
        p = u.params
        if port < len(p["writers"]):
            rank = p["writers"][port]["rank"]
            out = []
            held = []
            for b in self.channel(u, port):
                held.append(b)
                if b.stop >= rank:
                    assert len(held) <= p["pages"] * p["frames"]
                    out.append(Beat(held, 0, 0, b.stop - rank))
                    held = []
            return out
        reader = port - len(p["writers"])
        rank = p["readers"][reader]["rank"]
        repeat = p["repeat"][reader]
        out = []
        for ref in self.channel(u, port):
            for i in range(max(1, repeat)):
                last = rank if i < repeat - 1 else rank + ref.stop + (1 if repeat else 0)
                out += [*ref.value[:-1], replace(ref.value[-1], stop=last)]
        return out
