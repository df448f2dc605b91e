"""Key of a module's content, and its name in Verilog.

While a design is converted, a module goes by a digest of all that shapes it, which stores and
caches use too. :func:`readable` gives the names that leave: prefix, kind, parameters.
"""

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from ...machine.beat import BufferRef, Payload, Scalar, Selector, Tile, Tuple

PREFIX = "penstock"
IMPLIED = ("arity",)  # parameters that another one says: not in names
LONGEST_WORD = 24  # characters


class ModuleKey(NamedTuple):
    """A module: equal keys are one module.

    Attributes
    ----------
    kind : str
        Of the unit or part.
    parameters : dict
        What its name says: parameter -> plain value.
    further : dict
        What its name says only where modules of one export differ in nothing else.
    digest : str
        Of everything that shapes the module.
    """

    kind: str
    parameters: dict[str, bool | int | str | None]
    further: dict[str, bool | int | str | None]
    digest: str

    @property
    def name(self) -> str:
        """The name while a design is converted."""
        return f"{PREFIX}_{self.kind}_{self.digest}"


def module_key(
    kind: str, parameters: Mapping[str, object], further: Mapping[str, object] | None = None
) -> ModuleKey:
    """The key of a module of ``kind``, which ``parameters`` and ``further`` shape, nothing else."""
    further = further or {}
    exact = repr((kind, sorted(parameters.items()), sorted(further.items())))
    digest = sha256(exact.encode()).hexdigest()[:12]
    return ModuleKey(kind, _plain(parameters), _plain(further), digest)


def readable(keys: Iterable[ModuleKey], prefix: str = PREFIX) -> dict[str, str]:
    """Names of an export's modules: that while it is converted -> that in Verilog.

    ``<prefix>_<kind>_<parameters>``; where several modules would share a name, it also says the
    further facts in which they differ, and at last a number.
    """
    alike = defaultdict(list)
    for key in sorted(keys, key=lambda key: key.digest):
        alike[_joined(key, [])].append(key)
    named = {}
    for keys in alike.values():
        facts = list(dict.fromkeys(fact for key in keys for fact in key.further))
        differ = [f for f in facts if len({key.further.get(f) for key in keys}) > 1]
        named |= {key.name: _joined(key, differ) for key in keys}
    total = Counter(named.values())
    seen = Counter()
    out = {}
    for internal, name in named.items():
        seen[name] += 1
        number = f"_{seen[name]}" if total[name] > 1 else ""
        out[internal] = f"{prefix}_{name}{number}"
    return out


def _joined(key: ModuleKey, facts: list[str]) -> str:
    known = {fact: key.further[fact] for fact in facts if fact in key.further}
    return "_".join([key.kind, *_words(key.parameters), *dict.fromkeys(_words(known))])


def _words(parameters: Mapping[str, bool | int | str | None]) -> list[str]:
    """The words for parameters; a number follows the initials of its parameter."""
    initials = Counter(_initials(name) for name in parameters)
    words = []
    for name, value in parameters.items():
        if name in IMPLIED or value is None or value is False:
            continue
        if value is True:
            word = name
        elif name == "constant" and isinstance(value, int):
            word = f"c{_fp32(value)}"
        elif isinstance(value, int):
            label = _initials(name) if initials[_initials(name)] == 1 else name
            word = f"{label}{value}".replace("-", "m")
        else:
            word = value
        if len(word) <= LONGEST_WORD and re.fullmatch(r"\w+", word, re.ASCII):
            words.append(word)
    return words


def _fp32(bits: int) -> str:
    """A number in a name, from its bits: 0p353553, m2."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return f"{value:.6g}".replace("-", "m").replace(".", "p").replace("+", "")


def _initials(name: str) -> str:
    return "".join(part[:1] for part in name.split("_"))


def _plain(parameters: Mapping[str, object]) -> dict[str, bool | int | str | None]:
    out = {}
    for name, value in parameters.items():
        if isinstance(value, Payload):
            out[name] = _payload(value)
        elif value is None or isinstance(value, (int, str)):
            out[name] = value
        else:
            out[name] = repr(value)
    return out


def _payload(payload: Payload) -> str:
    """A payload in a name."""
    match payload:
        case Tile(t=t, dtype=dtype):
            return f"t{t}_{dtype}"
        case BufferRef(pages=pages):
            return f"ref{pages}"
        case Scalar(width=width):
            return f"u{width}"
        case Selector(n=n):
            return f"hot{n}"
        case Tuple(members=members):
            return "_".join(map(_payload, members))
    raise TypeError(f"Payload must be one of machine/beat.py, not {payload!r}")
