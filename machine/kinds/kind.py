"""Unit kind: a class of parameters, named ports and rules, registered by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from ..beat import Payload, Tile
from ..errors import LoweringError, nearest
from ..widths import Widths
from .setting import REQUIRED, Fixed, Level, Runtime, Setting

Payloads = tuple[Payload, ...]
"""Payloads of the inputs, or of the outputs, of a unit."""


class Param:
    """A parameter of a kind: a field of the class, checked for every unit.

    Attributes
    ----------
    key
        Its name: of the field, and in a unit graph.
    doc
        One line of meaning, with unit.
    values
        The values that it may have (each of them, if it is a list); None: all of its type.
    runtime
        Whether it is a configuration register in the RTL, so that one simulator build serves many
        values.
    default
        What a unit that does not state it has; ``REQUIRED``: every unit states it.
    setting
        How it is configured in a slot of an array (:mod:`penstock.machine.kinds.setting`).
    types
        Classes of its value: those of the field's annotation. None without one.
    """

    def __init__(self, doc: str, values: range | None, setting: Setting, default: object):
        self.doc = doc
        self.values = values
        self.setting = setting
        self.default = default
        self.key = ""
        self.types: tuple[type, ...] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    def __get__(self, kind: Kind | None, owner: type[Kind]) -> Any:
        """Default of a unit that does not state the parameter; of a class, the declaration."""
        if kind is None:
            return self
        if self.required:
            raise AttributeError
        return self.default

    @property
    def runtime(self) -> bool:
        return isinstance(self.setting, Runtime)

    @property
    def required(self) -> bool:
        """True if every unit states it."""
        return self.default is REQUIRED

    def broken(self, value: object) -> tuple[object, str] | None:
        """The part of ``value`` that breaks the rule, and the rule; None where it holds."""
        if value is None and self.types is not None and type(None) in self.types:
            return None
        if self.values is not None:
            low, high = self.values[0], self.values[-1]
            several = isinstance(value, (list, tuple))
            given = cast("list[object]", value) if several else [value]
            for one in given:
                if not isinstance(one, int) or one not in self.values:
                    return one, f"from {low} to {high}"
        elif self.types is not None and not isinstance(value, self.types):
            return value, " or ".join(_NAMES.get(x, x.__name__) for x in self.types)
        return None


_NAMES = {int: "an integer", str: "a name", list: "a list", bool: "true or false"}
_ALSO = {bool: (bool, int), list: (list, tuple)}


def _types(hint: Any) -> tuple[type, ...]:
    """The classes that an annotation names."""
    if get_origin(hint) is Union or type(hint).__name__ == "UnionType":
        return tuple(x for part in get_args(hint) for x in _types(part))
    plain = get_origin(hint) or hint
    return _ALSO.get(plain, (plain,))


def param(
    doc: str,
    values: range | None = None,
    *,
    runtime: bool = False,
    setting: Setting | None = None,
    default: object = REQUIRED,
) -> Any:
    """A parameter field of a kind, as in ``count: int = param("copies", range(1, 9))``.

    See :class:`Param`. ``runtime`` is short for a setting of
    :class:`~.setting.Runtime`; without either the parameter is fixed in a slot.
    """
    if setting is None:
        setting = Runtime(values) if runtime else Fixed()
    if values is None and isinstance(setting, Level):
        values = setting.levels
    return Param(doc, values, setting, default)


@dataclass(frozen=True)
class Port:
    """A port of a unit, named by its stream; ``index`` where there are several of one name."""

    name: str
    index: int | None = None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"

    @property
    def member(self) -> str:
        """The port's name in Python and Verilog."""
        return self.name if self.index is None else f"{self.name}_{self.index}"


class Stream:
    """Declares an input or an output port of a kind, or a list of them.

    Parameters
    ----------
    doc
        What it carries.
    many
        For a list of ports: the attribute that is their number, or a list of that length.
    when
        (kind) -> whether a unit has it, for a port that not every unit of the kind has.
    """

    def __init__(self, doc: str, many: str = "", when: Callable[[Any], bool] | None = None) -> None:
        self.doc = doc
        self.many = many
        self.when = when
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"{self.name}[{self.many}]" if self.many else self.name

    def ports(self, kind: Kind) -> list[Port]:
        """The ports that it stands for in a unit."""
        if self.when is not None and not self.when(kind):
            return []
        if not self.many:
            return [Port(self.name)]
        many = getattr(kind, self.many)
        return [Port(self.name, k) for k in range(many if isinstance(many, int) else len(many))]


