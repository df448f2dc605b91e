"""Names in what leaves as Verilog: signals, modules, and the lines of Python behind them."""

import json
import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from penstock.cli import main
from penstock.frontend import build, lower
from penstock.hw.beat import Payloads
from penstock.hw.export import export, write
from penstock.hw.export.module_key import module_key, readable
from penstock.hw.fabric import Fabric
from penstock.hw.overlay import Overlay as OverlayHardware
from penstock.hw.registry import component
from penstock.machine import config as configs
from penstock.machine.beat import Scalar, Tile
from penstock.machine.errors import PenstockError
from penstock.machine.kinds.compute import Map
from penstock.overlay.core.config import Overlay, Sizes
from penstock.overlay.core.ops import OP_CLASS, format_of
from penstock.tb.tops import small
from penstock.testing.names import nameless

TILE = Tile(4, "fp32")


def fabric():
    config = configs.load("array_tiny")
    return Fabric(lower(build("swiglu", {}, config).graph, config), config, probes=True)


def map_unit(fn, lanes, payload=TILE):
    return component("map")(
        kind=Map(fn=fn, arity=2, lanes=lanes),
        t=4,
        config=small(4).machine,
        payloads=Payloads((payload, payload), (payload,)),
    )


@pytest.fixture(scope="module")
def parts():
    """Parts that the exports of this module share."""
    return {}


@pytest.fixture(scope="module")
def exported(parts):
    return export(fabric(), store=parts)


def test_every_declared_signal_of_a_fabric_has_a_name(exported):
    assert nameless(exported.verilog) == []


@pytest.mark.parametrize(
    "variant",
    [
        {"pe": "static"},
        {"pe": "dynamic", "network": "hoplite"},
        {"pe": "dynamic", "local": "forward"},
    ],
    ids=str,
)
def test_every_declared_signal_of_an_overlay_has_a_name(variant):
    overlay = Overlay(rows=2, cols=2, **variant)
    every = frozenset(OP_CLASS[op] for op in format_of(overlay.format).ops if op in OP_CLASS)
    sizes = Sizes(**dict.fromkeys(vars(Sizes()), 64))
    design = OverlayHardware(overlay=overlay, sizes=sizes, classes=dict.fromkeys(range(4), every))
    assert nameless(export(design).verilog) == []


class Planted(wiring.Component):
    """A register without a name, and one that shares its name."""

    def __init__(self):
        super().__init__({"i": In(1), "o": Out(3)})

    def elaborate(self, platform):
        m = Module()
        held, late = Signal(), Signal(name="late")
        again = Signal(name="late")
        m.d.sync += [held.eq(self.i), late.eq(held), again.eq(late)]
        m.d.comb += [self.o[0].eq(held), self.o[1].eq(late), self.o[2].eq(again)]
        return m


def test_a_nameless_register_is_found():
    assert sorted(nameless(export(Planted()).verilog)) == [r"\$signal", r"\late$6"]


def test_modules_are_named_by_kind_and_parameters(exported):
    names = [module["name"] for module in exported.sidecar["modules"]]
    assert len(set(names)) == len(names)
    assert {"penstock_map_silu_l1", "penstock_lane_silu"} <= set(names)
    assert not [name for name in names if re.search(r"_[0-9a-f]{12}", name)]
    assert set(re.findall(r"^module (\w+)", exported.verilog, re.M)) == {exported.top, *names}


def test_equal_modules_of_a_fabric_are_one(exported):
    digests = [module["digest"] for module in exported.sidecar["modules"]]
    assert len(set(digests)) == len(digests)
    counts = [
        len(re.findall(rf"^  {m['name']} ", exported.verilog, re.M))
        for m in exported.sidecar["modules"]
    ]
    assert min(counts) >= 1 and max(counts) > 1


def test_modules_of_one_name_are_distinguished():
    """Modules differ by further facts where they differ in those, else by a number."""
    keys = [
        module_key("map", {"fn": "mul", "lanes": 16}, {"input0": TILE, "machine": [k]})
        for k in range(2)
    ]
    keys += [module_key("map", {"fn": "mul", "lanes": 16}, {"input0": Scalar(9), "machine": [0]})]
    assert sorted(readable(keys).values()) == [
        "penstock_map_mul_l16_t4_fp32_1",
        "penstock_map_mul_l16_t4_fp32_2",
        "penstock_map_mul_l16_u9",
    ]
    lists = [module_key("unit", {"rows": list(range(40 + k))}) for k in range(2)]
    assert sorted(readable(lists).values()) == ["penstock_unit_1", "penstock_unit_2"]


def test_the_name_of_a_map_says_its_constant():
    for bits, name in ((0x3EB504F3, "c0p353553"), (0xC0000000, "cm2")):
        key = module_key("map", {"fn": "mul", "lanes": 4, "constant": bits})
        assert readable([key])[key.name] == f"penstock_map_mul_l4_{name}"


def test_exports_with_different_prefixes_share_no_name(exported, parts):
    other = export(fabric(), prefix="second", store=parts)
    one, two = (set(re.findall(r"^module (\S+?)[ (]", x.verilog, re.M)) for x in (exported, other))
    assert len(one) == len(two) and not one & two - {"penstock_probe"}
    assert other.top == "second_fabric" and all(
        name.lstrip("\\").startswith("second_") for name in two
    )


def test_a_folder_refuses_two_contents_of_one_name(tmp_path):
    write(map_unit("mul", 4), tmp_path, "penstock_first")
    changed = json.loads((tmp_path / "penstock_first.json").read_text())
    (lane,) = changed["modules"]
    lane["digest"] = "0" * 12
    (tmp_path / "penstock_first.json").write_text(json.dumps(changed))
    with pytest.raises(PenstockError, match="penstock_lane_mul would differ from that of"):
        write(map_unit("mul", 2), tmp_path, "penstock_second")
    write(map_unit("mul", 2), tmp_path, "other_second", prefix="other")


def test_annotated_verilog_leads_back_to_python(tmp_path, capsys):
    plain = export(map_unit("mul", 4))
    assert "src =" not in plain.verilog
    done = export(map_unit("mul", 4), annotated=True)
    places = "|".join(re.findall(r'src = "([^"]*)"', done.verilog)).split("|")
    files = {re.fullmatch(r"(.+):\d+", place)[1] for place in places}
    assert {"hw/units/map.py", "hw/units/pipeline.py", "hw/arith/mul.py"} <= files
    assert not [file for file in files if file.startswith("/") or ".." in file]
    strip = re.compile(r"^ *\(\* src = .*\*\)\n", re.M)
    assert strip.sub("", done.verilog).count("\n") == plain.verilog.count("\n")


def test_a_prefix_is_an_identifier(tmp_path, capsys):
    wrong = "verilog swiglu --config small_fpga --prefix 2nd --out".split()
    assert main([*wrong, str(tmp_path)]) == 1
    assert "prefix '2nd' is no Verilog identifier" in capsys.readouterr().err
