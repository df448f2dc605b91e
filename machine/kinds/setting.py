"""Settings: values that a parameter may have in a slot of an array, and their registers.

A slot is built with a *bound* for each parameter. What ``param(..., setting=UpTo())`` declares says
which values fit a bound, and how a value lies in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..beat import MAX_STOP

REQUIRED = object()
"""Default of a parameter, and most of a setting, that has to be stated."""


class Table(NamedTuple):
    """A memory of a slot that an image fills: its entries, and the bits of each."""

    depth: int
    bits: int


class Setting:
    """Property that may differ between the units of a slot.

    Attributes
    ----------
    most
        The bound of a slot that states none; ``REQUIRED``: every slot states it.
    in_registers
        What the generated reference says of the registers; empty: there are none.
    """

    most: Any = REQUIRED
    in_registers = ""

    def allows(self, bound: Any) -> bool:
        """True if a slot may have this bound."""
        return True

    def misses(self, value: Any, bound: Any) -> str:
        """Features that a slot of this bound lacks for the value; empty where it fits."""
        raise NotImplementedError

    def used(self, value: Any) -> Any:
        """The bound of a dedicated fabric's unit, which needs no more than the value."""
        return value

    def registers(self, bound: Any) -> Mapping[str, int]:
        """Bits of each register, by the suffix behind the parameter's name."""
        return {}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        """Register values for a value that fits."""
        return {}

    def tables(self, bound: Any) -> Mapping[str, Table]:
        """Each table, by the suffix behind the parameter's name."""
        return {}

    def entries(self, value: Any, bound: Any) -> Mapping[str, Sequence[int]]:
        """The first entries of each table, for a value that fits."""
        return {}

    def widest(self, bound: Any) -> Any:
        """The value of the unit that has every port of the slot."""
        return bound

    def draw(self, bound: Any, below: Any) -> Any:
        """A value that fits; ``below(n)`` draws a number from 0 to n - 1."""
        return bound


class Fixed(Setting):
    """The value that the slot was built for, and no other."""

    def misses(self, value: Any, bound: Any) -> str:
        return "" if value == bound else f"not {bound!r}"


class UpTo(Setting):
    """A number up to the bound, which is ``highest`` at most; of two truth values, false fits every
    slot.
    """

    in_registers = "as many bits as the bound"

    def __init__(self, most: Any = REQUIRED, least: int = 0, highest: int | None = None):
        self.most = most
        self.least = least
        self.highest = highest

    def allows(self, bound: Any) -> bool:
        if isinstance(self.most, bool):
            return isinstance(bound, bool)
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            return False
        if self.highest is not None and bound > self.highest:
            return False
        return self.most in (None, REQUIRED) or bound <= self.most

    def misses(self, value: Any, bound: Any) -> str:
        return "" if int(value) <= int(bound) else f"at most {bound}"

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {"": int(bound).bit_length()}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": int(value)}

    def draw(self, bound: Any, below: Any) -> Any:
        value = self.least + below(int(bound) + 1 - self.least)
        return bool(value) if isinstance(bound, bool) else value


class Level(UpTo):
    """A stop level, or a number of dimensions."""

    def __init__(self, least: int = 0, most: int = MAX_STOP) -> None:
        super().__init__(most, least)
        self.levels = range(least, most + 1)


class Ports(UpTo):
    """A number of ports of one name, the first ones of the slot's; the register has a bit each."""

    in_registers = "a bit for each port"

    def __init__(self) -> None:
        super().__init__(least=1)

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {"": bound}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": (1 << value) - 1}


class Among(Setting):
    """A mask whose bits are among those of the bound, one at least."""

    in_registers = "as many bits as the bound"

    def allows(self, bound: Any) -> bool:
        return isinstance(bound, int) and 0 < bound < 1 << MAX_STOP

    def misses(self, value: Any, bound: Any) -> str:
        return "" if not value & ~bound else f"within {bound:#b}"

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {"": bound.bit_length()}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": value}

    def draw(self, bound: Any, below: Any) -> Any:
        value = 0
        while not value:
            value = below(bound + 1) & bound
        return value


class OneOf(Setting):
    """One of several values; the bound is their list, or the only one."""

    in_registers = "the number of one of the values"

    def __init__(self, *most: Any):
        self.most = most or REQUIRED

    @staticmethod
    def choices(bound: Any) -> tuple[Any, ...]:
        """The values, in the order of their numbers."""
        return tuple(cast("list[Any]", bound)) if isinstance(bound, (list, tuple)) else (bound,)

    def misses(self, value: Any, bound: Any) -> str:
        fit = self.choices(bound)
        return "" if value in fit else f"one of {', '.join(map(repr, fit))}"

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {"": (len(self.choices(bound)) - 1).bit_length()}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": self.choices(bound).index(value)}

    def widest(self, bound: Any) -> Any:
        return self.choices(bound)[0]

    def draw(self, bound: Any, below: Any) -> Any:
        fit = self.choices(bound)
        return fit[below(len(fit))]


