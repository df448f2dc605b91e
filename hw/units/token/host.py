"""Surroundings of a token PE: the words that the host loads, and the signals that a probe sees."""

from amaranth.lib import data

from ....overlay.core.config import MEMORIES, Overlay, Sizes, bits_for, memories


def host_layout(overlay: Overlay, sizes: Sizes) -> data.StructLayout:
    """``valid``, ``memory`` (its number in
    :data:`~penstock.overlay.core.config.MEMORIES`), ``address`` and
    ``data``, wide enough for every loaded memory.
    """
    loaded = [memory for memory in memories(overlay, sizes).values() if memory.loaded]
    return data.StructLayout(
        {
            "valid": 1,
            "memory": bits_for(len(MEMORIES[overlay.pe])),
            "address": max(bits_for(memory.depth) for memory in loaded),
            "data": max(memory.layout.width for memory in loaded),
        }
    )


def probe_layout(overlay: Overlay, sizes: Sizes) -> data.StructLayout:
    """A write to the value memory: ``valid``, ``address`` and ``data``."""
    return data.StructLayout(
        {
            "valid": 1,
            "address": bits_for(memories(overlay, sizes)["value"].depth),
            "data": overlay.width,
        }
    )
