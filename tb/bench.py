"""The Verilog around a fabric: probes are inside it, memory, streams and the watch outside
(bench.sv).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.beat import Payload, Tile, beat_bits
from ..machine.limits import BEAT_BITS, BEAT_CLASSES, PORT_BITS, REGISTER_BITS, TAG_BITS, UNIT_BITS
from ..machine.unitgraph import UnitGraph

TOP = "penstock_bench"
PUBLIC = (
    "clk",
    "rst",
    "cfg_we",
    "cfg_addr",
    "cfg_data",
    "stat_addr",
    "stat_data",
    "cycle",
    "done",
    "error",
    "halt",
)


PROBE = {
    "penstock_probe": (
        "id",
        "cycle",
        "w_valid",
        "w_ready",
        "r_valid",
        "r_ready",
        "places",
        "beat",
        "r_beat",
    )
}
"""The module of a channel's probe, and its ports."""


def streams(graph: UnitGraph) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(unit, beat bits) of the graph's sources, and of its sinks, by unit id; positions in these
    lists are the agents' indices.
    """
    sources = [
        (u.id, beat_bits(graph.outputs(u.id)[0].payload))
        for u in graph.units
        if u.kind.name == "source"
    ]
    sinks = [
        (u.id, beat_bits(graph.inputs(u.id)[0].payload))
        for u in graph.units
        if u.kind.name == "sink"
    ]
    return sources, sinks


def limits() -> str:
    """Macros with the widths of machine/limits.py for bench.sv."""
    chain = " else ".join(f"if (WIDTH <= {bits}) `PENSTOCK_CLASS({bits})" for bits in BEAT_CLASSES)
    return f"""`define PENSTOCK_PORT_BITS {PORT_BITS}
`define PENSTOCK_TAG_BITS {TAG_BITS}
`define PENSTOCK_BEAT_BITS {BEAT_BITS}
`define PENSTOCK_CLASSES {chain}
"""


def wrapper(
    *,
    fabric: str,
    lanes: int,
    responses: int,
    line: int,
    memory: bool,
    sources: Sequence[tuple[int, int]],
    sinks: Sequence[tuple[int, int]],
    further: Sequence[tuple[str, int, str]] = (),
) -> str:
    """SystemVerilog of the bench top around a module with the ports of docs/top.md.

    Parameters
    ----------
    fabric
        Name of the module.
    lanes, responses
        W and N of docs/top.md.
    line
        Bytes of a line.
    memory
        Whether the fabric has a memory port.
    sources, sinks
        (unit, bits of a beat) of each.
    further
        (direction, bits, name) of ports of the fabric that the bench top has, too.
    """
    w = lanes
    n = responses
    body = (
        [
            f"  logic {d};"
            for d in (
                f"[{w}-1:0] mem_req_valid",
                "mem_req_write",
                f"[{PORT_BITS}-1:0] mem_req_port",
                f"[{TAG_BITS}-1:0] mem_req_group",
                f"[{w * 32}-1:0] mem_req_addr",
                f"[{w * 8 * line}-1:0] mem_req_data",
                f"[{w * line}-1:0] mem_req_mask",
                "mem_req_ready",
                f"[{n}-1:0] mem_rsp_valid",
                f"[{n * PORT_BITS}-1:0] mem_rsp_port",
                f"[{n * TAG_BITS}-1:0] mem_rsp_tag",
                f"[{n * 8 * line}-1:0] mem_rsp_data",
            )
        ]
        if memory
        else []
    )
    ports = [*PUBLIC[:-1]]
    if memory:
        names = [
            "req_valid",
            "req_write",
            "req_port",
            "req_group",
            "req_addr",
            "req_data",
            "req_mask",
            "req_ready",
            "rsp_valid",
            "rsp_port",
            "rsp_tag",
            "rsp_data",
        ]
        ports += [f"mem_{x}" for x in names]
        joined = ", ".join(f".{x}(mem_{x})" for x in names)
        instance = f"penstock_bench_memory #(.W({w}), .N({n}), .B({line})) memory"
        body.append(f"  {instance} (.clk, .rst, .cycle, {joined});")
    for prefix, module, units in (
        ("src", "penstock_bench_source", sources),
        ("snk", "penstock_bench_sink", sinks),
    ):
        for index, (unit, bits) in enumerate(units):
            s = f"{prefix}{unit}"
            body.append(f"  logic [{bits}-1:0] {s}_payload; logic {s}_valid, {s}_ready;")
            body.append(
                f"  {module} #(.INDEX({index}), .WIDTH({bits})) {s} (.clk, .rst, .cycle, "
                f".payload({s}_payload), .valid({s}_valid), .ready({s}_ready));"
            )
            ports += [f"{s}_payload", f"{s}_valid", f"{s}_ready"]
    ports += [name for _, _, name in further]
    connections = ", ".join(f".{p}({p})" for p in ports)
    newline = "\n"
    holes = "".join(f",\n  {way} bit [{bits - 1}:0] {name}" for way, bits, name in further)
    return f"""module {TOP} (
  input logic clk, input logic rst, input logic cfg_we, input logic [{REGISTER_BITS}-1:0] cfg_addr,
  input logic [31:0] cfg_data, input logic [{UNIT_BITS + 2}-1:0] stat_addr,
  output logic [31:0] stat_data, output logic [31:0] cycle,
  output logic done, output logic [7:0] error, output logic halt{holes}
);
{newline.join(body)}
  penstock_bench_watch watch (.clk, .rst, .cycle, .done, .error, .halt);
  {fabric} fabric ({connections});
endmodule
"""


def channel_package(graph: UnitGraph) -> str:
    """SystemVerilog package that decodes beats for the probe of a waves build."""

    def cases(f) -> str:
        return "\n".join(f"      {c.id}: return {f(c.payload)};" for c in graph.channels)

    def tail(p: Payload) -> int:
        return p.t * p.t * p.element_bits if isinstance(p, Tile) else 0

    def describe(p: Payload) -> str:
        if isinstance(p, Tile):
            mask = 2**p.count_bits - 1
            return f'$sformatf("%0dx%0d%s", low & {mask}, (low >> {p.count_bits}) & {mask}, mark)'
        return '$sformatf("%0h%s", low, mark)'

    return f"""package penstock_channels;
  // Bits below the part of the payload that describe() shows.
  function automatic int tail(input int id);
    case (id)
{cases(tail)}
      default: return 0;
    endcase
  endfunction
  function automatic bit [8*24-1:0] text(input string s);
    text = '0;
    for (int i = 0; i < s.len() && i < 24; i++) text = (text << 8) | (8*24)'(s.getc(i));
  endfunction
  function automatic string line(input int id, input bit [31:0] low, input string mark);
    case (id)
{cases(describe)}
      default: return mark;
    endcase
  endfunction
  function automatic bit [8*24-1:0] describe(
      input int id, input bit [31:0] low, input bit [3:0] stop, input bit data);
    if (!data) return text(stop == 15 ? "Done" : $sformatf("empty S%0d", stop));
    return text(line(id, low, stop != 0 ? $sformatf(" S%0d", stop) : ""));
  endfunction
endpackage
"""
