"""Device models and matrices on the RTL: the model's cycles, the ALU's values, and for static PEs the scheduled cycles."""

from pathlib import Path

import numpy as np
import pytest

from penstock.frontend.spice import graph_from
from penstock.frontend.spice.devices import DEVICES
from penstock.machine.overlay import Overlay
from penstock.machine.token_ops import Op, format_of
from penstock.model.overlay import simulate
from penstock.scheduler.token import map_graph
from penstock.tb.overlay_api import run_images

MATRICES = Path(__file__).parents[2] / ".." / "shared" / "data" / "matrices"
DEVICE_GRAPHS = [f"device:{name}" for name in DEVICES] + ["device:diode*5"]
QUICK = ["device:diode", "device:jfet", "device:diode*5", "gen:gates:25"]
GENERATED = ["gen:ladder:60", "gen:ring:30", "gen:gates:25"]
FROM_FILES = ["mna_s27.mtx", "mna_s344.mtx", "fpga_dcop_01.mtx"]
DYNAMIC = [dict(network=network, ready=ready, packets=packets) for network in ("mesh", "hoplite") for ready in ("fifo", "criticality") for packets in ("per_edge", "per_pe")]
DYNAMIC += [dict(network=network, ready=ready, packets="per_pe", wake=2) for network in ("mesh", "hoplite") for ready in ("fifo", "criticality")]
STATIC = [dict(pe="static", sends=sends, sources=sources) for sends in ("edge", "pe", "multicast") for sources in ("fired", "stored")]


def name(keys):
    return "-".join(map(str, keys.values())) or "default"


def graphs(specs):
    """Graphs of the specifications; of files, those that are there."""
    found = []
    for spec in specs:
        if spec.endswith(".mtx"):
            if not (MATRICES / spec).exists():
                continue
            spec = f"lu:{MATRICES / spec}"
        found.append(graph_from(spec))
    return found


def check(specs, **keys):
    overlay = Overlay(**keys)
    f = format_of(overlay.format)
    tried = [g for g in graphs(specs) if set(Op(c) for c in np.unique(g.op)) <= f.ops]
    mapped = [map_graph(g, overlay) for g in tried]
    for g, m, run in zip(tried, mapped, run_images([m.image for m in mapped]), strict=True):
        assert (g.title, run.cycles) == (g.title, simulate(m.image).cycles)
        if m.schedule is not None:
            assert (g.title, run.cycles) == (g.title, m.schedule.length)
        assert (g.title, np.flatnonzero(run.values != g.evaluate(fmt=overlay.format).view(f.word)).tolist()) == (g.title, [])
    return len(tried)


@pytest.mark.parametrize("mesh", [(1, 1), (2, 2), (4, 4)], ids=lambda m: f"{m[0]}x{m[1]}")
@pytest.mark.parametrize("pe", ["dynamic", "static"])
def test_devices_and_circuits(pe, mesh):
    assert check(QUICK + FROM_FILES[:1], rows=mesh[0], cols=mesh[1], pe=pe) >= len(QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("mesh", [(1, 1), (2, 2), (4, 4)], ids=lambda m: f"{m[0]}x{m[1]}")
@pytest.mark.parametrize("keys", DYNAMIC + STATIC, ids=name)
def test_every_variant(keys, mesh):
    if not MATRICES.is_dir():
        pytest.skip("needs ../shared/data/matrices")
    check(DEVICE_GRAPHS + GENERATED + FROM_FILES, rows=mesh[0], cols=mesh[1], **keys)


@pytest.mark.deep
@pytest.mark.parametrize("kinds", ["homogeneous", "specialised"])
@pytest.mark.parametrize("keys", [DYNAMIC[0], DYNAMIC[3], DYNAMIC[4], DYNAMIC[9], STATIC[4]], ids=name)
def test_pipelined_alus(keys, kinds):
    check(DEVICE_GRAPHS + GENERATED, rows=4, cols=4, alu="pipelined", kinds=kinds, **keys)


@pytest.mark.deep
@pytest.mark.parametrize("alu", ["unit", "pipelined"])
@pytest.mark.parametrize("keys", [DYNAMIC[0], DYNAMIC[3], DYNAMIC[9], STATIC[4]], ids=name)
def test_fp64(keys, alu):
    check(GENERATED + FROM_FILES[:2], rows=4, cols=4, format="fp64", alu=alu, **keys)


@pytest.mark.deep
@pytest.mark.parametrize("keys", DYNAMIC + [STATIC[0], STATIC[4]], ids=name)
def test_8x8(keys):
    check(DEVICE_GRAPHS + GENERATED + FROM_FILES, rows=8, cols=8, **keys)


@pytest.mark.deep
@pytest.mark.parametrize("keys", [DYNAMIC[0], DYNAMIC[3], DYNAMIC[7], STATIC[4]], ids=name)
def test_16x16(keys):
    check(["device:hbt", "gen:gates:12"], rows=16, cols=16, **keys)
