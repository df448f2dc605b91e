"""The parts of an array, and what joins them: instances of modules of which each is built once, and
links whose beats no logic of the top looks at.
"""

from functools import cached_property
from typing import NamedTuple, Self

from amaranth.hdl import ClockSignal, Elaboratable, ResetSignal, Signal, Value
from amaranth.lib import wiring

from ..export.module_key import ModuleKey
from ..export.place import instance, thin


class Link(NamedTuple):
    """A stream between two parts, or between a part and the outside."""

    payload: Value
    valid: Value
    ready: Value

    @classmethod
    def thin(cls, bits: int, name: str) -> Self:
        """One between two parts; ``bits`` of a beat; ``name``: what its wires are named after."""
        valid = Signal(name=f"{name}__valid")
        ready = Signal(name=f"{name}__ready")
        return cls(thin(bits, name), valid, ready)


class Part(Elaboratable):
    """An instance of a module, with signals of its own at its ports.

    Parameters
    ----------
    component : wiring.Component
        What the module is made of; many parts may share it.
    key : ModuleKey
        Of its module.
    label : str
        Its name in the top, which its wires have too.

    Attributes
    ----------
    links : dict[str, Link]
        Its streams that end at other parts, by member. They are joined before ``ends`` is asked
        for.
    """

    def __init__(self, component: wiring.Component, key: ModuleKey, label: str):
        self.component = component
        self.key = key
        self.label = label
        self.links: dict[str, Link] = {}
        self._MustUse__silence = True  # where no library is open

    @cached_property
    def ends(self) -> wiring.PureInterface:
        """Members of the component other than its links."""
        members = self.component.signature.members.items()
        own = {name: member for name, member in members if name not in self.links}
        return wiring.Signature(own).create(path=(self.label,))

    def elaborate(self, platform):
        ports = {
            ("i_" if member.flow == wiring.In else "o_") + "_".join(map(str, path)): value
            for path, member, value in self.ends.signature.flatten(self.ends)
        }
        for name, link in self.links.items():
            inward = self.component.signature.members[name].flow == wiring.In
            given, taken = ("i_", "o_") if inward else ("o_", "i_")
            ports[f"{given}{name}_payload"] = link.payload
            ports[f"{given}{name}_valid"] = link.valid
            ports[f"{taken}{name}_ready"] = link.ready
        clock = {"i_clk": ClockSignal(), "i_rst": ResetSignal(allow_reset_less=True)}
        return instance(self.component, self.key, ports, clock)


End = tuple[Part, str]
"""A stream of a part."""


def join(source: End, sink: End, bits: int, name: str) -> None:
    """Give an output and an input one link."""
    for part, member in (source, sink):
        assert member not in part.links
    link = Link.thin(bits, name)
    for part, member in (source, sink):
        part.links[member] = link