class Given(Setting):
    """True if there is a value, which the placement gives; the bound None: there is none."""

    most = None
    in_registers = "1 bit: whether it is given"

    def misses(self, value: Any, bound: Any) -> str:
        return "" if value is None or bound is not None else "None"

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {"": int(bound is not None)}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": int(value is not None)}

    def draw(self, bound: Any, below: Any) -> Any:
        return bound if bound is not None and below(2) else None


class Optional(UpTo):
    """None or a number up to the bound, with a register that says which; the bound None: only None.

    ``adds_port``: whether a unit has a port more with the number than with None.
    """

    in_registers = "as many bits as the bound, and 1 bit: whether it is given"

    def __init__(self, *, adds_port: bool, least: int = 0, highest: int | None = None):
        super().__init__(most=None, least=least, highest=highest)
        self.adds_port = adds_port

    def allows(self, bound: Any) -> bool:
        return bound is None or (super().allows(bound) and bound >= self.least)

    def misses(self, value: Any, bound: Any) -> str:
        if value is None:
            return ""
        return "None" if bound is None else super().misses(value, bound)

    def registers(self, bound: Any) -> Mapping[str, int]:
        return {**super().registers(bound or 0), "_given": int(bound is not None)}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        return {"": value or 0, "_given": int(value is not None)}

    def widest(self, bound: Any) -> Any:
        return bound if self.adds_port else None

    def draw(self, bound: Any, below: Any) -> Any:
        return None if bound is None or not below(3) else super().draw(bound, below)


class Runtime(Setting):
    """A run-time parameter: a register in dedicated fabrics too.

    Of a list, each element has a register. The bound is then a list of as many elements, or their
    number; a shorter list is filled with ``fill``, at its front where ``front`` is true.
    """

    most = None
    in_registers = "run time"

    def __init__(self, values: range | None, *, fill: int = 0, front: bool = False):
        self.least = 0 if values is None else values[0]
        self.bits = 0 if values is None else values[-1].bit_length()
        self.fill = fill
        self.front = front

    def misses(self, value: Any, bound: Any) -> str:
        room = self._length(bound)
        if room is None or not isinstance(value, (list, tuple)):
            return ""
        return "" if len(cast("list[Any]", value)) <= room else f"of at most {room} elements"

    @staticmethod
    def _length(bound: Any) -> int | None:
        """Elements of a list; None for a plain number."""
        return len(cast("list[Any]", bound)) if isinstance(bound, (list, tuple)) else None

    def registers(self, bound: Any) -> Mapping[str, int]:
        room = self._length(bound)
        if room is None:
            return {"": self.bits}
        return {f"_{k}": self.bits for k in range(room)}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        room = self._length(bound)
        if room is None:
            return {"": value or 0}
        rest = [self.fill] * (room - len(value))
        held = [*rest, *value] if self.front else [*value, *rest]
        return {f"_{k}": x for k, x in enumerate(held)}

    def widest(self, bound: Any) -> Any:
        return self.least if bound is None else bound

    def draw(self, bound: Any, below: Any) -> Any:
        return self.least + below(6) if bound is None else bound


class Listed(Setting):
    """None, or a list of entries, each of the same members; the bound is the most of them, None:
    only None.

    Parameters
    ----------
    members
        Bits of each member, by name.
    """

    most = None
    in_registers = "whether it is given, and the number of the last entry; a table for each member"

    def __init__(self, members: Mapping[str, int]):
        self.members = dict(members)

    def misses(self, value: Any, bound: Any) -> str:
        if value is None:
            return ""
        if bound is None:
            return "None"
        return "" if len(value) <= bound else f"of at most {bound} entries"

    def used(self, value: Any) -> Any:
        return None if value is None else len(value)

    def registers(self, bound: Any) -> Mapping[str, int]:
        last = 0 if bound is None else bound - 1
        return {"_given": int(bound is not None), "_last": last.bit_length()}

    def values(self, value: Any, bound: Any) -> Mapping[str, int]:
        if value is None:
            return {"_given": 0, "_last": 0}
        return {"_given": 1, "_last": len(value) - 1}

    def tables(self, bound: Any) -> Mapping[str, Table]:
        if bound is None:
            return {}
        return {f"_{name}": Table(bound, bits) for name, bits in self.members.items()}

    def entries(self, value: Any, bound: Any) -> Mapping[str, Sequence[int]]:
        if value is None:
            return {}
        return {f"_{name}": [x[k] for x in value] for k, name in enumerate(self.members)}

    def widest(self, bound: Any) -> Any:
        return None

    def draw(self, bound: Any, below: Any) -> Any:
        if bound is None or not below(3):
            return None
        some = range(1 + below(bound))
        return [[below(1 << bits) for bits in self.members.values()] for _ in some]
