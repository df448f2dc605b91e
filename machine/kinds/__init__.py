"""Unit kinds of the `machine` timing: parameters, named ports, latency and initiation interval
(docs/timing.md section 3).

One class per kind feeds the model, the RTL's parameters, validation and the generated reference.
Every file of this folder is imported here, so that a new one needs no list.
"""

from importlib import import_module
from pkgutil import iter_modules

from .accum import accum_levels
from .kind import (
    KINDS,
    REQUIRED,
    Combinational,
    In,
    Kind,
    Out,
    Param,
    Port,
    Stream,
    kind_of,
    need,
    param,
    queue_entries,
    register,
    same,
)
from .numbers import ADDRESS_BITS, GENERATORS
from .setting import (
    Among,
    Fixed,
    Given,
    Level,
    Listed,
    OneOf,
    Optional,
    Ports,
    Runtime,
    Setting,
    Table,
    UpTo,
)

__all__ = [
    "ADDRESS_BITS",
    "GENERATORS",
    "KINDS",
    "REQUIRED",
    "Among",
    "Combinational",
    "Fixed",
    "Given",
    "In",
    "Kind",
    "Level",
    "Listed",
    "OneOf",
    "Optional",
    "Out",
    "Param",
    "Port",
    "Ports",
    "Runtime",
    "Setting",
    "Stream",
    "Table",
    "UpTo",
    "accum_levels",
    "kind_of",
    "need",
    "param",
    "queue_entries",
    "register",
    "same",
]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
