"""Copying a stream to several consumers."""

from amaranth.hdl import Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import Out

from ...machine.beat import BufferRef, Payload
from ...machine.config import Machine
from ...machine.limits import DELTA_BITS
from .hop import Hop


def post_layout(page_bits: int) -> data.StructLayout:
    """A change of the references to the buffer that starts at ``page``; ``delta`` is signed."""
    return data.StructLayout({"valid": 1, "page": page_bits, "delta": signed(DELTA_BITS)})


def reference_of(payload: Payload, machine: Machine, configured: bool, kind: str) -> BufferRef:
    """The reference that a unit with a ``scratchpad`` finds in a payload; in a slot it is in the
    low bits of whatever its plane carries.
    """
    if isinstance(payload, BufferRef):
        return payload
    if configured:
        return BufferRef(machine.pages)
    raise ValueError(f"Payload of a {kind} with a scratchpad must be a BufferRef, not {payload!r}")


def page_of(beat: data.View, reference: BufferRef) -> Value:
    """The page of a reference in the low bits of a beat."""
    return beat.as_value()[: reference.page_bits]


class Broadcast(Hop):
    """Copies each beat to ``n`` outputs.

    Members
    -------
    post : Out(post_layout(page_bits))
        The n - 1 references added, in the cycle of the copy; only where ``scratchpad`` is not None.

    Timing
    ------
    L = 0, II = 1: fires when a beat is visible and all outputs have a free slot, so
    ``copies_k.valid`` depends on the other outputs' ``ready``: an output may not wait for ``valid``
    before it is ready (a :class:`Fifo` never does). Source: docs/timing.md section 3,
    ``broadcast``.
    """

    kind = "broadcast"

    def __init__(self, *, params, payloads, config, configured=False, **built):
        n = params["n"]
        if not 1 <= n <= 2 ** (DELTA_BITS - 1):
            raise ValueError(
                f"Number of outputs must be from 1 to {2 ** (DELTA_BITS - 1)}, not {n!r}"
            )
        members = {}
        self._posts = params.get("scratchpad") is not None
        if self._posts:
            self._held = reference_of(payloads.inputs[0], config, configured, self.kind)
            members["post"] = Out(post_layout(self._held.page_bits))
        built |= {"config": config, "configured": configured}
        super().__init__(params=params, payloads=payloads, members=members, **built)

    def elaborate(self, platform):
        m = super().elaborate(platform)
        if self._posts:
            beat = self.data.payload
            copied = self.data.valid & self.data.ready & beat.data
            m.d.comb += [
                self.post.valid.eq(copied & self.settings.scratchpad),
                self.post.page.eq(page_of(beat, self._held)),
                self.post.delta.eq(sum(self.settings.n) - 1),
            ]
        return m
