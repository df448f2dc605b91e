"""Configurations: presets load, and every bad field is refused with its name and the constraint."""

import tomllib
from dataclasses import replace

import pytest
from penstock.machine import config
from penstock.machine.errors import ConfigError, PenstockError


@pytest.mark.parametrize("name", sorted(p.stem for p in config.presets_dir().glob("*.toml")))
def test_presets_are_valid(name):
    c = config.load(name)
    assert c.name == name


def test_fig8_machine_is_the_papers():
    m = config.load("fig8").machine
    assert (m.t, m.dtype, m.dram.bytes_per_cycle) == (16, "fp32", 256)


@pytest.mark.parametrize(
    ("table", "message"),
    {
        "machine.t = 12": "t must be a power of two from 2 to 16, not 12",
        "machine.t = 4\nmachine.rows_per_cycle = 3": "rows_per_cycle must divide t = 4, not 3",
        "machine.dtype = 'int8'": "dtype must be one of bf16, fp32, not 'int8'",
        "machine.lanes.silu = 7": "lanes.silu must divide t*t = 256, not 7",
        "machine.units.matmul = 0": "units.matmul must be an integer from 1 to 256, not 0",
        "machine.channel_depth = 0": "channel_depth must be an integer from 1 to 65536, not 0",
        "machine.port_lanes = 3": "port_lanes must be a power of two of at most t = 16, not 3",
        "machine.load_lines = 4": "load_lines must be a power of two of at least 2 x port_lanes, "
        "not 4",
        "machine.frames = 6": "frames must be a power of two, not 6",
        "machine.arbitration = 'lottery'": "arbitration must be 'need' or 'round_robin', not "
        "'lottery'",
        "machine.channel_dept = 2": "unknown field 'channel_dept'; did you mean 'channel_depth'? "
        "known fields: t, dtype, channel_depth",
        "machine.t = '16'": "must be of type int, not '16'",
        "machine.dram.kind = 'ddr'": "kind must be one of pipe, ideal, hbm2, trace, not 'ddr'",
        "machine.dram.channels = 3": "channels must be a power of two, not 3",
        "machine.dram.clock_ratio = 2": "clock_ratio must be 1 for kind 'pipe', not 2.0",
        "machine.dram.kind = 'hbm2'\nmachine.dram.clock_ratio = 32": "clock_ratio must be from "
        "1/16 to 16, not 32.0",
        "machine.dram.kind = 'hbm2'\nmachine.dram.hbm2.stacks = 3": "stacks must be a power of "
        "two, not 3",
        "machine.dram.kind = 'hbm2'\nmachine.dram.hbm2.mapping = 'row column'": "mapping must "
        "name each of channel, column, pseudo_channel, bank_group, bank, row once",
        "machine.dram.kind = 'hbm2'\nmachine.dram.hbm2.write_mode_above = 40": "write_mode_below "
        "<= write_mode_above < queue must hold, not 7, 40, 33",
        "machine.dram.kind = 'hbm2'\nmachine.dram.hbm2.nREFI = 160": "nREFI must be above nRFC + "
        "nRC + nRP + nRAS = 203, not 160",
        "machine = 3": "must be a table, not 3",
        "stepsim.compute_bw = 0": "compute_bw must be an integer from 1 to 1099511627776, not 0",
        "fabric = {}": "unknown table 'fabric'; known tables: machine, stepsim, defaults",
    }.items(),
)
def test_bad_fields_are_named(table, message):
    with pytest.raises(ConfigError) as e:
        config.from_dict(tomllib.loads(table), "mine")
    assert message in str(e.value)


def test_unknown_preset_lists_the_known():
    with pytest.raises(ConfigError, match="no configuration named 'nope'; "):
        config.load("nope")


def test_broken_toml_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[machine\n")
    with pytest.raises(ConfigError, match=r"mine.toml: not valid TOML"):
        config.load(str(path))


def test_a_file_overrides_fields_of_its_base(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "mine.toml").write_text(
        'base = "small_fpga"\n[machine]\nchannel_depth = 4\n[machine.lanes]\nsilu = 2\n'
    )
    path = tmp_path / "inner" / "faster.toml"
    path.write_text('base = "../mine.toml"\n[machine.dram]\ninterval = 1\n')
    base = config.load("small_fpga")
    found = config.load(str(path))
    assert found.machine == replace(
        base.machine,
        channel_depth=4,
        lanes=base.machine.lanes | {"silu": 2},
        dram=replace(base.machine.dram, interval=1),
    )
    assert (found.stepsim, found.defaults, found.name) == (base.stepsim, base.defaults, "faster")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("b.toml", "b.toml: base 'a.toml' leads back to a.toml; break the circle"),
        ("a.toml", "a.toml: base 'a.toml' leads back to a.toml"),
        ("small_fgpa", "a.toml: no configuration named 'small_fgpa'; did you mean 'small_fpga'?"),
        ("absent.toml", "no such file: "),
    ],
)
def test_bases_that_lead_nowhere_are_refused(tmp_path, base, message):
    (tmp_path / "a.toml").write_text(f'base = "{base}"\n')
    (tmp_path / "b.toml").write_text('base = "a.toml"\n')
    with pytest.raises(PenstockError) as e:
        config.load(str(tmp_path / "a.toml"))
    assert message in str(e.value)