class In(Stream):
    """Declares an input port, or a list of them."""


class Out(Stream):
    """Declares an output port, or a list of them."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(param,))
class Kind:
    """Base of all unit kinds; an instance is a kind with the parameters of one unit, its fields:
    ``Flatten(lo=0, hi=1)``. It is frozen.

    A subclass states parameters (:func:`param`), ports (:class:`In`,
    :class:`Out`, numbered in the order of their declaration) and the
    rules below; the first paragraph of its docstring is its line in the
    generated reference.

    Raises
    ------
    LoweringError
        A parameter is missing or unknown.

    Attributes
    ----------
    name
        The kind's name: model and RTL are registered under it.
    values
        For a pipelined unit of one tile out that is added from outside (docs/timing.md section 2):
        the name under which ``model.functions`` holds its tile kernel. The valid rows and columns
        are those of the first operand.
    offchip
        ``read`` or ``write`` for a unit with an off-chip port; empty for all others.
    ends_run
        Whether the run lasts until this unit has its Done (docs/timing.md section 5, `cycles`).
    memory
        Whether the unit holds buffers, and so has pages and reference counts.
    posts
        The parameter with the id of the `memory` unit whose reference counts the unit changes (None
        there, or no parameter: it changes none).
    drops
        Whether those changes may lower a count.
    any_input
        Whether the unit can give a beat before every input has had one, so that a feedback loop may
        go through it.
    by_arrival
        Whether the order of what leaves follows that of the arrivals.
    beat_for_beat
        Whether the unit gives a beat of each output for a beat of each input.
    computes
        Whether the unit is a datapath (drawings show it as one).
    params, runtime, streams
        Parameters by name; the names of those in run-time registers; declared ports.
    """

    name: ClassVar[str] = ""
    values: ClassVar[str] = ""
    offchip: ClassVar[str] = ""
    ends_run: ClassVar[bool] = False
    memory: ClassVar[bool] = False
    posts: ClassVar[str] = ""
    drops: ClassVar[bool] = False
    any_input: ClassVar[bool] = False
    by_arrival: ClassVar[bool] = False
    beat_for_beat: ClassVar[bool] = False
    computes: ClassVar[bool] = False
    params: ClassVar[dict[str, Param]] = {}
    runtime: ClassVar[tuple[str, ...]] = ()
    streams: ClassVar[tuple[Stream, ...]] = ()

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        own = [x for x in vars(cls).values() if isinstance(x, Param)]
        hints = get_type_hints(cls) if own else {}
        for x in own:
            if x.key in hints:
                x.types = _types(hints[x.key])
        cls.params = {**cls.params, **{x.key: x for x in own}}
        cls.runtime = tuple(x.key for x in cls.params.values() if x.runtime)
        cls.streams = (*cls.streams, *(x for x in vars(cls).values() if isinstance(x, Stream)))

    def __init__(self, **stated: Any):
        vars(self).update(stated)
        self._check_names(f"kind {self.name}")

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> Self:
        """A kind without a check: some parameters may be missing, as those at run time."""
        kind = cls.__new__(cls)
        vars(kind).update(stated)
        return kind

    @property
    def stated(self) -> dict[str, Any]:
        """The parameters by name, without those that have their default unsaid."""
        return dict(vars(self))

    def but(self, **changes: Any) -> Self:
        """Copy with other values of some parameters."""
        return type(self).of({**vars(self), **changes})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a {self.name} has or states no {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self!r} is frozen")

    def __eq__(self, other: object) -> bool:
        unsaid = {key: x.default for key, x in self.params.items()}
        return type(self) is type(other) and unsaid | vars(self) == unsaid | vars(other)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in sorted(vars(self).items()))})"

    def _check_names(self, where: str) -> None:
        missing = [k for k, x in self.params.items() if x.required and k not in vars(self)]
        unknown = [k for k in vars(self) if k not in self.params]
        if missing or unknown:
            raise LoweringError(
                f"parameters missing {missing}, unknown {unknown}",
                where,
                f"kind {self.name} has {list(self.params)}",
            )

    def check(self, where: str) -> None:
        """Check the parameters of the unit that messages call ``where``.

        Raises
        ------
        LoweringError
            A parameter is missing, unknown, of another type or out of its range.
        """
        self._check_names(where)
        for key, value in vars(self).items():
            if broken := self.params[key].broken(value):
                wrong, rule = broken
                raise LoweringError(
                    f"{key} is {wrong!r}", where, f"{key} of a {self.name} is {rule}"
                )

    @classmethod
    def summary(cls) -> str:
        """The first paragraph of the docstring, on a line."""
        return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split()).rstrip(".")

    def posts_to(self) -> int | None:
        """Id of the memory unit whose reference counts the unit changes."""
        return vars(self).get(self.posts)

    def inputs(self) -> list[Port]:
        """The input ports, by number."""
        return [p for x in self.streams if isinstance(x, In) for p in x.ports(self)]

    def outputs(self) -> list[Port]:
        """The output ports, by number."""
        return [p for x in self.streams if isinstance(x, Out) for p in x.ports(self)]

    def latency(self, t: int) -> int | None:
        """L in cycles at the tile edge ``t``; None where docs/timing.md has a section for it."""
        return None

    def interval(self, t: int) -> int | None:
        """II in cycles at the tile edge ``t``; None where docs/timing.md has a section for it."""
        return None

    def pipeline(self, t: int) -> tuple[int, int]:
        """(L, II) of a unit that has both (docs/timing.md section 2)."""
        latency = self.latency(t)
        interval = self.interval(t)
        if latency is None or interval is None:
            raise LoweringError(
                "it has no latency or no interval", f"kind {self.name}", "a pipelined unit has both"
            )
        return latency, interval

    def memories(
        self, t: int, inputs: Payloads, outputs: Payloads, posts: int, widths: Widths
    ) -> Mapping[str, int]:
        """Bits of the unit's memories by use (:mod:`.uses`), registers not among them; ``posts``:
        units that post to it, ``widths``: of lines, addresses and sizes.
        """
        return {}

    def flops_per_cycle(self, t: int) -> int:
        """FLOP that the unit can do in a cycle."""
        return 0

    def stops(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Highest stop level of each output, given those of the inputs."""
        return (max(inputs, default=0),) * len(self.outputs())

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...] | None:
        """Payloads of the outputs, given those of the inputs; None (for one, or for all): anything.

        Raises
        ------
        ValueError
            With the rule that the inputs break.
        """
        return None


