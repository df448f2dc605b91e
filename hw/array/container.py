"""Between what a plane carries and what a unit is built for: wiring, and where a register says the
element type, a choice of two.
"""

from amaranth.hdl import Cat, Const, Mux, Shape, Value, unsigned

from ...machine.array.variants import Pin, container
from ...machine.beat import STOP_BITS, Tile, Tuple, beat_bits

HALF = 16
WORD = 32


def beat_shape(plane: str, t: int) -> Shape:
    """The bits of a plane's beat, without fields: Amaranth makes a value for each field of a
    signal, and an array has thousands of beats.
    """
    return unsigned(beat_bits(container(plane, t)))


def taken(beat: Value, pin: Pin, t: int, register: Value | None) -> Value:
    """The bits of a plane's beat as the beat of a pin's payload, by the pin's register if it has
    one.
    """
    own = pin.payload
    tail = beat[-STOP_BITS - 1 :]
    if not isinstance(own, Tile):
        return Cat(beat[: own.bits], tail)
    words, extent = _parts(beat, t)
    if own.dtype == "bf16":
        elements = Cat(word[:HALF] for word in words)
    elif register is not None:
        elements = Cat(Mux(register, Cat(Const(0, HALF), word[:HALF]), word) for word in words)
    else:
        elements = Cat(words)
    return Cat(elements, extent, tail)


def wrapped(beat: Value, pin: Pin, t: int, register: Value | None) -> Value:
    """The bits of a beat of a pin's payload as the plane's beat."""
    own = pin.payload
    tail = beat[-STOP_BITS - 1 :]
    if pin.joined:
        assert register is not None
        return Cat(_joined(beat, pin, register)[: container(pin.plane, t).bits], tail)
    if not isinstance(own, Tile):
        more = container(pin.plane, t).bits - own.bits
        return Cat(beat[: own.bits], Const(0, more), tail)
    bits = own.element_bits
    elements = [beat[k * bits : (k + 1) * bits] for k in range(t * t)]
    extent = beat[t * t * bits : -STOP_BITS - 1]
    if own.dtype == "bf16":
        words = Cat(Cat(element, Const(0, HALF)) for element in elements)
    elif register is not None:
        words = Cat(Mux(register, Cat(x[HALF:], Const(0, HALF)), x) for x in elements)
    else:
        words = Cat(elements)
    return Cat(words, extent, tail)


def _joined(beat: Value, pin: Pin, low: Value) -> Value:
    """Two members, the second from bit ``low`` on; what is above the first is 0."""
    assert isinstance(pin.payload, Tuple)
    first, second = (member.bits for member in pin.payload.members)
    return beat[:first] | (beat[first : first + second] << low)


def _parts(beat: Value, t: int) -> tuple[list[Value], Value]:
    """The words of a tile's beat, and its valid rows and columns."""
    words = [beat[k * WORD : (k + 1) * WORD] for k in range(t * t)]
    return words, beat[t * t * WORD : -STOP_BITS - 1]
