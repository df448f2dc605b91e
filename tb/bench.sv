// Test-bench modules around a fabric: probes on channels, off-chip memory, streams from and to the outside.
// Whatever lasts a whole run is kept by native.cpp; nothing here is synthesised.

`define PENSTOCK_CLASS(BITS) \
    begin : g_``BITS \
        import "DPI-C" function void penstock_dpi_write_``BITS(input int id, input int cycle, input int width, input bit [BITS-1:0] beat); \
        always @(posedge clk) \
            if (!rst && w_valid && w_ready) penstock_dpi_write_``BITS(ID, cycle, WIDTH, {{(BITS-WIDTH){1'b0}}, beat}); \
    end

module penstock_probe #(
    parameter int ID = 0,
    parameter int WIDTH = 8
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic w_valid,
    input logic w_ready,
    input logic r_valid,
    input logic r_ready,
    input logic [WIDTH-1:0] beat
);
    import "DPI-C" function void penstock_dpi_take(input int id, input int cycle);

    if (WIDTH <= 128) `PENSTOCK_CLASS(128)
    else if (WIDTH <= 1024) `PENSTOCK_CLASS(1024)
    else if (WIDTH <= 4352) `PENSTOCK_CLASS(4352)
    else if (WIDTH <= 8448) `PENSTOCK_CLASS(8448)
    else `PENSTOCK_CLASS(17408)

    // A beat is taken in a later cycle than it is accepted, so the order of the two blocks does not matter.
    always @(posedge clk) if (!rst && r_valid && r_ready) penstock_dpi_take(ID, cycle);

`ifdef PENSTOCK_WAVES
    logic [3:0] stop;
    logic data;
    logic [8*24-1:0] text;  // ASCII: what the beat is, for the wave viewer
    assign {data, stop} = beat[WIDTH-1 -: 5];
    always_comb text = w_valid ? penstock_channels::describe(ID, 32'(beat >> penstock_channels::tail(ID)), stop, data) : "";
`endif
endmodule

module penstock_bench_memory #(
    parameter int W = 1,
    parameter int N = 1
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic [W-1:0] req_valid,
    input logic req_write,
    input logic [7:0] req_port,
    input logic [15:0] req_group,
    input logic [W*32-1:0] req_addr,
    input logic [W*512-1:0] req_data,
    input logic [W*64-1:0] req_mask,
    output logic [N-1:0] rsp_valid,
    output logic [N*8-1:0] rsp_port,
    output logic [N*16-1:0] rsp_tag,
    output logic [N*512-1:0] rsp_data
);
    import "DPI-C" function void penstock_dpi_memory(
        input int cycle, input bit [31:0] req_valid, input bit req_write, input int req_port, input int req_group, input bit [16*32-1:0] req_addr,
        input bit [16*512-1:0] req_data, input bit [16*64-1:0] req_mask, output bit [31:0] rsp_valid, output bit [16*8-1:0] rsp_port,
        output bit [16*16-1:0] rsp_tag, output bit [16*512-1:0] rsp_data);

    bit [31:0] valid;
    bit [16*8-1:0] port;
    bit [16*16-1:0] tag;
    bit [16*512-1:0] data;
    initial rsp_valid = '0;

    always @(posedge clk) begin
        if (rst) rsp_valid <= '0;
        else begin
            penstock_dpi_memory(cycle, 32'(req_valid), req_write, 32'(req_port), 32'(req_group), (16*32)'(req_addr), (16*512)'(req_data),
                                (16*64)'(req_mask), valid, port, tag, data);
            rsp_valid <= valid[N-1:0];
            rsp_port <= port[N*8-1:0];
            rsp_tag <= tag[N*16-1:0];
            rsp_data <= data[N*512-1:0];
        end
    end
endmodule

module penstock_bench_source #(
    parameter int INDEX = 0,
    parameter int WIDTH = 8
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    output logic [WIDTH-1:0] payload,
    output logic valid,
    input logic ready
);
    import "DPI-C" function bit penstock_dpi_source(input int index, input int next, input bit taken, output bit [17407:0] beat);
    bit [17407:0] beat;
    bit offered;
    initial valid = '0;
    always @(posedge clk) begin
        offered = penstock_dpi_source(INDEX, rst ? 0 : int'(cycle) + 1, !rst && valid && ready, beat);
        valid <= offered;
        payload <= offered ? beat[WIDTH-1:0] : '0;
    end
endmodule

module penstock_bench_sink #(
    parameter int INDEX = 0,
    parameter int WIDTH = 8
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic [WIDTH-1:0] payload,
    input logic valid,
    output logic ready
);
    import "DPI-C" function bit penstock_dpi_sink(input int index, input int next, input bit taken);
    initial ready = '0;
    always @(posedge clk) ready <= penstock_dpi_sink(INDEX, rst ? 0 : int'(cycle) + 1, !rst && valid && ready);
endmodule

module penstock_bench_watch (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic done,
    input logic [7:0] error,
    output logic halt
);
    import "DPI-C" function bit penstock_dpi_tick(input int cycle, input bit done, input int error);
    initial halt = '0;
    always @(posedge clk) if (rst) halt <= '0; else halt <= penstock_dpi_tick(cycle, done, 32'(error));
endmodule

// Switches for a unit that is deliberately wrong; constant during a run.
module penstock_mutation #(
    parameter int KIND = 0
) (
    input logic clk,
    output logic late,
    output logic slow,
    output logic wrong
);
    import "DPI-C" function int penstock_dpi_mutation(input int kind);
    initial {wrong, slow, late} = '0;
    always @(posedge clk) {wrong, slow, late} <= 3'(penstock_dpi_mutation(KIND));
endmodule
