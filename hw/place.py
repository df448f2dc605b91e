"""Modules that occur many times, elaborated in place or exported once.

Amaranth emits one module per instance, which is right for simulation and proofs and far too much for an array of
multipliers. A parent writes ``m.submodules.x = place(component, "name")``: that is the component itself, unless a
:class:`Library` is open, where it is an ``Instance`` of the module ``name``, converted the first time it is met.
"""

from collections.abc import Callable
from contextvars import ContextVar
from hashlib import sha256

from amaranth.hdl import ClockSignal, Elaboratable, Instance, ResetSignal, Value
from amaranth.lib import wiring


__all__ = ["Library", "place", "module_name", "ports_of"]

_open: ContextVar["Library | None"] = ContextVar("penstock_library", default=None)


def ports_of(component: wiring.Component) -> dict[str, tuple[Value, wiring.Flow]]:
    """Ports by Verilog name: member names joined with ``_``."""
    return {"_".join(map(str, path)): (Value.cast(value), member.flow)
            for path, member, value in component.signature.flatten(component)}


def module_name(kind: str, *key: object) -> str:
    """A module name that is the same for equal ``key`` in every run: ``penstock_<kind>_<digest>``."""
    return f"penstock_{kind}_{sha256(repr(key).encode()).hexdigest()[:8]}"


class Library:
    """Modules converted so far; a context manager within which :func:`place` makes instances.

    Parameters
    ----------
    convert : callable
        ``(component, name) -> RTLIL``.

    Attributes
    ----------
    modules : dict
        Module name -> RTLIL, in the order of completion (a module comes after those it instantiates).
    """

    def __init__(self, convert: Callable[[wiring.Component, str], str]):
        self.modules: dict[str, str] = {}
        self._clocked: dict[str, bool] = {}
        self._convert = convert

    def __enter__(self):
        self._token = _open.set(self)
        return self

    def __exit__(self, *_):
        _open.reset(self._token)

    def add(self, component: wiring.Component, name: str) -> bool:
        """Convert ``component`` as module ``name`` unless it is there; whether it has a clock."""
        if name not in self.modules:
            text = self._convert(component, name)
            self.modules[name] = text
            self._clocked[name] = " \\clk\n" in text.split(f"module \\{name}\n")[1].split("\nend\n")[0]
        else:
            _silence(component)
        return self._clocked[name]


class _Placed(Elaboratable):
    def __init__(self, component: wiring.Component, name: str):
        self._component, self._name = component, name

    def elaborate(self, platform):
        library = _open.get()
        clocked = library.add(self._component, self._name)
        ports = {("i_" if flow == wiring.In else "o_") + port: value
                 for port, (value, flow) in ports_of(self._component).items() if len(value)}
        if clocked:
            ports |= {"i_clk": ClockSignal(), "i_rst": ResetSignal(allow_reset_less=True)}
        return Instance(self._name, **ports)


def _silence(component: Elaboratable) -> None:
    """An instance of a module that is there already is never elaborated, and that is no mistake."""
    component._MustUse__silence = True
    for part in vars(component).values():
        for one in part.values() if isinstance(part, dict) else (part,):
            if isinstance(one, Elaboratable) and not one._MustUse__silence:
                _silence(one)


def place(component: wiring.Component, name: str) -> Elaboratable:
    """``component``, or while a library is open an instance of its module ``name``."""
    return component if _open.get() is None else _Placed(component, name)
