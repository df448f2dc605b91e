"""Records: the state of a run by name, for compiled code and for Python.

The state is one int64 array. A record is some of its words, declared as a class whose annotated
names are the words in order. Compiled code calls the class: ``Channel(net, at, i)`` is the i-th of
the records that lie one behind the other from word `at`, and its words are attributes, read and
written in place. Python reads ``Channel.of(words, at)["level"]``.
"""

from __future__ import annotations

import hashlib
import inspect
import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import models, register_model
from numba.np.arrayobj import populate_array

from .compiling import Part, inlined, jit, stamp

WORD = 8
"""Bytes of a word."""

ENDLESS = 1 << 40
"""Length of a table as compiled code sees it: no bounds are checked."""

# What the engine inlines, always: calls would take a third of a run's time. Python never calls it,
# and without wrappers for that a fifth of the compile time is saved.
fast = jit(
    boundscheck=False,
    error_model="numpy",
    _nrt=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    forceinline=True,
    pipeline_class=Part,
)

_INT = ir.IntType(64)


class _Kind(types.Record):
    """A record as compiled code sees it, known by its name: the list of its words, which numba
    writes into every symbol, takes a fifth of the compile time.
    """

    def __init__(self, name: str, dtype: np.dtype):
        plain: Any = from_dtype(dtype)
        fields = [(n, f._asdict()) for n, f in plain.fields.items()]
        super().__init__(fields, plain.size, plain.aligned)
        self.name = name

    def can_convert_to(self, typing, other):
        """False for every type: a record that begins with the words of another also has functions
        of its own.
        """


register_model(_Kind)(models.RecordModel)


class Record(Protocol):
    """A record: its words, and fields that begin with another value than 0."""

    fields: dict[str, tuple]
    words: int
    offsets: dict[str, int]
    dtype: np.dtype
    kind: _Kind
    begin: Callable[..., Mapping[str, int]] | None

    def of(self, state: np.ndarray, at: int) -> np.void:
        """The record at a word of the state, to read."""
        ...

    def __call__(self, net: Any, at: int, index: int) -> Any:
        """Access in compiled code: the ``index``-th of the records from a word on."""
        ...


def record(declared: type, base: Record | None = None) -> Record:
    """A record with the words of ``declared``, after those of ``base`` if there is one.

    ``ALIASES`` of the class has other names of its words: a word's name, or a name and the number
    of words from there on that make a list. Python sees ``words`` (how many), ``offsets`` (of each
    name, in words), ``dtype``, and :meth:`of`.
    """
    fields: dict[str, tuple] = dict(base.fields) if base else {}
    words = base.words if base else 0
    for name in inspect.get_annotations(declared):
        fields[name] = (words, np.int64)
        words += 1
    for name, alias in getattr(declared, "ALIASES", ()):
        if isinstance(alias, str):
            fields[name] = (fields[alias][0], np.int64)
        else:
            fields[name] = (fields[alias[0]][0], (np.int64, (alias[1],)))
    dtype = np.dtype(
        {
            "names": list(fields),
            "formats": [kind for _, kind in fields.values()],
            "offsets": [WORD * at for at, _ in fields.values()],
            "itemsize": WORD * words,
        },
        align=True,
    )
    kind = _Kind(f"{declared.__module__}.{declared.__qualname__}", dtype)

    def place(typing, net, at, index):
        def emit(context, builder, signature, arguments):
            first, at, index = arguments
            word = builder.add(at, builder.mul(index, ir.Constant(_INT, words)))
            pointer = builder.gep(builder.bitcast(first, _INT.as_pointer()), [word])
            return builder.bitcast(pointer, context.get_value_type(kind))

        return kind(net, types.int64, types.int64), emit

    def of(state: np.ndarray, at: int) -> np.void:
        """The record at word ``at`` of the state, to read."""
        return state[at : at + words].view(dtype)[0]

    place.__name__ = declared.__name__
    place.__doc__ = declared.__doc__
    made: Any = inlined(place)
    made.fields = fields
    made.words = words
    made.offsets = {name: at for name, (at, _) in fields.items()}
    made.dtype = dtype
    made.kind = kind
    made.of = of
    made.begin = getattr(declared, "begin", None)
    return made


