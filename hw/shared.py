"""Dot products in the Verilog form that simulates fast: operators as functions, called only by full
stages.

An array of 16 x 16 x 16 products holds 256 dot products of 31 operators each. Exported as it
stands, every simulator evaluates all of them in every cycle, in code of its own for each instance.
:func:`share` exchanges the modules of :class:`~penstock.hw.arith.dot.Dot` in an exported design for
equivalent ones in which the stage registers are assigned ``if (valid)`` from a call of one function
per operator. Verilator compiles each function once (``no_inline_task``), and an idle array costs it
next to nothing. Yosys proves the two forms equal in ``tests/arith/test_arith_shared.py``.

A function's body is the netlist of the operator's combinational logic, as Yosys writes it, in
dependency order.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypedDict

from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..machine.functions import dot_stages
from ..system import children
from .arith.add import fp32_add
from .arith.mul import bf16_mul, fp32_mul
from .yosys import yosys

__all__ = ["dot_verilog", "operators_verilog", "share"]

PACKAGE = "penstock_arith"
OPERATORS: dict[str, tuple[Callable, int]] = {
    "fp32_add": (fp32_add, 32),
    "fp32_mul": (fp32_mul, 32),
    "bf16_mul": (bf16_mul, 16),
}


class Dot(TypedDict):
    """Parameters of a dot product: its length, and its elements."""

    t: int
    dtype: str


class _Operator(wiring.Component):
    def __init__(self, *, function: Callable, width: int):
        self._function = function
        super().__init__({"a": In(width), "b": In(width), "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self._function(m, self.a, self.b, name="x"))
        return m


def _names(expression: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\d+'s?[bdh][0-9a-f]+|\$\w+", "", expression)))


def _function(name: str) -> str:
    """The operator ``name`` as a Verilog function of ``a`` and ``b``."""
    function, width = OPERATORS[name]
    with children.temporary() as folder:
        (folder / "in.il").write_text(
            rtlil.convert(_Operator(function=function, width=width), name=name, emit_src=False),
            encoding="utf-8",
        )
        yosys(
            "read_rtlil in.il; proc; opt_expr; opt_clean -purge; write_verilog -noattr out.v",
            folder,
        ).check_returncode()
        text = (folder / "out.v").read_text(encoding="utf-8")

    local = []
    left = []
    lines = []
    for line in text.splitlines():
        if match := re.fullmatch(r"  wire (signed )?(\[\d+:0\] )?(\w+);", line):
            if match[3] not in ("a", "b", "o"):
                local.append(f"    reg {match[1] or ''}{match[2] or ''}{match[3]};\n")
        elif match := re.fullmatch(r"  assign (.+?) = (.+);", line):
            left.append((match[1], match[2]))
        elif not re.match(r"/\*|module |  (input|output) |endmodule|$", line):
            raise AssertionError(
                f"Netlist of '{name}' has a line that is no declaration and no assignment: {line!r}"
            )
    while left:
        waiting = set().union(*(_names(target) for target, _ in left))
        ready = [not _names(value) & waiting for _, value in left]
        if not any(ready):
            raise AssertionError(f"Netlist of '{name}' has a combinational loop")
        lines += [
            f"      {name if target == 'o' else target} = {value};\n"
            for (target, value), now in zip(left, ready, strict=False)
            if now
        ]
        left = [item for item, now in zip(left, ready, strict=False) if not now]
    return (
        f"  function automatic [31:0] {name}(input [{width - 1}:0] a, input [{width - 1}:0] b);\n"
        "    /* verilator no_inline_task */\n"
        f"{''.join(local)}    begin\n{''.join(lines)}    end\n  endfunction\n"
    )


@cache
def operators_verilog() -> str:
    """The package of operator functions, SystemVerilog."""
    return f"package {PACKAGE};\n{''.join(map(_function, OPERATORS))}endpackage\n"


def dot_verilog(*, t: int, dtype: str, name: str) -> str:
    """A module with the ports and the behaviour of ``Dot(t=t, dtype=dtype)``; it needs
    :func:`operators_verilog`.
    """
    width = {"bf16": 16, "fp32": 32}[dtype]
    levels = dot_stages(t) - 1
    registers = []
    stages = []
    for level in range(1, levels + 1):
        count = t >> level - 1
        valid = "en" if level == 1 else f"s{level - 1}_valid"
        registers += [f"  reg [31:0] s{level}_term{k} = 0;\n" for k in range(count)] + [
            f"  reg s{level}_valid = 0;\n"
        ]
        body = ""
        for k in range(count):
            if level == 1:
                call = f"{PACKAGE}::{dtype}_mul(a[{k * width}+:{width}], b[{k * width}+:{width}])"
            else:
                call = (
                    f"{PACKAGE}::fp32_add(s{level - 1}_term{2 * k}, s{level - 1}_term{2 * k + 1})"
                )
            body += f"      s{level}_term{k} <= {call};\n"
        stages.append(
            f"  always @(posedge clk) begin\n    if ({valid}) begin\n{body}    end\n"
            f"    s{level}_valid <= rst ? 1'b0 : {valid};\n  end\n"
        )
    # Last stage first: each is read before it is written, which spares Verilator a copy of every
    # register.
    return (
        f"module {name}(clk, rst, en, a, b, o);\n  input clk, rst, en;\n  input "
        f"[{t * width - 1}:0] a, b;\n"
        f"  output reg [31:0] o;\n{''.join(registers)}{''.join(reversed(stages))}"
        f"  always @* begin\n    o = 0;\n    if (s{levels}_valid)\n"
        f"      o = {PACKAGE}::fp32_add(s{levels}_term0, s{levels}_term1);\n  end\nendmodule\n"
    )


def share(verilog: str, dots: Mapping[str, Dot]) -> str:
    """An exported design with its dot products in the form of :func:`dot_verilog`.

    ``dots``: module name -> parameters, of the export's modules of kind ``dot``; a design
    without any is returned as it is. The result is SystemVerilog and needs no ``hier_block``.
    """
    for name, parameters in dots.items():
        replacement = dot_verilog(t=parameters["t"], dtype=parameters["dtype"], name=name)
        start, end = _module(verilog, name)
        verilog = verilog[:start] + replacement + verilog[end:]
    return operators_verilog() + verilog if dots else verilog


def _module(verilog: str, name: str) -> tuple[int, int]:
    """Where the module ``name`` with its attributes begins and ends."""
    pattern = rf"(?:\(\*[^\n]*\*\)\n)*^module {name}\(.*?^endmodule\n"
    found = re.search(pattern, verilog, re.M | re.S)
    if found is None:
        raise LookupError(f"Verilog has no module '{name}'")
    return found.span()
