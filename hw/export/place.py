"""Modules that occur many times, elaborated in place or exported once.

Amaranth emits one module per instance, which is right for simulation and proofs and far too much
for an array of multipliers. A parent writes ``m.submodules.x = place(component, key, "x")``: that
is the component itself. While a :class:`Library` is open, it is an ``Instance`` of the module
``key``, converted the first time it is met.
"""

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar

from amaranth.hdl import ClockSignal, Elaboratable, Instance, ResetSignal, Signal, Value
from amaranth.lib import data, wiring

from .internals import SignalDict
from .module_key import ModuleKey

Modules = dict[str, tuple[ModuleKey, str]]
"""Name -> (key, RTLIL), in the order of completion."""

TOP = "attribute \\top 1\n"
"""A line of every module that Amaranth converts; it leaves with the top alone, or Yosys takes
another module for it.
"""

THIN = "thin"
"""Attribute of a thin wire: its bits."""
WIRE = re.compile(r"^  wire width 1 .*\\thin(?P<bits>\d+)__\w+$", re.M)
DECLARED = re.compile(
    rf"^  \(\* {THIN} = (?:32'd)?(?P<bits>\d+) \*\)\n(?P<others>(?:  \(\*.*\n)*)"
    r"(?P<declared>(?:  (?:input|output) .*\n)?  wire .*\n)",
    re.M,
)

_open: ContextVar["Library | None"] = ContextVar("penstock_library", default=None)


def ports_of(component: wiring.Component) -> dict[str, tuple[Value, wiring.Flow]]:
    """Ports by Verilog name: member names joined with ``_``."""
    return {
        "_".join(map(str, path)): (Value.cast(value), member.flow)
        for path, member, value in component.signature.flatten(component)
    }


class Library:
    """Modules converted so far; a context manager within which
    :func:`place` makes instances.

    Parameters
    ----------
    convert : callable
        ``(component, name) -> RTLIL``.
    store : MutableMapping
        Modules of earlier exports: name of the key -> the module and all that it instantiates. What
        it has is not elaborated again; the caller answers for its being of the same sources.
    step : callable
        Called with a line after each module.

    Attributes
    ----------
    modules : dict
        Module name -> RTLIL, in the order of completion (a module comes after those it
        instantiates).
    keys : dict[str, ModuleKey]
        Module name -> key, of all but the top.
    wires : SignalDict
        Wide signal -> the thin wire in its place: those that the component which is converted
        lists as ``hands_on``, since they go from instances and ports to others, and none of its own
        logic reads or drives them.
    """

    def __init__(
        self,
        convert: Callable[[wiring.Component, str], str],
        store: MutableMapping[str, Modules] | None = None,
        step: Callable[[str], None] = lambda _line: None,
    ):
        self.modules: dict[str, str] = {}
        self.keys: dict[str, ModuleKey] = {}
        self.wires: SignalDict[Signal] = SignalDict()
        self._clocked: dict[str, bool] = {}
        self._convert_alone = convert
        self._store = {} if store is None else store
        self._step = step

    def __enter__(self):
        self._token = _open.set(self)
        return self

    def __exit__(self, *_):
        _open.reset(self._token)

    def top(self, component: wiring.Component, name: str) -> None:
        """Convert ``component`` as module ``name``; what it places comes before it."""
        self.modules[name] = self._convert(component, name)

    def add(self, component: wiring.Component, key: ModuleKey) -> bool:
        """Convert ``component`` as module ``key`` unless it is there or stored; whether it has a
        clock.
        """
        name = key.name
        if name in self.modules:
            silence(component)
        elif (found := self._store.get(name)) is not None:
            silence(component)
            for part, (part_key, text) in found.items():
                self.modules.setdefault(part, text)
                self.keys.setdefault(part, part_key)
        else:
            self._step(f"{key.kind}, {len(self.modules)} modules done")
            self.modules[name] = self._convert(component, name).replace(TOP, "")
            self.keys[name] = key
            self._store[name] = self._whole(name)
            self._step(f"{len(self.modules)} modules done")
        if name not in self._clocked:
            self._clocked[name] = (
                " \\clk\n" in self.modules[name].split(f"module \\{name}\n")[1].split("\nend\n")[0]
            )
        return self._clocked[name]

    def _convert(self, component: wiring.Component, name: str) -> str:
        """A component's RTLIL, with thin wires in place of the wide signals that it hands on."""
        outer = self.wires
        self.wires = SignalDict()
        between_instances(getattr(component, "hands_on", ()))
        try:
            return _named(self._convert_alone(component, name))
        finally:
            self.wires = outer

    def _whole(self, name: str) -> Modules:
        """A module after all that it instantiates."""
        cells = dict.fromkeys(re.findall(r"^\s*cell \\(\S+) ", self.modules[name], re.M))
        parts = {
            n: part
            for cell in cells
            if cell != name and cell in self.modules
            for n, part in self._whole(cell).items()
        }
        return parts | {name: (self.keys[name], self.modules[name])}


