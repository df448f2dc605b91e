"""A program's own streams in memories of slots."""

from dataclasses import replace
from pathlib import Path

import pytest
from penstock.machine.array.image import read
from penstock.machine.array.streams import streams_text
from penstock.machine.errors import ConfigError, RunError
from penstock.runs import array, array_rtl

HERE = Path(__file__).parent
PROGRAM = str(HERE / "stream_program.py")
TINY = "array_tiny"
pytestmark = pytest.mark.xdist_group("array")


def placed(beats=5, **more):
    return array.place(PROGRAM, TINY, {"beats": beats}, **more)


def test_an_image_with_beats_is_read_back(tmp_path):
    image, structure = array_rtl.image(placed())
    path = tmp_path / "image"
    path.write_bytes(image.to_bytes(structure))
    assert read(path, structure) == image
    ((slot, beats),) = image.beats.items()
    assert len(beats) == 6
    dumped = array_rtl.dump(path, TINY)
    memory = structure.source_memories[slot]
    assert f"6 beats of {memory.words} words, from {memory.base:#06x}" in dumped


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "beats for slot"),
        ({"beats": 33}, "has 33 beats"),
        ({"cut": 1}, "ends within the beats"),
    ],
)
def test_beats_that_no_memory_has_are_refused(change, message, tmp_path):
    image, structure = array_rtl.image(placed())
    ((slot, beats),) = image.beats.items()
    slot = slot if change else 0
    count = change.get("beats", len(beats))
    held = tuple(beats[k % len(beats)] for k in range(count))
    held = (*held[:-1], held[-1][:-1]) if "cut" in change else held
    path = tmp_path / "image"
    path.write_bytes(replace(image, beats={slot: held}).to_bytes(structure))
    with pytest.raises(ConfigError, match=message):
        read(path, structure)


def test_a_stream_that_does_not_fit_stays_at_its_port():
    own, there = array.run(placed(32))
    assert own.values_ok and there.values_ok
    summary = streams_text(placed(32).on_array().graph)
    assert summary == "0 of 2 own streams in memories of slots; at ports: x, y"
    assert streams_text(placed().on_array().graph) == "2 of 2 own streams in memories of slots"
    assert "0 of 2" in streams_text(placed(ports=True).on_array().graph)


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
