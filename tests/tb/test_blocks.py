"""Blocks that are compiled apart: their ports, and the wires between their parts."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In
from penstock.hw.module_key import module_key
from penstock.hw.place import Library
from penstock.tb.array import two_state

VERILOG = """module penstock_site_A(i, clk, o, p);
  input [7:0] i;
  wire [7:0] i;
  input clk;
  wire clk;
  output [7:0] o;
  wire [7:0] o;
  output p;
  reg p = 1'h0;
  wire [7:0] between;
endmodule
"""


def test_ports_of_a_block_have_two_states():
    other = VERILOG.replace("site_A", "slot_A")
    changed = two_state(VERILOG + other, ["penstock_site_A"])
    block, rest = changed.split("endmodule\n", 1)
    assert rest == other
    assert block == (
        "module penstock_site_A(i, clk, o, p);\n"
        "  input bit [7:0] i;\n  input bit clk;\n  output bit [7:0] o;\n  output bit p = 1'h0;\n"
        "  wire [7:0] between;\n"
    )


def test_thin_wires_have_their_bits_in_every_module():
    def convert(_component, name):
        return f"module \\{name}\n  wire width 1 \\thin69__link\nend\n"

    key = module_key("site", {})
    library = Library(convert)
    library.add(wiring.Component({"i": In(1)}), key)
    assert "wire width 69 \\thin69__link" in library.modules[key.name]
