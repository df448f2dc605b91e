"""Wires between the parts of an array."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In
from penstock.hw.export.module_key import module_key
from penstock.hw.export.place import Library, widened


def test_thin_wires_have_their_bits_in_every_module():
    def convert(_component, name):
        return f"module \\{name}\n  wire width 1 \\thin69__link\nend\n"

    key = module_key("site", {})
    library = Library(convert)
    library.add(wiring.Component({"i": In(1)}), key)
    module = library.modules[key.name]
    assert "attribute \\thin 69\n  wire width 1 \\link\n" in module
    verilog = "  (* thin = 32'd69 *)\n  output link;\n  wire link;\n"  # as Yosys writes it
    assert widened(verilog) == "  output [68:0] link;\n  wire [68:0] link;\n"