class Words:
    """Lays records and lists out, one behind the other, as the words of a state.

    Attributes
    ----------
    S
        The words, int64, once :meth:`fill` has been called.
    """

    def __init__(self) -> None:
        self.size = 0
        self.preset: list[tuple[int, np.ndarray]] = []
        self.written: dict[int, int] = {}

    def alloc(self, n: int) -> int:
        """Room for ``n`` words that are 0; returns where."""
        self.size += n
        return self.size - n

    def put(self, numbers) -> int:
        """A list; returns where."""
        at = self.alloc(len(numbers))
        self.preset.append((at, np.asarray(numbers, np.int64)))
        return at

    def set(self, kind: Record, at: int, words: Mapping[str, int]) -> None:
        """Words of the record at a place, by name."""
        self.written.update((at + kind.offsets[name], int(value)) for name, value in words.items())

    def records(self, kind: Record, given: Sequence[Mapping[str, int]]) -> int:
        """Records one behind the other; returns where."""
        at = self.alloc(len(given) * kind.words)
        for i, words in enumerate(given):
            self.set(kind, at + i * kind.words, words)
        return at

    def same(self, kind: Record, n: int, words: Mapping[str, int]) -> int:
        """``n`` equal records one behind the other; returns where."""
        one = np.zeros(kind.words, np.int64)
        for name, value in words.items():
            one[kind.offsets[name]] = value
        return self.put(np.tile(one, n))

    def fill(self) -> None:
        """Make the words: pages of which none is written take no memory, as they would in an array
        of NumPy's, which asks for huge ones.
        """
        self.S = np.frombuffer(mmap.mmap(-1, WORD * self.size), np.int64)
        self.S[list(self.written)] = list(self.written.values())
        for at, block in self.preset:
            self.S[at : at + len(block)] = block

    @property
    def address(self) -> int:
        """Address of the words."""
        return self.S.ctypes.data

    def every(self, kind: Record, at: int, n: int, step: int | None = None) -> np.ndarray:
        """``n`` records, ``step`` words from one to the next, to look at."""
        return np.ndarray(n, kind.dtype, self.S, WORD * at, WORD * (step or kind.words))


def digest_of(*files: Path) -> str:
    """Digest of this file and others: by it numba's cache knows the code that is inlined."""
    texts = (path.read_bytes() for path in (Path(__file__), *files))
    return hashlib.sha256(b"".join(texts)).hexdigest()


def stamped(function: Any, *files: Path) -> Any:
    """A compiled function whose code in numba's cache is new when one of the files is."""
    stamp(function, digest_of(*files))
    return function


def extends(base: Record) -> Callable[[type], Record]:
    """Declares a record that begins with the words of another."""
    return lambda declared: record(declared, base)


def _array(context, builder, kind, pointer):
    """An endless array of compiled code, from a pointer to its first element."""
    array = context.make_array(kind)(context, builder)
    size = context.get_constant(types.intp, kind.dtype.bitwidth // 8)
    populate_array(
        array,
        data=builder.bitcast(pointer, array.data.type),
        shape=[context.get_constant(types.intp, ENDLESS)],
        strides=[size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


@inlined
def table(typing, net, at):
    """The words of the state from `at` on."""
    kind = types.Array(types.int64, 1, "C")

    def emit(context, builder, signature, arguments):
        first = builder.bitcast(arguments[0], _INT.as_pointer())
        return _array(context, builder, kind, builder.gep(first, [arguments[1]]))

    return kind(net, types.int64), emit


def _memory(element):
    @inlined
    def memory(typing, address):
        kind = types.Array(element, 1, "C")

        def emit(context, builder, signature, arguments):
            return _array(
                context, builder, kind, builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
            )

        return kind(types.int64), emit

    return memory


halves = _memory(types.uint16)
"""uint16 elements at an address."""
singles = _memory(types.uint32)
"""uint32 elements at an address."""
words = _memory(types.int64)
"""int64 elements at an address."""


def at_address(made: Record):
    """A function of compiled code that sees a record of the given kind at an address."""

    @inlined
    def see(typing, address):
        def emit(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(made.kind))

        return made.kind(types.int64), emit

    return see


@inlined
def trailing_zeros(typing, x):
    """Number of zero bits below the lowest set bit of a non-zero int64."""

    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), emit


@inlined
def call_kernel(typing, function, a, b, out, t):
    """Call the C function `void (float *a, float *b, float *out, int64 t)` at an address."""

    def emit(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [_INT] * 4)
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64, types.int64), emit


@inlined
def call_act(typing, function, net, unit, cycle):
    """Call the unit's function `int64 (state, unit, cycle)` at address `function`."""

    def emit(context, builder, signature, arguments):
        kind = ir.FunctionType(_INT, [_INT] * 3)
        function, net, unit, cycle = arguments
        called = builder.inttoptr(function, kind.as_pointer())
        return builder.call(called, [builder.ptrtoint(net, _INT), unit, cycle])

    return types.int64(types.int64, net, types.int64, types.int64), emit


@inlined
def call_words(typing, function, arguments):
    """Call the C function `int64 (int64, ...)` at an address with a tuple of int64."""
    given = types.UniTuple(types.int64, len(arguments))

    def emit(context, builder, signature, values):
        called, packed = values
        numbers = [builder.extract_value(packed, i) for i in range(len(given))]
        kind = ir.FunctionType(_INT, [_INT] * len(numbers))
        return builder.call(builder.inttoptr(called, kind.as_pointer()), numbers)

    return types.int64(types.int64, given), emit
