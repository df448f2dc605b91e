"""A program's own streams in memories of slots: the Verilog of an array, its image and
docs/array.md are all that a run takes.
"""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from penstock.machine.array.image import read
from penstock.machine.array.streams import streams_told
from penstock.machine.errors import ConfigError, RunError
from penstock.model import run as run_model
from penstock.runs import array, array_rtl
from penstock.testing.names import nameless
from penstock.testing.verilog_bench import built, call

HERE = Path(__file__).parent
PROGRAM = str(HERE / "stream_program.py")
TINY = "array_tiny"
HEAD = 3
DONE = 0xF
pytestmark = pytest.mark.xdist_group("array")

BENCH = """module bench;
  reg clk = 0, rst = 1, we = 0;
  reg [15:0] addr, at = 0;
  reg [31:0] data;
  reg [47:0] words [0:{words} - 1];
  wire [31:0] cycle, word;
  wire [7:0] error;
  wire done;
  integer k;
  {top} dut(.clk(clk), .rst(rst), .cfg_we(we), .cfg_addr(addr), .cfg_data(data), .cycle(cycle),
    .done(done), .error(error), .stat_addr(16'd0), .sink_addr(at), .sink_data(word){rest});
  always #5 clk = !clk;
  initial begin
    $readmemh("words.hex", words);
    for (k = 0; k < {words}; k = k + 1) begin
      @(negedge clk); we = 1; addr = words[k][47:32]; data = words[k][31:0];
    end
    @(negedge clk) we = 0;
    repeat (3) @(negedge clk);
    rst = 0;
    wait (done);
    $display("#end %0d %0d", cycle + 1, error);
    @(negedge clk);
    for (k = {first}; k < {first} + {last}; k = k + 1) begin
      at = k; @(negedge clk); $display("#word %0d %h", k, word);
    end
    $finish;
  end
  initial begin repeat (20000) @(posedge clk); $display("not finished"); $finish; end
endmodule
"""


def words_of(raw, sidecar):
    """(address, word) of an image file, as docs/array.md says."""
    told = struct.unpack(f"<{len(raw) // 4}I", raw)
    body = iter(told[HEAD:-1])
    blocks = sorted((b["base"], b["words"]) for b in sidecar["blocks"] if b["words"])
    out = [(base + k, next(body)) for base, words in blocks for k in range(words)]
    memories = {m["slot"]: m for m in sidecar["source_memories"]}
    for slot in body:
        m = memories[slot]
        for beat in range(next(body)):
            out += [(m["base"] + beat * m["stride"] + w, next(body)) for w in range(m["words"])]
    return out


def in_a_bench(folder, raw, sink):
    """Cycles, error bits, and the words of the beats of a sink."""
    sidecar = json.loads((folder / "penstock_array.json").read_text())
    (m,) = (x for x in sidecar["sink_memories"] if x["slot"] == sink)
    words = words_of(raw, sidecar)
    (folder / "words.hex").write_text("".join(f"{a:04x}{w:08x}\n" for a, w in words))
    own = ("clk", "rst", "cycle", "done", "error")
    rest = "".join(
        f", .{p['name']}({p['bits']}'d0)"
        for p in sidecar["ports"]
        if p["direction"] == "input" and p["name"] not in own
        if not p["name"].startswith(("cfg_", "stat_", "sink_"))
    )
    text = BENCH.format(
        words=len(words),
        top=sidecar["top"],
        rest=rest,
        first=m["base"],
        last=m["places"] * m["stride"],
    )
    (folder / "bench.v").write_text(text)
    files = ["bench.v", f"{sidecar['top']}.v"]
    printed = call(folder, *built(folder, files)).splitlines()
    lines = [line.split() for line in printed if line.startswith("#")]
    (cycles, error) = next((int(a), int(b)) for what, a, b in lines if what == "#end")
    found = {int(a): w for what, a, w in lines if what == "#word"}
    at = range(m["base"], m["base"] + m["places"] * m["stride"], m["stride"])
    return cycles, error, [[int(found[a + w], 16) for w in range(m["words"])] for a in at]


