"""Exported Verilog as simulators like it: operators as functions, choices as cases.

A module without a clock becomes a function of the modules that instantiate it
(:func:`with_functions`). A simulator evaluates an instance whenever its inputs change, with code of
its own for each. A function is compiled once, and is called only where its result is taken: by the
registers of a pipeline stage that holds something. An array of 16 x 16 x 16 products has 256 dot
products of 31 operators each; idle, it then costs next to nothing. The function's body is the
module's netlist as Yosys writes it, in dependency order. Where an instance was, the one reader of
its output calls the function.

Yosys writes a choice of many as a function of all values side by side, whose ``casez`` has a
pattern for each. Verilator makes a table of all values of the selecting bits of that; so patterns
become bits (:func:`with_bits`). And it joins the values, word by word, wherever the function is
called; so where the values are beats, a ``case`` copies the one that is chosen
(:func:`with_cases`). In the switches of an array both is most of the code.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

OPERATOR = "operator"
"""Modules of this kind leave as functions."""
NAME = r"(?:\\\S+ |[A-Za-z_]\w*)"
ATTRIBUTES = r"(?:^ *\(\*[^\n]*\*\)\n)*"
MODULE = re.compile(rf"\n?{ATTRIBUTES}^module (\w+)\([^)]*\);\n(.*?)^endmodule\n", re.M | re.S)
DECLARATION = re.compile(rf"  (input|output|wire) (signed )?(\[\d+:0\] )?({NAME});")
ASSIGNMENT = re.compile(r"  assign (.+?) = (.+);")
CONNECTION = re.compile(r"^    \.(\w+)\((.*?)\),?$", re.M)
MODULES = re.compile(r"^module (\w+)\(.*?^endmodule\n", re.M | re.S)
PATTERN = re.compile(r"^      (\d+)'b(\?*)1(\?*):$", re.M)
CHOICE = re.compile(
    rf"""  function \[(?P<high>\d+):0\] (?P<name>select_\d+);
    input \[\d+:0\] a;
    input \[\d+:0\] b;
    input \[\d+:0\] s;
