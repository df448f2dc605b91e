"""Capability of an array's slot: bounds of a kind's parameters, and the registers below them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..beat import BufferRef, Payload, Scalar, Selector
from ..errors import ConfigError
from ..kinds import REQUIRED, Kind, Param, Port, Runtime, Table, kind_of


def carries(wide: Payload, payload: Payload) -> bool:
    """True if ``payload`` fits a stream of ``wide``: numbers by width, all else if it is equal."""
    numbers = (Scalar, Selector, BufferRef)
    if isinstance(wide, numbers) and type(wide) is type(payload):
        return payload.bits <= wide.bits
    return wide == payload


@dataclass(frozen=True)
class Capability:
    """A kind, and the most that each parameter of a unit may be.

    Parameters
    ----------
    kind
        Of the units.
    params
        Bounds by parameter. A parameter that is left out has the most that its setting declares, or
        its default.
    inputs
        What the slot's inputs carry, by port number; empty: anything.

    Raises
    ------
    ConfigError
        A bound is missing, or is of no parameter.
    """

    kind: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: tuple[Payload, ...] = ()

    def __post_init__(self) -> None:
        declared = kind_of(self.kind).params
        unknown = [key for key in self.params if key not in declared]
        missing = [key for key, x in declared.items() if self._bound(key, x) is REQUIRED]
        if unknown or missing:
            raise ConfigError(
                f"bounds missing {missing}, unknown {unknown}",
                f"slot for {self.kind}",
                f"kind {self.kind} has {list(declared)}",
            )

    def _bound(self, key: str, x: Param) -> Any:
        if key in self.params:
            return self.params[key]
        return x.default if x.setting.most is REQUIRED else x.setting.most

    def _each(self) -> Iterator[tuple[str, Param, Any]]:
        """Parameters with their bounds."""
        for key, x in kind_of(self.kind).params.items():
            yield key, x, self._bound(key, x)

    @property
    def bounds(self) -> dict[str, Any]:
        """The bound of every parameter."""
        return {key: bound for key, _, bound in self._each()}

    def widest(self) -> Kind:
        """The unit that has every port of the slot."""
        return kind_of(self.kind).of({k: x.setting.widest(bound) for k, x, bound in self._each()})

    def ports(self) -> tuple[list[Port], list[Port]]:
        """Inputs and outputs of the slot; a unit uses those of its own ports' names."""
        widest = self.widest()
        return widest.inputs(), widest.outputs()

    def misses(self, unit: Kind, payloads: Sequence[Payload] = ()) -> list[str]:
        """Features that the slot lacks for a unit, as parts of a message; empty: the unit fits.

        ``payloads`` are those of the unit's inputs, by port number.
        """
        found: list[str] = []
        for key, x, bound in self._each():
            value = getattr(unit, key)
            if lack := x.setting.misses(value, bound):
                found.append(f"{key} is {reprlib.repr(value)}, {lack}")
        return found or self._payloads_missed(unit, payloads)

    def _payloads_missed(self, unit: Kind, payloads: Sequence[Payload]) -> list[str]:
        given = dict(zip(self.ports()[0], self.inputs, strict=False))
        own = unit.inputs()
        return [
            f"input {port} carries {payload!r}, not {given[port]!r}"
            for port, payload in zip(own, payloads, strict=False)
            if port in given and not carries(given[port], payload)
        ]

    def fields(self) -> dict[str, int]:
        """Bits of every setting and run-time parameter; of no bits: it is 0."""
        return {
            key + part: bits
            for key, x, bound in self._each()
            for part, bits in x.setting.registers(bound).items()
        }

    def registers(self) -> dict[str, int]:
        """Bits of every register: settings and run-time parameters, none of no bits."""
        return {name: bits for name, bits in self.fields().items() if bits}

    def tables(self) -> dict[str, Table]:
        """Every table of the settings."""
        return {
            key + part: table
            for key, x, bound in self._each()
            for part, table in x.setting.tables(bound).items()
        }

    def entries(self, unit: Kind) -> dict[str, Sequence[int]]:
        """The first entries of each table, for a unit that fits."""
        return {
            key + part: numbers
            for key, x, bound in self._each()
            for part, numbers in x.setting.entries(getattr(unit, key), bound).items()
        }

    def settings(self, unit: Kind) -> dict[str, int]:
        """Register values for a unit that fits."""
        bits = self.registers()
        return {
            key + part: value
            for key, x, bound in self._each()
            for part, value in x.setting.values(getattr(unit, key, bound), bound).items()
            if key + part in bits
        }


def own(unit: Kind) -> Capability:
    """The capability of a dedicated fabric's unit: exactly the features that it uses."""
    used = {k: x.setting.used(getattr(unit, k)) for k, x in unit.params.items() if hasattr(unit, k)}
    return Capability(unit.name, used)


def runtime_registers(unit: Kind) -> dict[str, int]:
    """Bits of the registers that a unit has in a dedicated fabric: its run-time parameters."""
    return {
        key + part: bits
        for key, x in unit.params.items()
        if isinstance(x.setting, Runtime) and getattr(unit, key, None) is not None
        for part, bits in x.setting.registers(getattr(unit, key)).items()
        if bits
    }
