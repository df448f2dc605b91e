"""Modules of a fabric that a simulator compiles as one class."""

from __future__ import annotations

from penstock.tb.exported import ALIKE_TEXT, repeated_modules


def verilog(instances: int, size: int) -> str:
    """A top with ``instances`` of a module of ``size`` characters."""
    head = "module penstock_unit(clk);\n"
    end = "endmodule\n"
    body = "x" * (size - len(head) - len(end))
    rows = "".join(f"  penstock_unit u{i} (.clk(clk));\n" for i in range(instances))
    return f"{head}{body}\n{end}module top(clk);\n{rows}{end}"


def test_a_module_that_would_stand_often_is_one_class():
    assert repeated_modules(verilog(3, ALIKE_TEXT // 2)) == ["penstock_unit"]


def test_a_small_one_and_one_that_stands_once_are_not():
    assert repeated_modules(verilog(3, ALIKE_TEXT // 4)) == []
    assert repeated_modules(verilog(1, 2 * ALIKE_TEXT)) == []
