"""The values that an image computes, bit for bit: the dataflow is read back from its memories, then
evaluated in the order of writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...machine import arith
from ...machine.errors import RunError
from ..core.config import WRITE_ALU
from ..core.dataflow import DataflowGraph
from ..core.image import DynamicImage, HybridImage, Image, StaticImage
from ..core.ops import ARITY, Op, format_of
from .routes import routes

if TYPE_CHECKING:
    from .simulate import Run

_ARITY = np.array([ARITY[op] for op in Op], np.int8)


def values(image: Image, run: Run) -> np.ndarray:
    """uint64 [graph nodes]: bits of every node's value after a run of
    :func:`.simulate`; raises RunError where the memories make no
    dataflow graph.
    """
    if isinstance(image, StaticImage):
        op, a, b = _static(image)
    else:
        assert isinstance(image, DynamicImage)
        if isinstance(image, HybridImage) and image.decides:
            return walked(image)[1][image.base[image.node_pe] + image.node_address]
        if image.conditional or isinstance(image, HybridImage):
            return computed(image)[0][image.base[image.node_pe] + image.node_address]
        op, a, b = _dynamic(image)
    f = format_of(image.overlay.format)
    order = np.lexsort((np.arange(len(op)), run.written))
    new = np.empty(len(op) + 1, np.int64)
    new[order] = np.arange(len(op))
    new[-1] = -1
    start = image.value.astype(f.word).view(f.dtype)
    code = np.where(run.written < 0, int(Op.CONST), op)[order]
    arity = _ARITY[code]
    a = np.where(arity > 0, new[a[order]], -1)
    b = np.where(arity > 1, new[b[order]], -1)
    if (late := (a >= np.arange(len(a))) | (b >= np.arange(len(a)))).any():
        raise RunError(
            f"local address {int(order[np.argmax(late)])} is computed before its operand",
            "overlay image",
        )
    graph = DataflowGraph(code, a, b, start[order], {}, [len(op) - 1], title="image")
    out = graph.evaluate(fmt=f.name).view(f.word).astype(np.uint64)
    # sources keep their very bits
    out = np.where(code == Op.CONST, image.value[order], out)
    return out[new[image.base[image.node_pe] + image.node_address]]


def computed(image: DynamicImage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values by local address: bits of the value, whether it fires, whether its value is sent.

    The order is that of the dataflow, for what fires has to be known before a run.
    """
    op, a, b = _dynamic(image)
    if isinstance(image, HybridImage):
        scheduled = _static(image)
        static = scheduled[1] >= 0
        op, a, b = (np.where(static, *sides) for sides in zip(scheduled, (op, a, b), strict=True))
    f = format_of(image.overlay.format)
    level = _depths(op, a, b)
    order = np.argsort(level, kind="stable")
    new = np.append(np.empty(len(op), np.int64), -1)
    new[order] = np.arange(len(op))
    code = np.where(op < Op.ADD, int(Op.CONST), op)[order]
    start = image.value.astype(f.word).view(f.dtype)[order]
    graph = DataflowGraph(code, new[a[order]], new[b[order]], start, {}, [0], title="image")
    found = graph.evaluate(fmt=f.name)
    fires, sends = graph.regions.taken(found)
    back = new[:-1]
    bits = np.where(op < Op.ADD, image.value, found.view(f.word).astype(np.uint64)[back])
    return bits, fires[back] & (op >= Op.ADD), sends[back]


def walked(image: HybridImage) -> tuple[np.ndarray, np.ndarray]:
    """Contexts of the segments that a run takes, one after the other, and every local address' bits
    at its end.
    """
    f = format_of(image.overlay.format)
    at = 0
    taken = np.zeros(0, np.int64)
    state = image.value
    while image.segment["length"][at]:
        first, length, following = (int(words[at]) for words in image.segment.values())
        here = np.arange(first, first + length)
        taken = np.concatenate([taken, here])
        state = _after(image.taken(here), state)
        pe, cycle = np.nonzero(image.context["decide"][:, here])
        sent = state[image.base[pe] + image.context["send"][pe, here[cycle]]]
        open_ = arith.canonical(sent.astype(f.word).view(f.dtype)) != 0
        bit = image.context["decide"][pe, here[cycle]].astype(np.int64) - 1
        at = following | int((open_.astype(np.int64) << bit).sum())
    return taken, state


