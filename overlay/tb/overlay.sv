// Probes of an overlay: what is written to the value memories, and what is on the links.
// Whatever lasts a whole run is kept by overlay.cpp; nothing here is synthesised.

// A write to the value memory of PE `ID`.
module penstock_write_probe #(
    parameter int ID = 0,
    parameter int ADDRESS = 1,
    parameter int DATA = 32
) (
    input logic clk,
    input logic running,
    input logic valid,
    input logic [ADDRESS-1:0] address,
    input logic [DATA-1:0] data
);
    import "DPI-C" function void penstock_overlay_write(input int pe, input int address, input bit [63:0] data);
    always @(posedge clk) if (running && valid) penstock_overlay_write(ID, 32'(address), 64'(data));
endmodule

// A token that a router puts on a link, or that a link's register holds.
module penstock_link_probe #(
    parameter int ID = 0,
    parameter int TOKEN = 32
) (
    input logic clk,
    input logic running,
    input logic valid,
    input logic ready,
    input logic [TOKEN-1:0] token
);
    import "DPI-C" function void penstock_overlay_link(input int link, input bit [191:0] token);
    always @(posedge clk) if (running && valid && ready) penstock_overlay_link(ID, 192'(token));
endmodule

// The register of a link without valid bit: its value in the first cycle of a run, and wherever it changes.
module penstock_wire_probe #(
    parameter int ID = 0,
    parameter int VALUE = 32
) (
    input logic clk,
    input logic running,
    input logic [VALUE-1:0] value
);
    import "DPI-C" function void penstock_overlay_link(input int link, input bit [191:0] token);
    logic ran = '0;
    logic [VALUE-1:0] last = '0;
    always @(posedge clk) begin
        ran <= running;
        last <= value;
        if (running && (!ran || value != last)) penstock_overlay_link(ID, 192'(value));
    end
endmodule
