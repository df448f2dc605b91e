"""The overlay is watched: every write and every token is compared, a fault is found and named, and
probes change nothing of what is exported.
"""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from penstock.cli import main
from penstock.hw.export import export
from penstock.hw.overlay import Overlay as Component
from penstock.overlay.core.config import WRITE_NET, Overlay, Sizes, link_name
from penstock.overlay.core.dataflow import DataflowGraph
from penstock.overlay.core.image import HybridImage
from penstock.overlay.core.ops import Op
from penstock.overlay.model import simulate
from penstock.overlay.runs.watch import watch
from penstock.overlay.tb import api as overlay_api
from penstock.scheduler.token import map_graph
from penstock.testing.token_graphs import random_choices
from pywellen import Waveform

STATIC = dict(rows=2, cols=2, pe="static")
VARIANTS = [
    STATIC,
    dict(rows=2, cols=2, local="forward"),
    dict(rows=2, cols=3, network="hoplite", alu="pipelined", format="fp64"),
]


def name(keys):
    return keys.get("pe") or keys.get("network", "mesh")


def sums(n=40):
    """Sums and products of four inputs, each of two results before it."""
    rng = np.random.default_rng(1)
    op = [Op.INPUT] * 4 + [Op.ADD, Op.MUL] * (n // 2)
    a = [-1] * 4 + [max(0, k - int(rng.integers(1, 7))) for k in range(4, 4 + n)]
    b = [-1] * 4 + [max(0, k - int(rng.integers(1, 7))) for k in range(4, 4 + n)]
    value = np.r_[[1.5, -0.5, 0.75, 2.0], np.zeros(n)]
    names = {3 + n: "last"} | {k: f"x{k}" for k in range(4)}
    return DataflowGraph(np.array(op), np.array(a), np.array(b), value, names, [3 + n])


@pytest.mark.parametrize("keys", VARIANTS, ids=name)
def test_every_write_and_token_is_compared_and_each_kind_of_fault_is_named(keys):
    m = map_graph(sums(), Overlay(**keys))
    model = simulate(m.image, tokens=True)
    rtl = overlay_api.run_image(m.image)
    seen = watch(m, model, rtl)
    assert seen.differences == [] and seen.links == (12 if "network" in keys else 8)
    received = len(m.schedule.copy_pe) if m.schedule else 0
    assert seen.writes == 40 + received and seen.tokens == len(model.tokens) > 10

    def altered(table, column, at, by):
        rows = getattr(rtl, table).copy()
        rows[column][at] += by
        return watch(m, model, replace(rtl, **{table: rows})).first

    cycle, pe, address, value = rtl.writes[7].tolist()
    written = f"PE {pe} ({pe % keys['cols']}, {pe // keys['cols']}), cycle {cycle}: model writes "
    written += f"{value:#x} to address {address}, RTL "
    assert f"{written}nothing" in altered("writes", "cycle", 7, 1)
    assert f"{written}writes {value + 1:#x} to address {address}" in altered(
        "writes", "value", 7, 1
    )
    assert f"to address {address + 1}" in altered("writes", "address", 7, 1)
    lost = watch(m, model, replace(rtl, writes=rtl.writes[:-1]))
    assert f"cycle {rtl.cycles - 1}: model writes" in lost.first
    assert lost.first.endswith("RTL nothing")
    again = replace(rtl, writes=np.concatenate([rtl.writes, rtl.writes[3:4]]))
    assert "model nothing, RTL writes" in watch(m, model, again).first
    short = watch(m, model, replace(rtl, counted=rtl.cycles - 1))
    assert f"{rtl.cycles} by the RTL's last write, {rtl.counted - 1} by its counter" in short.first
    link = int(model.tokens["link"][-1])
    last = int(np.flatnonzero(rtl.tokens["link"] == link)[-1])
    named = link_name(link, keys["cols"])
    assert named in altered("tokens", "value", rtl.tokens["link"] == link, 1)
    if m.schedule is None:
        for column in rtl.tokens.dtype.names:
            if column != "link":
                assert named in altered("tokens", column, last, 1), column
        fewer = replace(rtl, tokens=np.delete(rtl.tokens, last))
        assert named in watch(m, model, fewer).first
    else:
        for name in ("issue", "send_cycle"):
            later = replace(m.schedule, **{name: getattr(m.schedule, name) + 1})
            assert "schedule" in watch(replace(m, schedule=later), model, rtl).first


@pytest.mark.parametrize("contexts", [400, 12])
def test_hybrid_pes_are_watched_in_conditional_graphs(contexts):
    """Received values are writes as well; with few contexts, there are tokens on links."""
    graph = random_choices(40, 2, 0.5, 5)
    memories = {"context": contexts, "switch": contexts}
    overlay = Overlay(rows=2, cols=2, pe="hybrid", memories=memories)
    m = map_graph(graph, overlay, pe=np.arange(len(graph)) % 4)
    model = simulate(m.image, tokens=True)
    rtl = overlay_api.run_image(m.image)
    seen = watch(m, model, rtl)
    assert seen.differences == []
    assert isinstance(m.image, HybridImage) and m.image.decides == (contexts > 12)
    received = m.image.taken(model.contexts).context["write"] == WRITE_NET
    assert received.any()
    assert seen.tokens == 0 if m.image.decides else seen.tokens > 10
    for table in ("writes", "tokens") if seen.tokens else ("writes",):
        rows = getattr(rtl, table).copy()
        rows["value"][-1] ^= np.uint64(1)
        (found,) = watch(m, model, replace(rtl, **{table: rows})).differences
        assert found.cycle == rows["cycle"][-1]


@pytest.mark.parametrize("keys", VARIANTS, ids=name)
def test_probes_add_lines_to_the_exported_verilog_and_change_none(keys):
    plain, probed = (
        export(
            Component(
                overlay=Overlay(**keys),
                sizes=Sizes(8, 8, 8, 8, 8),
                classes=dict.fromkeys(range(keys["rows"] * keys["cols"]), frozenset({"add"})),
                probes=probes,
            ),
            "overlay",
        ).verilog
        for probes in (False, True)
    )
    for shown, port in (("valid", "en"), ("address", "addr"), ("data", "data")):
        signal = f"\\write.{shown} " if keys.get("pe") == "static" else f"write__{port}"
        probed = probed.replace(f"\\probe.{shown} ", signal)
    probed = probed.replace("_probed", "")

    def lines(text):
        """Lines without the probe in lists of ports and without numbers of nameless wires."""
        text = re.sub(r", (probe|write)(?=[,)])", "", text)
        return Counter(re.sub(r"\s+|\$\d+|,$", "", line) for line in text.splitlines())

    assert lines(plain) - lines(probed) == Counter()
    assert "probe" not in plain


def test_waveforms_show_writes_and_links(tmp_path, capsys):
    stem = tmp_path / "wave"
    args = ["overlay", "compare", "gen:ladder:6", "--mesh", "1x2", "--pe", "static", "--quiet"]
    chosen = ["--on", "both", "--kinds", "specialised", "--waves", str(stem)]
    assert main([*args, *chosen, "--mesh", "1x1"]) == 1
    assert "--waves: shows one run, and these are 2" in capsys.readouterr().err
    assert main([*args, *chosen]) == 0
    said = capsys.readouterr().out
    assert re.search(r"[1-9]\d* writes and [1-9]\d* tokens equal the model's", said)
    shown = set(re.findall(r"^(penstock_overlay\.\S+)$", Path(f"{stem}.gtkw").read_text(), re.M))
    (dump,) = (path for path in tmp_path.glob("wave.*") if path.suffix in (".vcd", ".fst"))
    there = {v.full_name: f"[{v.bitwidth - 1}:0]" for v in Waveform(str(dump)).all_vars()}
    assert shown <= {name + bits.replace("[0:0]", "") for name, bits in there.items()}
    assert {"penstock_overlay.write0.data[31:0]", "penstock_overlay.link1.value[31:0]"} < shown
