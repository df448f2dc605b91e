"""Parts common to the tops of a fabric and of an array: probes, memory ports, counters."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    Mux,
    ResetSignal,
    Signal,
    Value,
    ValueLike,
)
from amaranth.lib import wiring

from ..machine.beat import Payload, beat_bits
from .export.place import wire

STATS = ("busy", "blocked", "starved")


def channel_probe(
    number: ValueLike, payload: Payload, cycle: Value, given: Any, taken: Any, places: ValueLike
) -> Instance:
    """Records the beats that a FIFO accepts (``given``) and gives (``taken``), and its places; the
    bench defines it.
    """
    return Instance(
        "penstock_probe",
        p_WIDTH=beat_bits(payload),
        i_id=_word(number),
        i_clk=ClockSignal(),
        i_rst=ResetSignal(),
        i_cycle=cycle,
        i_w_valid=given.valid,
        i_w_ready=given.ready,
        i_r_valid=taken.valid,
        i_r_ready=taken.ready,
        i_places=_word(places),
        i_beat=wire(Value.cast(given.payload)),
        i_r_beat=wire(Value.cast(taken.payload)),
    )


def fault_probe(number: ValueLike, cycle: Value, error: Value) -> Instance:
    """Records whose fault it is; the bench defines it."""
    return Instance(
        "penstock_fault_probe",
        i_id=_word(number),
        i_clk=ClockSignal(),
        i_rst=ResetSignal(),
        i_cycle=cycle,
        i_error=error,
    )


def post_probe(number: ValueLike, cycle: Value, post: Any) -> Instance:
    """Records changes of reference counts; the bench defines it."""
    return Instance(
        "penstock_post_probe",
        p_PAGE=len(post.page),
        p_DELTA=len(post.delta),
        i_id=_word(number),
        i_clk=ClockSignal(),
        i_rst=ResetSignal(),
        i_cycle=cycle,
        i_valid=post.valid,
        i_page=post.page,
        i_delta=post.delta,
    )


def _word(number: ValueLike) -> Value:
    """A number as 32 bits."""
    return Const(number, 32) if isinstance(number, int) else Cat(number, Const(0, 32))[:32]


def memory_ports(m: Module, top: wiring.Component, memory: wiring.Component) -> None:
    """Join the ``mem_`` ports of the top and of its interconnect."""
    for name, member in memory.signature.members.items():
        if name.startswith("mem_"):
            here = getattr(top, name)
            there = getattr(memory, name)
            m.d.comb += there.eq(here) if member.flow == wiring.In else here.eq(there)


def observe(
    m: Module, top: Any, parts: Sequence[Any], errors: Sequence[Value], *, counters: bool
) -> None:
    """Drive ``cycle``, ``done``, ``error`` and ``stat_data`` of a top.

    What happens in a cycle is registered beside its part and counted in the next, so that no unit's
    logic is on the way to a counter. What is read has both.

    ``parts``: its units or slots, in the order of their counters; ``errors``: theirs, and the
    interconnect's; ``counters``: whether there are any.
    """
    over = Signal()
    m.d.comb += top.done.eq(over | Cat(part.done for part in parts).all())
    m.d.sync += [top.cycle.eq(top.cycle + 1), over.eq(top.done)]
    _keep_faults(m, top, errors)
    if counters:
        _count(m, top, parts, over)


def _count(m: Module, top: Any, parts: Sequence[Any], over: Signal) -> None:
    """Drive ``stat_data``, until the run is over.

    A word has 33 bits: what is counted, and what is to be added to it.
    """
    words = []
    for k, part in enumerate(parts):
        own = []
        events = (part.busy, part.blocked, ~(part.busy | part.blocked))
        for name, event in zip(STATS, events, strict=True):
            late = Signal(name=f"late{k}_{name}")
            count = Signal(32, name=f"stat{k}_{name}")
            m.d.sync += late.eq(event & ~over)
            with m.If(late):
                m.d.sync += count.eq(count + 1)
            own.append(Cat(count, late))
        if getattr(part, "peak", None) is not None:
            own.append(Cat(part.peak, Const(0, 33 - len(part.peak))))
        words.append(_chosen(own, top.stat_addr[:2]))
    found = Signal(33)
    m.d.comb += found.eq(_chosen(words, top.stat_addr[2:]))
    m.d.comb += top.stat_data.eq(found[:32] + found[32])


def _chosen(words: Sequence[Value], number: Value) -> Value:
    """The word of a number; 0 where there is none.

    A tree, which lies beside what it reads: a switch of a case a word meets in one place, where an
    FPGA has too few wires for it.
    """
    level = list(words)
    for bit in number:
        pairs = zip(level[::2], [*level[1::2], Const(0, 33)], strict=False)
        level = [Mux(bit, high, low) for low, high in pairs]
    return level[0]


def _keep_faults(m: Module, top: Any, errors: Sequence[Value]) -> None:
    """Drive ``error``: every fault so far, of any part."""
    kept = Signal.like(top.error)
    late = [Signal.like(top.error, name=f"late{k}_error") for k in range(len(errors))]
    m.d.sync += kept.eq(top.error)
    m.d.sync += [register.eq(error) for register, error in zip(late, errors, strict=True)]
    every = Cat(Cat(register[bit] for register in late).any() for bit in range(len(top.error)))
    m.d.comb += top.error.eq(kept | every)
