"""A bus behind a serial line."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .loader import Loader
from .uart import UartReceiver, UartTransmitter
from .wishbone import Wishbone


class SerialBus(wiring.Component):
    """Executes requests of frames from a serial line on a bus.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    bus : Out(Wishbone())
    busy : Out(1)
        A request is being done, or its answer is on its way.

    Timing
    ------
    That of its parts: :class:`.UartReceiver`, :class:`.Loader` and
    :class:`.UartTransmitter`.
    """

    def __init__(self, *, divisor: int):
        self._receiver = UartReceiver(divisor=divisor)
        self._transmitter = UartTransmitter(divisor=divisor)
        super().__init__(
            {"rx": In(1, init=1), "tx": Out(1, init=1), "bus": Out(Wishbone()), "busy": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = self._receiver
        m.submodules.transmitter = transmitter = self._transmitter
        m.submodules.loader = loader = Loader()
        wiring.connect(m, receiver.bytes, loader.rx)
        wiring.connect(m, loader.tx, transmitter.bytes)
        wiring.connect(m, loader.bus, wiring.flipped(self.bus))
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            self.busy.eq(loader.busy | ~transmitter.bytes.ready),
        ]
        return m