def placed(beats=5, **more):
    return array.place(PROGRAM, TINY, {"beats": beats}, **more)


def sink_of(point):
    units = zip(point.graph.units, point.graph.meta["array"]["units"], strict=True)
    return next((u, at) for u, (_, at) in units if u.kind.name == "sink")


@pytest.fixture(scope="module")
def verilog(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verilog")
    array_rtl.verilog(TINY, out=folder)
    for path in folder.glob("*.v"):
        assert nameless(path.read_text()) == []
    return folder


@pytest.mark.deep
@pytest.mark.parametrize("beats", [1, 5, 31])
def test_verilog_and_image_are_all_that_a_run_takes(verilog, beats):
    """No stream and no memory is driven; values and cycles are the model's."""
    point = placed(beats).on_array()
    image, structure = array_rtl.image(placed(beats))
    unit, slot = sink_of(point)
    cycles, error, kept = in_a_bench(verilog, image.to_bytes(structure), slot)
    want = run_model(
        point.graph, point.config, point.tensors, values=True, sources=point.source_beats()
    )
    assert (cycles, error) == (want.cycles, 0)
    took = want.sink_beats[unit.id]
    beats_kept = kept[: len(took.stop)]
    taken = zip(beats_kept, took.stop, took.data, took.values, strict=True)
    for words, stop, data, values in taken:
        tile = np.array(words[:4], np.uint32).view(np.float32)
        assert np.array_equal(tile, np.ravel(values) if data else np.zeros(4))
        tail = words[4] >> 4
        assert (tail & DONE, tail >> 4) == (stop, data)
    assert kept[beats][4] >> 4 == DONE


def test_an_image_with_beats_is_read_back(tmp_path):
    image, structure = array_rtl.image(placed())
    path = tmp_path / "image"
    path.write_bytes(image.to_bytes(structure))
    assert read(path, structure) == image
    ((slot, beats),) = image.beats.items()
    assert len(beats) == 6
    told = array_rtl.dump(path, TINY)
    memory = structure.source_memories[slot]
    assert f"6 beats of {memory.words} words, from {memory.base:#06x}" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "beats for slot"),
        ({"beats": 33}, "has 33 beats"),
        ({"cut": 1}, "ends within the beats"),
    ],
)
def test_beats_that_no_memory_has_are_refused(change, told, tmp_path):
    image, structure = array_rtl.image(placed())
    ((slot, beats),) = image.beats.items()
    slot = slot if change else 0
    count = change.get("beats", len(beats))
    held = tuple(beats[k % len(beats)] for k in range(count))
    held = (*held[:-1], held[-1][:-1]) if "cut" in change else held
    path = tmp_path / "image"
    path.write_bytes(replace(image, beats={slot: held}).to_bytes(structure))
    with pytest.raises(ConfigError, match=told):
        read(path, structure)


def test_a_stream_that_does_not_fit_stays_at_its_port():
    own, there = array.run(placed(32))
    assert own.values_ok and there.values_ok
    told = streams_told(placed(32).on_array().graph)
    assert told == "0 of 2 own streams in memories of slots; at ports: x, y"
    assert streams_told(placed().on_array().graph) == "2 of 2 own streams in memories of slots"
    assert "0 of 2" in streams_told(placed(ports=True).on_array().graph)


def test_an_image_without_its_beats_is_refused():
    point = placed().on_array()
    _, structure = array_rtl.image(placed())
    with pytest.raises(RunError, match="0 beats given"):
        array_rtl.encoded(structure, point.graph)


def test_a_memory_that_is_too_large_is_refused(tmp_path):
    text = (Path(array.__file__).parents[1] / "sim_configs" / "array_tiny.toml").read_text()
    path = tmp_path / "large.toml"
    path.write_text(text.replace("beats = 32", "beats = 513"))
    with pytest.raises(ConfigError, match="beats = 513 is no bound of source"):
        array.array_config(str(path))
