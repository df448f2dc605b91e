"""A Verilog bench of an exported fabric, from docs/top.md and the JSON sidecar alone: nothing of
Penstock is imported.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import ml_dtypes

LINE = 64
ENDLESS = 2_000
QUICK = "-O0"
VERILATOR = {
    **dict.fromkeys(("OPT_FAST", "OPT_SLOW", "OPT_GLOBAL"), QUICK),
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_CXXFLAGS_STD": "-std=c++20",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
}
"""What its makefiles are given: its wheel knows no compiler. Building takes longer than running."""
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp32": np.dtype(np.float32)}


@dataclass
class Ran:
    """Outcome seen by the bench: cycles, error bits, output tensors, beats of each sink in order
    (Done among them).
    """

    cycles: int = 0
    error: int = 0
    outputs: dict = field(default_factory=dict)
    sinks: dict = field(default_factory=dict)


def packed(fields, **values):
    """A beat: each field's value at its place."""
    return sum(int(v) << fields[name]["offset"] for name, v in values.items())


def unpacked(fields, beat):
    return {name: beat >> f["offset"] & (1 << f["bits"]) - 1 for name, f in fields.items()}


def image(sidecar, tensors):
    """Memory as bytes, with the input tensors in their places."""
    memory = np.zeros(-(-sidecar["memory_bytes"] // LINE) * LINE, np.uint8)
    for x in sidecar["tensors"]:
        if x["role"] == "input":
            rows = np.ascontiguousarray(tensors[x["name"]], DTYPES[x["dtype"]]).view(np.uint8)
            for r, row in enumerate(rows.reshape(x["rows"], -1)):
                at = x["base"] + r * x["pitch"]
                memory[at : at + row.size] = row
    return memory


def stored(sidecar, memory):
    """Output tensors by name."""
    out = {}
    for x in sidecar["tensors"]:
        if x["role"] == "output":
            dtype = DTYPES[x["dtype"]]
            rows = [
                memory[x["base"] + r * x["pitch"] :][: x["cols"] * dtype.itemsize]
                for r in range(x["rows"])
            ]
            out[x["name"]] = np.stack(rows).view(dtype)
    return out


def hex_lines(numbers, bits):
    return "".join(f"{n:0{-(-bits // 4)}x}\n" for n in numbers)


def run(folder, tensors, sources, extra_latency=0):
    """Compile and run ``folder``/penstock_fabric.v.

    Parameters
    ----------
    folder
        Where the exported files are.
    tensors
        Input tensors by name.
    sources
        Beats of each source by name, without the Done that ends them.
    extra_latency
        Cycles by which memory is later than the machine's own; negative: earlier.
    """
    sidecar = json.loads((folder / "penstock_fabric.json").read_text())
    memory = image(sidecar, tensors)
    size = sidecar["config"]["machine"]["dram"]["line_bytes"]
    lines = memory.reshape(-1, size)[:, ::-1]
    (folder / "memory.hex").write_text("".join(line.tobytes().hex() + "\n" for line in lines))
    for s in sidecar["sources"]:
        fields = sidecar["streams"][s["stream"]]
        beats = [*sources[s["name"]], packed(fields, **s["done"])]
        (folder / f"{s['stream']}.hex").write_text(hex_lines(beats, width(fields)))
        s |= {"beats": len(beats), "bits": width(fields)}
    (folder / "bench.v").write_text(bench(sidecar, len(lines)))
    simulator = built(folder, ["bench.v", f"{sidecar['top']}.v"])
    return told(sidecar, call(folder, *simulator, f"+late={extra_latency}"), folder)


def built(folder: Path, files: Sequence[str], top: str = "bench") -> list[str]:
    """The command that runs a bench: Icarus's where it is installed, else that of a simulator which
    Verilator builds. A folder's is built once.
    """
    said = "".join((folder / file).read_text() for file in files)
    before = folder / f"{top}.built"
    icarus = bool(shutil.which("iverilog") and shutil.which("vvp"))
    if not before.exists() or before.read_text() != said:
        build = under_icarus if icarus else under_verilator
        build(folder, files, top)
        before.write_text(said)
    return ["vvp", "-n", f"{top}.vvp"] if icarus else [f"./{top}.verilated/{top}"]


def under_icarus(folder: Path, files: Sequence[str], top: str) -> None:
    """Compile a bench."""
    call(folder, "iverilog", "-g2005", "-s", top, "-o", f"{top}.vvp", *files)


def under_verilator(folder: Path, files: Sequence[str], top: str) -> None:
    """Make a program of a bench."""
    command = [sys.executable, "-P", "-m", "verilator", "--binary", "--timing", "--top-module", top]
    quiet = ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--output-split", "200000"]
    flags = " ".join(f"{name}={value}" for name, value in VERILATOR.items())
    env = os.environ | {"MAKEFLAGS": flags}
    call(folder, *command, *quiet, "--Mdir", f"{top}.verilated", "-o", top, *files, env=env)


def call(folder, *command, env=None):
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=900, env=env
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def told(sidecar, text, folder):
    out = Ran(sinks={s["name"]: [] for s in sidecar["sinks"]})
    names = {s["stream"]: s["name"] for s in sidecar["sinks"]}
    for word, *rest in (line.split() for line in text.splitlines() if line.startswith("#")):
        if word == "#end":
            out.cycles = int(rest[0])
            out.error = int(rest[1])
        else:
            fields = sidecar["streams"][word[1:]]
            out.sinks[names[word[1:]]].append(unpacked(fields, int(rest[0], 16)))
    if sidecar["memory"]:
        lines = [x for x in (folder / "after.hex").read_text().splitlines() if x[:2] != "//"]
        rows = [bytes.fromhex(x)[::-1] for x in lines]
        out.outputs = stored(sidecar, np.frombuffer(b"".join(rows), np.uint8))
    return out


def width(fields):
    return max(f["offset"] + f["bits"] for f in fields.values())


def bench(sidecar, lines):
    ports = [p for p in sidecar["ports"] if not p["name"].startswith(("cfg_", "stat_"))]
    joined = "".join(f",\n    .{p['name']}({p['name']})" for p in ports)
    wires = "".join(
        f"  {'reg' if driven(p) else 'wire'} [{p['bits']}-1:0] {p['name']}"
        f"{' = 0' if driven(p) else ''};\n"
        for p in ports
    )
    body = "".join(source(s) for s in sidecar["sources"])
    body += "".join(sink(s) for s in sidecar["sinks"])
    if sidecar["memory"]:
        bits = {p["name"]: p["bits"] for p in ports}
        body += memory(sidecar["config"]["machine"], bits, lines)
    dump = '$writememh("after.hex", lines); ' if sidecar["memory"] else ""
    return f"""module bench;
  reg clk = 0, rst = 1;
{wires}  {sidecar["top"]} dut(.clk(clk), .rst(rst), .cfg_we(1'b0), .cfg_addr(16'd0),
    .cfg_data(32'd0), .stat_addr(16'd0){joined});
  always #5 clk = !clk;
  initial begin repeat (4) @(posedge clk); rst <= 0; end
{body}
  always @(posedge clk) if (!rst) begin
    if (done) begin $display("#end %0d %0d", cycle + 1, error); {dump}$finish; end
    if (cycle == {ENDLESS}) begin $display("not finished"); $finish(1); end
  end
endmodule
"""


def driven(port):
    return port["direction"] == "input"


def source(s):
    """Offers each beat until it is accepted, the first in cycle 0."""
    name = s["stream"]
    n = s["beats"]
    return f"""
  reg [{s["bits"]}-1:0] {name}_beats [0:{n - 1}];
  integer {name}_next = 0;
  initial $readmemh("{name}.hex", {name}_beats);
  always @* begin
    {name}_valid = {name}_next < {n};
    {name}_payload = {name}_beats[{name}_next < {n} ? {name}_next : 0];
  end
  always @(posedge clk) if (!rst && {name}_valid && {name}_ready) {name}_next <= {name}_next + 1;
"""


def sink(s):
    """Takes a beat as soon as it is visible."""
    name = s["stream"]
    return f"""
  initial {name}_ready = 1;
  always @(posedge clk) if (!rst && {name}_valid && {name}_ready)
    $display("#{name} %h", {name}_payload);
"""


def memory(machine, bits, lines):
    """The DRAM `pipe` of docs/timing.md section 5.1: requests in cycle h are those of mem_req_* in
    h. ``bits``: of the ports, by name. ``+late=N`` makes it N cycles later.
    """
    port = bits["mem_req_port"]
    tag = bits["mem_req_group"]
    dram = machine["dram"]
    line = dram["line_bytes"]
    w = machine["port_lanes"]
    assert dram["kind"] == "pipe" and dram["clock_ratio"] == 1
    n = dram["channels"]
    delay = dram["start_up"] + dram["latency"]
    return f"""
  reg [{8 * line - 1}:0] lines [0:{lines - 1}];
  reg [{8 * line - 1}:0] data [0:{n * 4096 - 1}];
  reg [{port + tag - 1}:0] who [0:{n * 4096 - 1}];
  reg [{tag - 1}:0] line;
  integer due [0:{n * 4096 - 1}];
  integer head [0:{n - 1}], tail [0:{n - 1}], free [0:{n - 1}];
  integer off = 0, late, i, b, k, c, at, start;
  initial begin
    mem_req_ready = 1;
    if (!$value$plusargs("late=%d", late)) late = 0;
    $readmemh("memory.hex", lines);
    for (c = 0; c < {n}; c = c + 1) begin head[c] = 0; tail[c] = 0; free[c] = 0; end
  end
  always @(posedge clk) if (!rst) begin
    k = 0;
    for (i = 0; i < {w}; i = i + 1) if (mem_req_valid[i]) begin
      off = off + k; k = k + 1; c = off % {n};
      at = mem_req_addr[i * 32 +: 32] / {line};
      start = free[c] > cycle + 1 ? free[c] : cycle + 1;
      free[c] = start + {dram["interval"]};
      data[c * 4096 + tail[c] % 4096] = lines[at];
      due[c * 4096 + tail[c] % 4096] = start + {delay} + late;
      line = mem_req_group * {tag}'d{w} + i[{tag - 1}:0];
      who[c * 4096 + tail[c] % 4096] = {{mem_req_port, line}};
      tail[c] = tail[c] + 1;
      if (mem_req_write) for (b = 0; b < {line}; b = b + 1)
        if (mem_req_mask[i * {line} + b])
          lines[at][b * 8 +: 8] = mem_req_data[i * {8 * line} + b * 8 +: 8];
    end
    off = off + k;
    for (c = 0; c < {n}; c = c + 1) begin
      b = c * 4096 + head[c] % 4096;
      mem_rsp_valid[c] <= head[c] < tail[c] && due[b] <= cycle + 1;
      mem_rsp_port[c * {port} +: {port}] <= who[b][{tag} +: {port}];
      mem_rsp_tag[c * {tag} +: {tag}] <= who[b][{tag - 1}:0];
      mem_rsp_data[c * {8 * line} +: {8 * line}] <= data[b];
      if (head[c] < tail[c] && due[b] <= cycle + 1) head[c] = head[c] + 1;
    end
  end
"""