class Combinational(Kind):
    """Base of the kinds of L = 0 and II = 1 (docs/timing.md section 2): a beat leaves in the cycle
    in which it is taken. Its inputs have one payload, and so have its outputs.
    """

    def latency(self, t: int) -> int:
        return 0

    def interval(self, t: int) -> int:
        return 1

    def payloads(self, inputs: Payloads) -> tuple[Payload | None, ...] | None:
        return same(inputs) * len(self.outputs())


KINDS: dict[str, type[Kind]] = {}
"""All kinds by name."""

K = TypeVar("K", bound=type[Kind])


def register(kind: K) -> K:
    """Add a unit kind (also from outside the tree, and as a decorator)."""
    if not kind.name:
        raise ValueError(f"Unit kind {kind.__name__} must have a name")
    KINDS[kind.name] = kind
    return kind


def kind_of(name: str) -> type[Kind]:
    """The kind of a name.

    Raises
    ------
    LoweringError
        There is none.
    """
    if name not in KINDS:
        raise LoweringError(
            f"unknown kind {name!r}", remedy=nearest(name, sorted(KINDS), "known kinds:")
        )
    return KINDS[name]


def queue_entries(latency: int, interval: int) -> int:
    """Entries of a pipelined unit's output queue (docs/timing.md section 2)."""
    return latency + interval + 1


def need(holds: bool, rule: str) -> None:
    """Check for :meth:`Kind.payloads`: the rule that the inputs break."""
    if not holds:
        raise ValueError(rule)


def tile(payload: Payload, rule: str) -> Tile:
    """A payload that is to be a tile, by the rule that says so."""
    if not isinstance(payload, Tile):
        raise ValueError(rule)
    return payload


def same(inputs: Payloads) -> Payloads:
    """The one payload that all inputs have."""
    need(len(set(inputs)) == 1, "its inputs have one payload")
    return inputs[:1]
