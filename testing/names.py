"""Signals of an exported design without a name of their own."""

import re

_VERILOG = re.compile(
    r"^ *(?:input|output|wire|(reg))(?: wire)?(?: (reg))?(?: signed)?(?: \[[^\]]*\])? (\\\S+|\w+)",
    re.M,
)
_RTLIL = re.compile(r"^ *(?:wire|memory) .*?\\(\S+)$", re.M)
_EXPRESSION = re.compile(r"\\\$(\d+|procmux\$\d+_\w+|auto\$\S+)")


def nameless(text: str) -> list[str]:
    """Declared signals of Verilog or RTLIL whose names begin with ``$``.

    Wires of expressions may; registers and memories may have no ``$`` at all, since one within a
    name tells apart what Python calls the same.
    """
    if "\nendmodule" not in text:
        return [name for name in _RTLIL.findall(text) if name.startswith("$")]
    found = []
    for *registers, name in _VERILOG.findall(text):
        if any(registers):
            bad = "$" in name
        else:
            bad = name.startswith("\\$") and not _EXPRESSION.fullmatch(name)
        if bad:
            found.append(name)
    return found