(?P<attributes>(?:    \(\*.*\*\)\n)*)    case \(1'b1\)
(?P<branches>(?:      s\[\d+\]:\n        (?P=name) = b\[\d+:\d+\];\n)+)      default:
        (?P=name) = a;
    endcase
  endfunction
  assign (?P<net>{NAME}) = (?P=name)\((?P<other>[^,]+), \{{ (?P<given>.*) \}}, \{{ (?P<by>.*) \}}\);
"""
)
BRANCH = re.compile(r"      s\[(\d+)\]:\n        select_\d+ = b\[\d+:(\d+)\];\n")


@dataclass(frozen=True)
class Function:
    """A module without a clock, as a function."""

    inputs: tuple[str, ...]  # names of its arguments in their order
    output: str  # name of the port that its value was
    verilog: str  # its definition


def with_functions(verilog: str, operators: Collection[str]) -> str:
    """A design whose modules ``operators`` are functions instead.

    Raises ``ValueError`` if one of them has anything but declarations and assignments, or a loop.
    """
    if not operators:
        return verilog
    bodies = {found[1]: found[2] for found in MODULE.finditer(verilog)}
    functions = {name: _function(name, bodies[name]) for name in operators}
    return MODULE.sub(lambda found: _with_calls(found, functions), verilog)


def _with_calls(found: re.Match, functions: dict[str, Function]) -> str:
    """A module that calls functions where it had instances; nothing if it is a function itself."""
    if found[1] in functions:
        return ""
    calls: dict[str, str] = {}
    used: dict[str, Function] = {}

    def take(instance: re.Match) -> str:
        function = used[instance[1]] = functions[instance[1]]
        nets = dict(CONNECTION.findall(instance[2]))
        arguments = ", ".join(nets[name] for name in function.inputs)
        calls[nets[function.output]] = f"{instance[1]}({arguments})"
        return ""

    kinds = "|".join(map(re.escape, functions))
    instances = rf"{ATTRIBUTES}^  ({kinds}) {NAME} ?\(\n(.*?)^  \);\n"
    body = re.sub(instances, take, found[2], flags=re.M | re.S)
    if not calls:
        return found[0]
    body = _called(body, calls)
    definitions = "".join(function.verilog for function in used.values())
    head = found[0][: found.start(2) - found.start()]
    return f"{head}{definitions}{body}endmodule\n"


def _called(body: str, calls: dict[str, str]) -> str:
    """A module's body with calls in place of the nets that instances drove."""
    nets = "|".join(map(re.escape, calls))
    reads = rf"(?<![\w$\\])(?:{nets})(?![\w$])"
    body = re.sub(rf"{ATTRIBUTES}^  wire [^;\n]*?(?:{nets});\n", "", body, flags=re.M)
    ports = re.findall(rf"^  output [^;\n]*?({nets});\n", body, flags=re.M)
    body, count = re.subn(reads, lambda net: calls[net[0]], body)
    if ports or count != len(calls):
        raise ValueError(f"Results of operators must have one reader each: {', '.join(calls)}")
    return body


def _function(name: str, body: str) -> Function:
    """The function that a module is; nets of expressions are ``_1_``, ``_2_``, ..

    Attributes become comments, for Icarus takes none in a function.
    """
    body = re.sub(r"\\\$(\d+) ", r"_\1_", body)
    inputs: dict[str, str] = {}
    local: dict[str, str] = {}
    output = shape = attributes = ""
    assignments = []
    for line in body.splitlines():
        if line.startswith("  (*"):
            attributes += f"    // {line[4:-2].strip()}\n"
        elif found := DECLARATION.fullmatch(line):
            kind, signed, bits, net = found.groups(default="")
            if kind == "input":
                inputs[net] = f"{attributes}    input {bits}{net};\n"
            elif kind == "output":
                output = net
                shape = bits
            else:
                local[net] = f"{attributes}    reg {signed}{bits}{net};\n"
            attributes = ""
        elif found := ASSIGNMENT.fullmatch(line):
            assignments.append((found[1], found[2]))
            attributes = ""
        else:
            raise ValueError(f"Operator {name} has more than declarations and assignments: {line}")
    order = sorted(inputs)
    declared = "".join(inputs[net] for net in order)
    declared += "".join(text for net, text in local.items() if net not in inputs and net != output)
    statements = "".join(
        f"      {name if target == output else target} = {value};\n"
        for target, value in _in_order(name, assignments)
    )
    return Function(
        tuple(order),
        output,
        f"  function automatic {shape}{name};\n{declared}    /* verilator no_inline_task */\n"
        f"    begin\n{statements}    end\n  endfunction\n",
    )


def _in_order(name: str, left: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Assignments so that each reads only what stands above it."""
    done = []
    while left:
        waiting = set().union(*(_nets(target) for target, _ in left))
        ready = [not _nets(value) & waiting for _, value in left]
        if not any(ready):
            raise ValueError(f"Operator {name} has a combinational loop")
        done += [item for item, now in zip(left, ready, strict=True) if now]
        left = [item for item, now in zip(left, ready, strict=True) if not now]
    return done


def _nets(expression: str) -> set[str]:
    return set(re.findall(NAME, re.sub(r"\d+'s?[bdh][0-9a-f]+|(?<!\\)\$\w+", "", expression)))


def with_bits(verilog: str) -> str:
    """A design whose choices ask for each selecting bit in turn."""
    verilog = verilog.replace("    casez (s)\n", "    case (1'b1)\n")
    return PATTERN.sub(lambda found: f"      s[{len(found[3])}]:", verilog)


def with_cases(verilog: str, modules: Collection[str]) -> str:
    """A design (:func:`with_bits`) in whose ``modules`` a choice is no function."""
    wanted = set(modules)
    return MODULES.sub(lambda x: _with_cases(x[0]) if x[1] in wanted else x[0], verilog)


def _with_cases(text: str) -> str:
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
            f"  always @*\n{found['attributes']}    case (1'b1)\n{lines}"
            f"      default:\n        {net} = {found['other']};\n    endcase\n"
        )

    text = CHOICE.sub(take, text)
    for net in nets:
        text = re.sub(rf"^  wire (\[\d+:0\] {re.escape(net)};)$", r"  reg \1", text, flags=re.M)
    return text
