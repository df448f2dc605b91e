"""A top that is cut at the instances of some modules."""

import pytest
from penstock.machine.errors import RunError
from penstock.tb.cut import REST, closure, cut, modules_of

VERILOG = """module penstock_site_A(i, clk, rst, o, \\a.b );
  input [7:0] i;
  wire [7:0] i;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output [7:0] o;
  reg [7:0] o = 8'h00;
  \\penstock_inner.counts  counts (
    .clk(clk)
  );
endmodule
module \\penstock_inner.counts (clk);
  input clk;
endmodule
module penstock_other(clk);
  input clk;
endmodule
module penstock_array(clk, rst, given, seen);
  input clk;
  input rst;
  input [7:0] given;
  output [7:0] seen;
  wire [7:0] between;
  wire [7:0] \\looked.at ;
  assign seen = \\looked.at ;
  penstock_site_A first (
    .clk(clk),
    .i({ given[3:0], 4'h0 }),
    .o(between),
    .rst(rst)
  );
  penstock_site_A second (
    .clk(clk),
    .i(between),
    .o(\\looked.at ),
    .rst(rst)
  );
endmodule
"""


def test_a_wire_between_two_parts_is_a_link_and_the_others_are_holes():
    found = cut(modules_of(VERILOG), "penstock_array", ["penstock_site_A"])
    assert found.instances == {"first": "penstock_site_A", "second": "penstock_site_A"}
    assert found.links == [
        ((REST, "at_first_i"), ("first", "i")),
        (("second", "o"), (REST, "at_second_o")),
        (("first", "o"), ("second", "i")),
    ]
    assert found.holes == [("output", 8, "at_first_i"), ("input", 8, "at_second_o")]
    assert "penstock_site_A" not in found.rest
    assert "assign at_first_i = { given[3:0], 4'h0 };" in found.rest
    assert "assign \\looked.at = at_second_o;" in found.rest


def test_a_wire_that_the_top_reads_is_no_link():
    text = VERILOG.replace("assign seen = \\looked.at", "assign seen = between ^ \\looked.at")
    found = cut(modules_of(text), "penstock_array", ["penstock_site_A"])
    assert (("first", "o"), (REST, "at_first_o")) in found.links
    assert ((REST, "at_second_i"), ("second", "i")) in found.links


def test_a_clock_of_its_own_is_refused():
    text = VERILOG.replace(".clk(clk),\n    .i(between)", ".clk(other),\n    .i(between)")
    with pytest.raises(RunError, match="clk is not the top's"):
        cut(modules_of(text), "penstock_array", ["penstock_site_A"])


def test_a_part_has_the_modules_that_it_instantiates():
    text = closure(modules_of(VERILOG), "penstock_site_A")
    assert "module \\penstock_inner.counts (" in text
    assert "penstock_other" not in text