class _Placed(Elaboratable):
    def __init__(self, library: Library, component: wiring.Component, key: ModuleKey, label: str):
        self._library = library
        self._component = component
        self._key = key
        self._label = label

    def elaborate(self, platform):
        clocked = self._library.add(self._component, self._key)
        _label(self._component, self._label)
        ports = {
            ("i_" if flow == wiring.In else "o_") + port: wire(value)
            for port, (value, flow) in ports_of(self._component).items()
            if len(value)
        }
        if clocked:
            ports |= {"i_clk": ClockSignal(), "i_rst": ResetSignal(allow_reset_less=True)}
        return Instance(self._key.name, **ports)


def instance(
    component: wiring.Component,
    key: ModuleKey,
    ports: Mapping[str, Value],
    clock: Mapping[str, Value],
) -> Instance:
    """An instance of a component's module, which the open library has or gets.

    Parameters
    ----------
    component, key
        As of :func:`place`; the component's own ports are joined to nothing.
    ports
        Values at its ports, by direction and Verilog name: ``i_data_valid``. Those of no bits, and
        those that are not named, are left out.
    clock
        The same for clock and reset, used if the module has them.

    Raises
    ------
    RuntimeError
        No library is open: only an export has instances.
    """
    library = _open.get()
    if library is None:
        raise RuntimeError("this component can only be exported (penstock.hw.export)")
    clocked = library.add(component, key)
    taken = {name: value for name, value in ports.items() if len(Value.cast(value))}
    return Instance(key.name, **taken, **(clock if clocked else {}))


def thin(bits: int, name: str) -> Signal:
    """A wire of ``bits`` from one instance to others, which Amaranth sees as a single bit.

    It spends 5 to 10 microseconds on each bit of what it converts, and an array has millions
    between its parts. An export gives the wire its bits; a thin wire has one driver, an instance,
    and no logic may read it.
    """
    return Signal(1, name=f"thin{bits}__{name}")


def between_instances(signals: Iterable[Signal]) -> None:
    """Carry wide signals by thin wires of their names while the component that lists them as
    ``hands_on``, or one around it, is converted.
    """
    if library := _open.get():
        for signal in signals:
            if signal not in library.wires:
                library.wires[signal] = thin(len(signal), signal.name)


def wire(value: Value) -> Value:
    """The thin wire in a signal's place, or the value itself."""
    library = _open.get()
    if library is None or not isinstance(value, Signal):
        return value
    return library.wires.get(value, value)


def _named(text: str) -> str:
    """RTLIL in which thin wires have their names, and their bits as attribute `THIN`."""
    text = WIRE.sub(rf"  attribute \\{THIN} \g<bits>\n\g<0>", text)
    return re.sub(r"\\thin\d+__(\w+)(?: \[0\])?", r"\\\1", text)


def widened(verilog: str) -> str:
    """Verilog in which thin wires have their bits."""
    return DECLARED.sub(_with_bits, verilog)


def _with_bits(found: re.Match) -> str:
    bits = f"\\g<0> [{int(found['bits']) - 1}:0]"
    return found["others"] + re.sub(r"^  \w+", bits, found["declared"], flags=re.M)


def _label(component: wiring.Component, label: str) -> None:
    """Name the wires of an instance ``<label>__<port>``, but those with a name of their own."""
    for path, _, value in component.signature.flatten(component):
        wire = value.as_value() if isinstance(value, data.View) else value
        own = "__".join(map(str, path))
        if getattr(wire, "name", None) == own:
            wire.name = f"{label}__{own}"


def silence(component: Elaboratable) -> None:
    """An instance of a module that is there already is never elaborated, and that is no mistake."""
    component._MustUse__silence = True
    for part in vars(component).values():
        parts = part.values() if isinstance(part, dict) else part
        for one in parts if isinstance(part, (dict, list, tuple)) else (part,):
            if isinstance(one, Elaboratable) and not one._MustUse__silence:
                silence(one)


def place(component: wiring.Component, key: ModuleKey, label: str) -> Elaboratable:
    """``component``, or while a library is open an instance of its module ``key``.

    ``label``: the submodule's name in its parent, which the wires at its ports get.
    """
    library = _open.get()
    return component if library is None else _Placed(library, component, key, label)
