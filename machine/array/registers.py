"""Map of an image's fields: fields in words, words in blocks, blocks in the address space of the
configuration port. Hardware, encoder and documentation read this one definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import ConfigError
from ..kinds import Table
from ..limits import REGISTERS

WORD_BITS = 32


@dataclass(frozen=True)
class Field:
    """A register: ``bits`` from bit ``low`` of word ``word`` of its block."""

    name: str
    word: int
    low: int
    bits: int

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


def packed(fields: Mapping[str, int], behind: Sequence[Field] = ()) -> tuple[Field, ...]:
    """Fields (name -> bits, 1 to 32) in words, in order, none across words; the first begins behind
    the last of ``behind``.
    """
    word, low = (behind[-1].word, behind[-1].low + behind[-1].bits) if behind else (0, 0)
    out: list[Field] = []
    for name, bits in fields.items():
        if not 1 <= bits <= WORD_BITS:
            raise ValueError(f"Bits of a field must be from 1 to {WORD_BITS}, not {bits!r}")
        if low + bits > WORD_BITS:
            word += 1
            low = 0
        out.append(Field(name, word, low, bits))
        low += bits
    return tuple(out)


@dataclass(frozen=True)
class TableField:
    """A table: entry k is the low ``bits`` of word ``word + k`` of its block."""

    name: str
    word: int
    depth: int
    bits: int

    @property
    def words(self) -> range:
        return range(self.word, self.word + self.depth)


@dataclass(frozen=True)
class Layout:
    """The fields of a block."""

    common: tuple[Field, ...]  # those that it always has
    # of what it can be, one of which the field ``variant`` chooses: the fields of that one lie
    # behind the common ones. None or one variant has no such field.
    variants: tuple[tuple[Field, ...], ...] = ()
    tables: tuple[tuple[TableField, ...], ...] = ()  # of each variant, behind the fields of all

    @staticmethod
    def of(
        common: Mapping[str, int],
        variants: Sequence[Mapping[str, int]] = (),
        tables: Sequence[Mapping[str, Table]] = (),
    ) -> Layout:
        """The layout of fields given as name -> bits, those of no bits left out, and of tables by
        variant.
        """
        first = packed({k: v for k, v in common.items() if v})
        rest = [packed({k: v for k, v in x.items() if v}, first) for x in variants]
        fields = Layout(first, tuple(rest))
        behind = [tuple(_stacked(x, fields.words)) for x in tables]
        return Layout(first, tuple(rest), tuple(behind))

    @property
    def all(self) -> tuple[Field, ...]:
        """The fields of every variant."""
        return (*self.common, *(f for variant in self.variants for f in variant))

    @property
    def registers(self) -> int:
        """Words of the registers, the first ones of the block."""
        return max((f.word for f in self.all), default=-1) + 1

    @property
    def words(self) -> int:
        """Words of the block."""
        ends = (table.words.stop for of in self.tables for table in of)
        return max(ends, default=self.registers)

    @property
    def bits(self) -> int:
        """Bits of the registers."""
        return sum(self.width(word) for word in range(self.registers))

    @property
    def table_bits(self) -> int:
        """Bits of the tables."""
        return sum(table.depth * table.bits for of in self.tables for table in of)

    def width(self, word: int) -> int:
        """Bits of a word of registers that hold anything."""
        return max(f.low + f.bits for f in self.all if f.word == word)

    def chosen(self, variant: int = 0) -> tuple[Field, ...]:
        """The fields of one variant, the common ones first."""
        return (*self.common, *(self.variants[variant] if self.variants else ()))

    def stored(self, variant: int = 0) -> tuple[TableField, ...]:
        """The tables of one variant."""
        return self.tables[variant] if self.tables else ()

    def encode(
        self, values: Mapping[str, int], variant: int = 0, entries: Mapping[str, Sequence[int]] = {}
    ) -> list[int]:
        """The words that hold ``values``, and the first ``entries`` of each table; all else is 0.

        Raises
        ------
        ValueError
            A value does not fit its field, or has none.
        """
        out = [0] * self.words
        left = dict(values)
        for f in self.chosen(variant):
            value = left.pop(f.name, 0)
            if not 0 <= value <= f.mask:
                raise ValueError(f"Field {f.name} must fit in {f.bits} bits, not {value!r}")
            out[f.word] |= value << f.low
        for table in self.stored(variant):
            for word, value in zip(table.words, entries.get(table.name, ()), strict=False):
                if not 0 <= value < 1 << table.bits:
                    raise ValueError(
                        f"Entries of {table.name} must fit in {table.bits} bits, not {value!r}"
                    )
                out[word] = value
        if left:
            raise ValueError(f"Fields must be {[f.name for f in self.all]}, not {list(left)}")
        return out

    def decode(self, words: Sequence[int], variant: int = 0) -> dict[str, int]:
        """The values of the fields of one variant."""
        return {f.name: words[f.word] >> f.low & f.mask for f in self.chosen(variant)}

    def listed(self, words: Sequence[int], variant: int = 0) -> dict[str, list[int]]:
        """The entries of the tables of one variant."""
        return {x.name: list(words[x.word : x.words.stop]) for x in self.stored(variant)}


def _stacked(tables: Mapping[str, Table], word: int) -> Iterator[TableField]:
    """Tables one behind the other, from a word on."""
    for name, table in tables.items():
        yield TableField(name, word, table.depth, table.bits)
        word += table.depth


@dataclass(frozen=True)
class Block:
    """The registers of one slot, of one switch, or of the memory's ports."""

    name: str  # in the array
    layout: Layout
    base: int = 0  # address of its first word; a multiple of ``span``
    labels: tuple[str, ...] = field(default=())  # what each variant is

    @property
    def span(self) -> int:
        """Addresses that it takes: a power of two."""
        return 1 << max(self.layout.words - 1, 0).bit_length()

    @property
    def addresses(self) -> range:
        """Addresses of its words."""
        return range(self.base, self.base + self.layout.words)


def based(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks at addresses of their own, from 0: large ones first, so that nothing is lost
    between them.

    Raises
    ------
    ConfigError
        They need more addresses than the configuration port has.
    """
    bases, following = stacked([b.span if b.layout.words else 0 for b in blocks])
    if following not in REGISTERS:
        raise ConfigError(
            f"has {following} configuration words, with those between blocks",
            "array",
            f"the configuration port addresses {REGISTERS[-1]}",
            "use fewer sites, or smaller capabilities",
        )
    return tuple(Block(b.name, b.layout, at, b.labels) for b, at in zip(blocks, bases, strict=True))


def stacked(spans: Sequence[int], first: int = 0) -> tuple[list[int], int]:
    """Addresses for spans, powers of two or 0, each from a multiple of itself, at least ``first``:
    large ones lie first. And the end of all.
    """
    widest = max(spans, default=0)
    following = -(-first // widest) * widest if widest else first
    bases = [0] * len(spans)
    for k in sorted(range(len(spans)), key=lambda k: (-spans[k], k)):
        bases[k] = following
        following += spans[k]
    return bases, following
