"""The board's end of a line in Amaranth's simulator: transfers and answers of a frame."""

import pytest
from amaranth.sim import Simulator
from penstock.hw.host.loader import Loader
from penstock.machine.host_frames import FLAG, MOST_WORDS, Operation, Status, frame, unframed


def answered(request):
    """The answer to a request, and what it has written: word by address."""
    loader = Loader()
    written = {}
    got = bytearray()

    async def host(ctx):
        ctx.set(loader.tx.ready, 1)
        ctx.set(loader.rx.valid, 1)
        for byte in request:
            ctx.set(loader.rx.payload, byte)
            await ctx.tick().until(loader.rx.ready)
        ctx.set(loader.rx.valid, 0)
        await ctx.tick().repeat(4)
        await ctx.tick().until(~loader.busy)
        await ctx.tick().repeat(4)

    async def line(ctx):
        async for _, _, valid, byte in ctx.tick().sample(loader.tx.valid, loader.tx.payload):
            if valid:
                got.append(byte)

    async def memory(ctx):
        bus = loader.bus
        ack = False
        async for _, _, asked, we, word, data in ctx.tick().sample(
            bus.stb, bus.we, bus.adr, bus.dat_w
        ):
            ack = bool(asked and not ack)
            ctx.set(bus.ack, ack)
            ctx.set(bus.dat_r, 4 * word + 1)
            if ack and we:
                written[4 * word] = data

    sim = Simulator(loader)
    sim.add_clock(1e-6)
    sim.add_testbench(host)
    sim.add_testbench(line, background=True)
    sim.add_testbench(memory, background=True)
    sim.run()
    return unframed(bytes(got).strip(bytes([FLAG]))), written


def head(operation, count):
    return 7 | operation << 8 | count << 16


def test_words_are_written_and_read():
    write = head(Operation.WRITE, 2)
    assert answered(frame([write, 64, 5, 6])) == ([write, Status.DONE], {64: 5, 68: 6})
    read = head(Operation.READ, 2)
    assert answered(frame([read, 64])) == ([read, 65, 69, Status.DONE], {})


@pytest.mark.parametrize(
    "words",
    [
        [head(Operation.WRITE, 2), 64, 5],
        [head(Operation.WRITE, 2), 64, 5, 6, 7],
        [head(Operation.WRITE, 0), 64, 5],
        [head(Operation.READ, 2), 64, 5],
        [head(Operation.READ, 2)],
        [head(Operation.READ, MOST_WORDS + 1), 64],
        [head(3, 0), 64],
    ],
    ids=["short", "long", "none", "data to read", "no address", "too many", "no operation"],
)
def test_a_frame_of_another_length_or_operation_is_damaged_and_does_nothing(words):
    answer, written = answered(frame(words))
    assert answer == [words[0] & 0xFFFF, Status.DAMAGED] and not written
