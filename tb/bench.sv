// Test-bench modules around a fabric: probes on channels, off-chip memory, streams from and to the outside.
// Whatever lasts a whole run is kept by native.cpp; nothing here is synthesised.

`define PENSTOCK_CLASS(BITS) \
    begin : g_``BITS \
        import "DPI-C" function void penstock_dpi_write_``BITS(input int id, input int cycle, input int places, input int width, input bit [BITS-1:0] beat); \
        import "DPI-C" function void penstock_dpi_take_``BITS(input int id, input int cycle, input int width, input bit [BITS-1:0] beat); \
        always @(posedge clk) \
            if (!rst && w_valid && w_ready) penstock_dpi_write_``BITS(id, cycle, places, WIDTH, {{(BITS-WIDTH){1'b0}}, beat}); \
        /* A beat is taken in a later cycle than it is accepted, so the order of the two blocks does not matter. */ \
        always @(posedge clk) \
            if (!rst && r_valid && r_ready) penstock_dpi_take_``BITS(id, cycle, WIDTH, {{(BITS-WIDTH){1'b0}}, r_beat}); \
    end

// The number of the FIFO is a port: probes of one width are one module, of which an array has thousands.
module penstock_probe #(
    parameter int WIDTH = 8
) (
    input logic [31:0] id,
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic w_valid,
    input logic w_ready,
    input logic r_valid,
    input logic r_ready,
    input logic [31:0] places,
    input logic [WIDTH-1:0] beat,
    input logic [WIDTH-1:0] r_beat
);
    `PENSTOCK_CLASSES  // the narrowest class that holds WIDTH; bench.py writes it

`ifdef PENSTOCK_WAVES
    logic [3:0] stop;
    logic data;
    logic [8*24-1:0] text;  // ASCII: what the beat is, for the wave viewer
    assign {data, stop} = beat[WIDTH-1 -: 5];
    always_comb text = w_valid ? penstock_channels::describe(id, 32'(beat >> penstock_channels::tail(id)), stop, data) : "";
`endif
endmodule

// A change of reference counts that unit `id` posts.
module penstock_post_probe #(
    parameter int PAGE = 1,
    parameter int DELTA = 2
) (
    input logic [31:0] id,
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic valid,
    input logic [PAGE-1:0] page,
    input logic signed [DELTA-1:0] delta
);
    import "DPI-C" function void penstock_dpi_post(input int unit, input int cycle, input int page, input int change);
    always @(posedge clk) if (!rst && valid) penstock_dpi_post(id, cycle, 32'(page), int'(delta));
endmodule

// Tells of faults of unit `id`; the off-chip interconnect has the number after the last unit's.
module penstock_fault_probe (
    input logic [31:0] id,
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic [7:0] error
);
    import "DPI-C" function void penstock_dpi_fault(input int unit, input int cycle);
    always @(posedge clk) if (!rst && error != 0) penstock_dpi_fault(id, cycle);
endmodule

module penstock_bench_memory #(
    parameter int W = 1,
    parameter int N = 1,
    parameter int B = 64
) (
    input logic clk,
    input logic rst,
    input logic [31:0] cycle,
    input logic [W-1:0] req_valid,
    input logic req_write,
    input logic [`PENSTOCK_PORT_BITS-1:0] req_port,
    input logic [`PENSTOCK_TAG_BITS-1:0] req_group,
    input logic [W*32-1:0] req_addr,
    input logic [W*B*8-1:0] req_data,
    input logic [W*B-1:0] req_mask,
    output logic req_ready,
    output logic [N-1:0] rsp_valid,
    output logic [N*`PENSTOCK_PORT_BITS-1:0] rsp_port,
    output logic [N*`PENSTOCK_TAG_BITS-1:0] rsp_tag,
    output logic [N*B*8-1:0] rsp_data
);
    localparam int ASKED = (W + 31) / 32 * 32;  // whole words
    localparam int VALID = (N + 31) / 32 * 32;
    import "DPI-C" function void penstock_dpi_memory(
        input int cycle, input bit [ASKED-1:0] req_valid, input bit req_write, input int req_port, input int req_group, input bit [W*32-1:0] req_addr,
        input bit [W*B*8-1:0] req_data, input bit [W*B-1:0] req_mask, output bit [VALID-1:0] rsp_valid, output bit [N*32-1:0] rsp_port,
        output bit [N*32-1:0] rsp_tag, output bit [N*B*8-1:0] rsp_data);

    import "DPI-C" function bit penstock_dpi_request_ready(input int next);
    bit [VALID-1:0] valid;
    bit [N*32-1:0] port;
    bit [N*32-1:0] tag;
    bit [N*B*8-1:0] data;
    initial rsp_valid = '0;
    initial req_ready = '1;

    always @(posedge clk) begin
        req_ready <= penstock_dpi_request_ready(rst ? 0 : int'(cycle) + 1);
        if (rst) rsp_valid <= '0;
        else begin
            penstock_dpi_memory(cycle, req_ready ? ASKED'(req_valid) : '0, req_write, 32'(req_port), 32'(req_group), req_addr, req_data, req_mask, valid, port, tag, data);
            rsp_valid <= valid[N-1:0];
            for (int i = 0; i < N; i++) begin
                rsp_port[i*`PENSTOCK_PORT_BITS +: `PENSTOCK_PORT_BITS] <= port[i*32 +: `PENSTOCK_PORT_BITS];
                rsp_tag[i*`PENSTOCK_TAG_BITS +: `PENSTOCK_TAG_BITS] <= tag[i*32 +: `PENSTOCK_TAG_BITS];
            end
            rsp_data <= data;
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
    import "DPI-C" function bit penstock_dpi_source(input int index, input int next, input bit taken, output bit [`PENSTOCK_BEAT_BITS-1:0] beat);
    bit [`PENSTOCK_BEAT_BITS-1:0] beat;
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
