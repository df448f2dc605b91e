"""Values some cycles later."""

from amaranth.hdl import Module, Signal, Value


def delay(m: Module, value: Value, cycles: int, *, name: str, reset_less: bool = False) -> Value:
    """``value``, ``cycles`` cycles later."""
    for k in range(cycles):
        register = Signal(value.shape(), name=f"{name}{k + 1}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value
