"""Choices in exported Verilog, as a simulator likes them.

Yosys writes a choice of many as a function of all values side by side, whose ``casez`` has a
pattern for each. Verilator makes a table of all values of the selecting bits of that; so patterns
become bits. And it joins the values, word by word, wherever the function is called; so where the
values are beats, a ``case`` copies the one that is chosen. In the switches of an array both is most
of the code.
"""

import re
from collections.abc import Collection

NAME = r"(?:\\\S+ |[A-Za-z_]\w*)"
MODULE = re.compile(r"^module (\w+)\(.*?^endmodule\n", re.M | re.S)
PATTERN = re.compile(r"^      (\d+)'b(\?*)1(\?*):$", re.M)
CHOICE = re.compile(
    rf"""  function \[(?P<high>\d+):0\] (?P<name>select_\d+);
    input \[\d+:0\] a;
    input \[\d+:0\] b;
    input \[\d+:0\] s;
(?P<told>(?:    \(\*.*\*\)\n)*)    case \(1'b1\)
(?P<branches>(?:      s\[\d+\]:\n        (?P=name) = b\[\d+:\d+\];\n)+)      default:
        (?P=name) = a;
    endcase
  endfunction
  assign (?P<net>{NAME}) = (?P=name)\((?P<other>[^,]+), \{{ (?P<given>.*) \}}, \{{ (?P<by>.*) \}}\);
"""
)
BRANCH = re.compile(r"      s\[(\d+)\]:\n        select_\d+ = b\[\d+:(\d+)\];\n")


def with_bits(verilog: str) -> str:
    """A design whose choices ask for each selecting bit in turn."""
    verilog = verilog.replace("    casez (s)\n", "    case (1'b1)\n")
    return PATTERN.sub(lambda found: f"      s[{len(found[3])}]:", verilog)


def with_cases(verilog: str, modules: Collection[str]) -> str:
    """A design (:func:`with_bits`) in whose ``modules`` a choice is no function."""
    wanted = set(modules)
    return MODULE.sub(lambda found: _module(found[0]) if found[1] in wanted else found[0], verilog)


def _module(text: str) -> str:
    nets: list[str] = []

    def take(found: re.Match) -> str:
        width = int(found["high"]) + 1
        net = found["net"]
        given = found["given"].split(", ")[::-1]
        bits = found["by"].split(", ")[::-1]
        branches = BRANCH.findall(found["branches"])
        joined = not len(given) == len(bits) == len(branches)  # some are constants
        if joined or f"  wire [{width - 1}:0] {net};\n" not in text:
            return found[0]
        nets.append(net)
        lines = "".join(
            f"      {bits[int(bit)]}:\n        {net} = {given[int(low) // width]};\n"
            for bit, low in branches
        )
        return (
            f"  always @*\n{found['told']}    case (1'b1)\n{lines}"
            f"      default:\n        {net} = {found['other']};\n    endcase\n"
        )

    text = CHOICE.sub(take, text)
    for net in nets:
        text = re.sub(rf"^  wire (\[\d+:0\] {re.escape(net)};)$", r"  reg \1", text, flags=re.M)
    return text