def _after(image: HybridImage, state: np.ndarray) -> np.ndarray:
    """Bits by local address after a segment that begins with those of ``state``."""
    f = format_of(image.overlay.format)
    op, a, b = _static(image)
    level = _depths(op, a, b)
    order = np.argsort(level, kind="stable")
    new = np.append(np.empty(len(op), np.int64), -1)
    new[order] = np.arange(len(op))
    code = np.where(op < Op.ADD, int(Op.CONST), op)[order]
    start = state.astype(f.word).view(f.dtype)[order]
    graph = DataflowGraph(code, new[a[order]], new[b[order]], start, {}, [0], title="image")
    found = graph.evaluate(fmt=f.name).view(f.word).astype(np.uint64)[new[:-1]]
    after = np.where(op < Op.ADD, state, found)
    received = routes(image)
    after[received.target] = after[received.origin]
    return after


def _depths(op: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Operations before each address' own; raises RunError for a circle."""
    level = np.zeros(len(op) + 1, np.int64)
    while True:
        deeper = np.where(_ARITY[op] > 0, np.maximum(level[a], level[b]) + 1, 0)
        if (deeper == level[:-1]).all():
            return deeper
        level[:-1] = deeper
        if deeper.max() > len(op):
            raise RunError("a node depends on itself", "overlay image")


def carried(image: DynamicImage, tokens: np.ndarray) -> np.ndarray:
    """Local addresses of the values that tokens (:data:`~.state.TOKEN`) carry."""
    _, a, b = _dynamic(image)
    at = image.base[tokens["pe"]] + tokens["node"]
    return np.where(tokens["slot"] & 1 != 0, b[at], a[at])


def _dynamic(image: DynamicImage):
    """Operation and operands by local address: tokens lead from the fan-out lists, and on through
    the chains.
    """
    op = image.op
    operand = np.full((2, len(op)), -1, np.int64)
    pes = image.overlay.pes
    sender_pe = np.repeat(np.arange(pes), image.senders)
    local = np.arange(len(sender_pe)) - image.first_base[sender_pe]
    count = np.where(image.first["last"] == 1, 0, _list_lengths(image, sender_pe))
    entry = np.repeat(image.rest_base[sender_pe] + image.first["rest"], count) + _within(count)
    sender = image.base[sender_pe] + local
    near = np.flatnonzero(image.near["node"] >= 0)
    near_pe = np.repeat(np.arange(pes), image.nears)[near]
    own = image.base[near_pe]
    token = np.concatenate([image.first, image.rest[entry], image.near[near]])
    producer = np.concatenate(
        [sender, np.repeat(sender, count), own + near - image.near_base[near_pe]]
    )
    base = image.base[token["pe"]]
    base[len(base) - len(near) :] = own
    pair = np.flatnonzero(token["node2"] >= 0)
    node = np.concatenate([token["node"], token["node2"][pair]])
    slot = np.concatenate([token["slot"], token["slot2"][pair]])
    base = np.concatenate([base, base[pair]])
    producer = np.concatenate([producer, producer[pair]])
    while len(base):
        right = (slot & 1).astype(np.int64)
        operand[right, base + node] = producer
        if not len(image.chain):
            break
        follows = image.chain[2 * (base + node) + right]
        more = np.flatnonzero(follows["node"] >= 0)
        node = follows["node"][more]
        slot = follows["slot"][more]
        producer = producer[more]
        base = base[more]
    return op, operand[0], operand[1]


def _list_lengths(image: DynamicImage, sender_pe: np.ndarray) -> np.ndarray:
    """Entries behind each sender's first one (only meaningful where there are any)."""
    ends = np.flatnonzero(image.rest["last"])
    begin = image.rest_base[sender_pe] + image.first["rest"]
    if not len(ends):
        return np.zeros(len(begin), np.int64)
    return ends[np.minimum(np.searchsorted(ends, begin), len(ends) - 1)] - begin + 1


def _within(count: np.ndarray) -> np.ndarray:
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def _static(image: StaticImage | HybridImage):
    """Operation and operands by local address: contexts name addresses; a received one leads back
    through the switches to what was sent.
    """
    base = image.base
    latency = image.overlay.latencies()
    pe, cycle = np.nonzero(latency[image.context["op"]])
    code = image.context["op"][pe, cycle]
    done = cycle + latency[code] - 1
    if (
        done.max(initial=-1) >= image.length
        or (image.context["write"][pe, done] != WRITE_ALU).any()
    ):
        raise RunError("an operation is issued whose result is not written", "overlay image")
    at = base[pe] + image.context["address"][pe, done]
    # where each address' value was made
    found = routes(image)
    origin = np.arange(base[-1])
    origin[found.target] = found.origin
    op = np.zeros(base[-1], np.uint8)
    a = np.full(base[-1], -1, np.int64)
    b = np.full(base[-1], -1, np.int64)
    op[at] = code
    a[at] = origin[base[pe] + image.context["a"][pe, cycle]]
    b[at] = np.where(_ARITY[code] > 1, origin[base[pe] + image.context["b"][pe, cycle]], -1)
    return op, a, b
