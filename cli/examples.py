"""Examples of every command: shown by `penstock COMMAND --help` and in docs/cli.md, which run
there.

What takes minutes says so in its comment.
"""

EXAMPLES = {
    "new": (
        "penstock demo                                          # model and RTL, side by side, "
        "in a minute or two",
        "penstock new                                           # program.py, a program to change",
        "penstock run program.py --config small_fpga            # its cycles and values",
        "penstock run program.py --config small_fpga --on both  # and on the RTL, every beat: a "
        "minute the first time",
    ),
    "run": (
        "penstock run swiglu --config fig8 --set tile_b=16 --set tile_inter=64 --json a.json   # "
        "model, with values, a second",
        "penstock run swiglu --config small_fpga --on both   # model, RTL, and the check of "
        "every beat; the first build takes a minute",
        "penstock run swiglu --config small_fpga --on rtl --waves wave   # wave.fst (or .vcd) "
        "and a viewer layout; a minute",
        "penstock run swiglu --timeline timeline.json   # open it at ui.perfetto.dev",
        "penstock run swiglu --array array_tiny --timeline placed.json   # with the array's links",
    ),
    "sweep": (
        "penstock sweep swiglu --config fig8 --set tile_b=16,32,64 --set tile_inter=16,32   # "
        "six points, one table",
        "penstock sweep swiglu --config small_fpga --set tile_b=4,8 --set tile_inter=8,16 --on "
        "both   # four points, one simulator build: a minute",
        "penstock sweep swiglu --config small_fpga --set tile_b=4,8 --store runs   # kept: "
        "the same command again runs nothing",
        "penstock sweep swiglu --config small_fpga --machine channel_depth=2,4 --machine "
        "dram.interval=1,2   # four machines",
        "penstock sweep swiglu --array array_tiny --set inter=8,16,32   # each placed on an array",
        "penstock sweep swiglu --set tile_b=16,32,64 --timing stepsim --no-values --csv > "
        "sweep.csv",
    ),
    "results list": ("penstock results list runs",),
    "results table": ("penstock results table runs --sort cycles --most 10",),
    "results export": ("penstock results export runs --csv runs.csv",),
    "results prune": ("penstock results prune runs",),
    "step": (
        "penstock new step   # matmul_step.py, a script in the STeP authors' Python",
        "penstock step matmul_step.py   # its cycles, and this machine's",
        "penstock step matmul_step.py --verilog out",
    ),
    "import": (
        "penstock new layer   # a folder: layer.pt2, as torch.export writes it, and layer.npz",
        "penstock import layer/layer.pt2 --out decoder   # decoder.py and decoder.toml",
        "penstock run decoder.py --inputs layer/layer.npz --expect layer/layer.npz",
    ),
    "show": (
        "penstock show swiglu --config small_fpga --units --png program.png --fabric fabric.png",
    ),
    "deadlock": (
        "penstock deadlock swiglu --config small_fpga --depth 1   # seconds: it finishes",
        "penstock deadlock published_moe --config paper_moe --timing stepsim --set tokens=256 "
        "--set experts=16 --set top_k=4 --set dim=64 --set tile_rows=4,64   # a deadlock, and "
        "the depths that free it",
    ),
    "figures": (
        "penstock figures fig8 --out out   # seconds: the RTL's records are stored",
        "penstock figures fig8 --out out --rtl   # minutes: every point on RTL afresh",
        "penstock figures fig14 --out out   # attention, coarse, interleaved and dynamic: "
        "seconds, on drawn KV lengths",
    ),
    "verilog": (
        "penstock verilog swiglu --config small_fpga --out out",
        "penstock verilog swiglu --config small_fpga --out out --prefix first --annotated",
        "penstock verilog swiglu --config small_fpga --out out --bench   # with a cocotb bench",
    ),
    "synth": (
        "penstock synth swiglu --config small_fpga --only broadcast",
        "penstock synth swiglu --config small_fpga --json parts.json   # all parts: many minutes",
        "penstock synth swiglu --config small_board --only 'map mul' --fmax   # minutes; place "
        "and route",
        "penstock synth overlay --pe static --alu deep --only switch   # of this overlay: seconds",
        "penstock synth overlay --only switch --fmax --seed 1 --seed 2   # minutes",
    ),
    "board run": (
        "penstock board run swiglu --on both   # a board in simulation, against the model; the "
        "first build takes minutes",
        "penstock board run swiglu --config lean_fpga --ram sdram --on both   # with an SDRAM; "
        "the first build takes a minute",
    ),
    "board build": (
        "penstock board build swiglu --board sim   # what `board run` starts; minutes",
    ),
    "board header": ("penstock board header --out penstock_host.h",),
    "overlay run": (
        "penstock overlay run device:diode --mesh 2x2 --on both   # an overlay on a board in "
        "simulation, against the model; a minute",
    ),
    "regress": (
        "penstock regress small_fpga --out out   # minutes; regress.json, regress.txt, "
        "records.json",
    ),
    "fuzz": (
        "penstock fuzz --count 300 --seed 1   # on the model, half a minute",
        "penstock fuzz --count 40 --seed 1 --on rtl --keep failures   # every beat; minutes, "
        "most of them one simulator build",
        "penstock fuzz --count 0 --streams 2000 --on rtl   # single units, minutes",
        "penstock fuzz --count 100 --array array_small   # placed on an array, on the model",
    ),
    "explain": (
        "penstock explain a.json",
        "penstock explain swiglu --array array_tiny   # both: its own fabric, and the array",
    ),
    "diff": ("penstock diff a.json a.json",),
    "cache": (
        "penstock cache list",
        "penstock cache prune --gb 5   # remove what was not used for longest, down to 5 GB",
    ),
    "array": (
        "penstock array map swiglu --array array_small   # slots, hops, tracks: seconds",
        "penstock array show simple_moe --array array_small --png floor.png",
        "penstock array run swiglu --array array_small   # model: its own fabric, and the array",
        "penstock array run swiglu --array array_tiny --on both   # and the array's RTL: minutes",
        "penstock array map swiglu --array array_tiny --image swiglu.image",
        "penstock array dump swiglu.image --array array_tiny",
        "penstock array size swiglu simple_moe -o mine.toml   # the fewest slots",
    ),
    "overlay compare": (
        "penstock overlay compare device:mos --mesh 2x2 --mesh 4x4 --on both   # values and "
        "cycles of model and RTL; the first builds take minutes",
        "penstock overlay compare gen:gates:60 --mesh 8x8 --local forward",
        "penstock overlay compare step:simple_moe,experts=1,rows=4,dim=8,out=8 --mesh 4x4   # "
        "one expert of the simplified mixture of experts",
        "penstock overlay compare step:swiglu,t=2,silu=spelled --mesh 2x2 --alu pipelined",
    ),
    "overlay spice": (
        "penstock overlay spice circuits/inverter.cir --mesh 2x2 --alu pipelined   # `penstock new "
        "circuits` copies it; seconds",
        "penstock overlay spice circuits/clipper.cir --mesh 2x2 --pe static --on both   # and the "
        "RTL, each write; minutes for a first build",
    ),
    "overlay resources": (
        "penstock overlay resources --out out/xc7   # tables and figures 5 to 7, 15 minutes; a "
        "run that is stopped goes on where it was",
        "penstock overlay resources --family ecp5 --coarse --out out/ecp5",
    ),
    "demo": (
        "penstock demo --out out   # a minute the first time",
        "penstock demo --out out --paper   # also the paper's machine: minutes more",
    ),
}


def examples_of(name: str) -> str:
    """The examples at the end of a command's help."""
    return "\n".join(["examples:", *(f"  {line}" for line in EXAMPLES[name])])


def is_long(line: str) -> bool:
    """True if an example takes minutes."""
    return "minute" in line.partition("#")[2]
