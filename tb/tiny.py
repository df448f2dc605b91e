"""A hand-written fabric: one source, one FIFO channel, one sink.

What the bench must see is known without a model.
"""

import numpy as np

from ..machine.beat import Scalar, beat_bits
from ..machine.kinds.ends import Sink, Source
from ..machine.unitgraph import Channel, Unit, UnitGraph
from .exported import Design

PAYLOAD = Scalar(40)
WIDTH = beat_bits(PAYLOAD)


def graph() -> UnitGraph:
    return UnitGraph(
        "tiny",
        2,
        (Unit(0, "in", Source()), Unit(1, "out", Sink())),
        (Channel(0, "in_out", (0, 0), (1, 0), 2, PAYLOAD),),
    )


def design(*, broken: str = "") -> Design:
    """``broken``: 'late' delays Done's flag for ever, 'loses' forgets the payload's top bit,
    'flags' raises an error.
    """
    text = f"""
module penstock_fabric (
  input clk, input rst, input cfg_we, input [15:0] cfg_addr, input [31:0] cfg_data,
  input [15:0] stat_addr, output [31:0] stat_data,
  output reg [31:0] cycle, output done, output [7:0] error,
  input [{WIDTH - 1}:0] src0_payload, input src0_valid, output src0_ready,
  output [{WIDTH - 1}:0] snk1_payload, output snk1_valid, input snk1_ready
);
  reg [{WIDTH - 1}:0] mem [0:1];
  reg [1:0] level;
  reg wp, rp, ended;
  reg [31:0] config_register = 0;
  assign src0_ready = level < 2;
  assign snk1_valid = level != 0;
  assign snk1_payload = mem[rp];
  assign stat_data = {{config_register[15:0], stat_addr}};
  wire last = snk1_valid && !snk1_payload[{WIDTH - 1}];
  assign done = {"0" if broken == "late" else "(last || ended)"};
  assign error = {"level == 2" if broken == "flags" else "0"};
  wire push = src0_valid && src0_ready, pop = snk1_valid && snk1_ready;
  wire [{WIDTH - 1}:0] beat = src0_payload{f" & ~({WIDTH}'d1 << 39)" if broken == "loses" else ""};
  always @(posedge clk) begin
    if (cfg_we) config_register <= cfg_data + cfg_addr;
    if (rst) begin cycle <= 0; level <= 0; wp <= 0; rp <= 0; ended <= 0; end
    else begin
      cycle <= cycle + 1;
      if (push) begin mem[wp] <= beat; wp <= !wp; end
      if (pop) rp <= !rp;
      level <= level + push - pop;
      if (last) ended <= 1;
    end
  end
  penstock_probe #(.WIDTH({WIDTH})) p0 (.id(0), .clk(clk), .rst(rst), .cycle(cycle),
    .w_valid(src0_valid), .w_ready(src0_ready),
    .r_valid(snk1_valid), .r_ready(snk1_ready), .places(2), .beat(beat), .r_beat(snk1_payload));
endmodule
"""
    return Design(graph(), {"fabric.v": text}, "penstock_fabric")


def fifo(release, sink, depth=2):
    """(accept, take) of every beat by the channel rule."""
    accept = []
    take = []
    for i, r in enumerate(release):
        a = max(r, accept[-1] + 1 if accept else 0, take[i - depth] + 1 if i >= depth else 0)
        accept.append(a)
        take.append(max(a + 1, take[-1] + 1 if take else 0, sink[i] if i < len(sink) else 0))
    return np.array(accept), np.array(take)
