"""Outputs of a run: output tensors, in the record and in a file, and the tolerance that a program's
own reference is held to.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import penstock
import penstock.model
import penstock.tb
import pytest
from penstock import cli
from penstock.machine.record import load
from penstock.tb.check import compare

TOP2 = str(Path(__file__).parents[2] / "samples/files/top2.py")
WRONG = """
from penstock.frontend import Graph, LinearOffChipLoad, LinearOffChipStore, Map, cast, exp

def program(n=8):
    g = Graph("wrong")
    x, y = g.input("x", (n, n), "bf16"), g.output("y", (n, n), "bf16")
    loaded = cast(LinearOffChipLoad(x, tile=(n, n)), "fp32")
    LinearOffChipStore(cast(Map(loaded, fn=exp()), "bf16"), y)
    return g

def reference(x):
    import numpy as np
    return {"y": np.exp(x) + 1}
"""


def test_records_of_a_run_have_its_outputs():
    (record,) = penstock.run(TOP2, "small_fpga", seed=3)
    y = record.outputs["y"]
    assert y.dtype == np.float32 and y.shape == (12, 8) and y.any()
    assert record.errors == {"y": record.max_rel_err}
    (timing,) = penstock.run(TOP2, "small_fpga", seed=3, values=False)
    assert timing.outputs is None


def test_outputs_go_to_a_file(tmp_path, capsys):
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file in files:
        assert (
            cli.main(["run", TOP2, "--config", "small_fpga", "--quiet", "--outputs", str(file)])
            == 0
        )
    (record,) = penstock.run(TOP2, "small_fpga")
    with np.load(files[0]) as stored:
        assert stored.files == ["y", "stored", "stored.stops", "stored.data"]
        assert np.array_equal(stored["y"], record.outputs["y"])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_off_its_reference_fails_with_the_element(tmp_path, capsys):
    program = tmp_path / "wrong.py"
    out, records = tmp_path / "o.npz", tmp_path / "r.json"
    program.write_text(WRONG)
    command = ["run", str(program), "--config", "small_fpga", "--quiet"]
    assert cli.main([*command, "--outputs", str(out), "--json", str(records)]) == 1
    text = capsys.readouterr().err
    assert "tensor y is " in text and "the tolerance is 0.05: element [" in text
    (record,) = load(records)
    assert record.values_ok is False and record.wrong[0] in text and out.exists()
    assert cli.main([*command, "--tolerance", "1"]) == 0
    assert cli.main(["sweep", str(program), "--config", "small_fpga", "--set", "n=4,8"]) == 1
    assert capsys.readouterr().err.count("FAILED n=") == 2
    assert cli.main(["array", "run", str(program), "--array", "array_tiny", "--set", "n=4"]) == 1
    for call in (penstock.run, penstock.sweep):
        with pytest.warns(RuntimeWarning, match=r"tensor y is .* the tolerance is 0.05"):
            assert call(str(program), "small_fpga")[0].values_ok is False


@pytest.mark.parametrize(
    "tolerance, status", [("0.9", 0), ("0.01", 1), ("-1", 1), ("float('nan')", 1), ("'x'", 1)]
)
def test_a_program_states_its_own_tolerance(tolerance, status, tmp_path, capsys):
    program = tmp_path / "wrong.py"
    program.write_text(f"{WRONG}\ntolerance = {tolerance}\n")
    assert cli.main(["run", str(program), "--config", "small_fpga", "--quiet"]) == status
    text = capsys.readouterr().err
    assert not status or "tolerance is 0.01" in text or "tolerance must be a number" in text


@pytest.fixture(params=[("model",), ("rtl",), ("model", "rtl")], ids="+".join)
def one_bit_off(request, monkeypatch):
    """Backends whose outputs are one bit off in an element; the model plays the RTL."""
    simulate = penstock.model.run

    def planted(*args, **options):
        run = simulate(*args, **options)
        y = run.outputs["y"]
        y.view(f"u{y.itemsize}")[2, 3] ^= 1
        return run

    def played(points, config, **_):
        run = planted if "rtl" in request.param else simulate
        given = ((p.graph, config, p.tensors) for p in points)
        runs = [run(*x, trace=True, sources=p.sources) for x, p in zip(given, points, strict=True)]
        runs = [replace(r, backend="rtl") for r in runs]
        for p, r in zip(points, runs, strict=True):
            if p.expected is not None:
                r.extra["report"] = compare(p.expected, r, p.graph)
        return runs

    if "model" in request.param:
        monkeypatch.setattr(penstock.model, "run", planted)
    monkeypatch.setattr(penstock.tb, "run_many", played)
    return request.param


def test_one_bit_off_numpy_is_a_failure_and_a_warning(one_bit_off, tmp_path, capsys):
    """Far below every tolerance; where both sides agree, too."""
    on = "both" if len(one_bit_off) > 1 else one_bit_off[0]
    out = tmp_path / "r.json"
    command = ["run", TOP2, "--config", "small_fpga", "--quiet", "--on", on]
    assert cli.main([*command, "--json", str(out)]) == 1
    assert re.search(r"y differs .* in 1 of 96 .* element \[2, 3\] is ", capsys.readouterr().err)
    assert [(r.backend, r.values_ok) for r in load(out)] == [(b, False) for b in one_bit_off]
    for call in (penstock.run, penstock.sweep):
        with pytest.warns(RuntimeWarning, match=r"y differs .* in 1 of 96"):
            records = call(TOP2, "small_fpga", on=on)
        assert not any(r.values_ok for r in records)


GIVEN = """
import numpy as np
from penstock.frontend import Graph, LinearOffChipLoad, Sink, Source

def program(kind="plain"):
    g = Graph("given")
    x = g.input("x", (4, 4), "bf16")
    Sink(LinearOffChipLoad(x, tile=(2, 4)), name="tiles")
    ragged = (g.dynamic("n"), g.dynamic("m", ragged=True))
    Sink(Source(graph=g, shape=ragged, scalar=8, name="given"), name="numbers")
    return g

def inputs(seed, kind):
    x = np.arange(16.0).reshape(4, 4)
    x[0, :3] = np.nan, np.inf, -np.inf
    return {"x": {"masked": np.ma.masked_invalid(x), "object": x.astype(object)}.get(kind, x)}

def streams(seed, **_):
    return {"given": [[7, 8], [], [9]]}
"""


@pytest.fixture
def given(tmp_path):
    program = tmp_path / "given.py"
    program.write_text(GIVEN)
    return ["run", str(program), "--config", "small_fpga", "--quiet"]


def test_elements_of_sinks_are_in_the_record_and_the_file(given, tmp_path):
    out, records = tmp_path / "o.npz", tmp_path / "r.json"
    assert cli.main([*given, "--outputs", str(out), "--json", str(records)]) == 0
    assert load(records)[0].sink_elements == {"tiles": 2, "numbers": 3}
    with np.load(out) as stored:
        assert stored["numbers"].tolist() == [7, 8, 9]
        assert stored["numbers.data"].tolist() == [True, True, False, True]
        assert stored["numbers.stops"].tolist() == [0, 1, 1, 1]
        assert stored["tiles"].shape == (2, 2, 4) and stored["tiles"][1, 1, 3] == 15
    (record,) = penstock.run(given[1], "small_fpga")
    assert [v for v, _ in record.sinks["numbers"]] == [7, 8, None, 9]


@pytest.mark.parametrize(
    "kind, text",
    [
        ("plain", "note: input tensor x has 1 NaN and 2 infinite of 16 values"),
        ("masked", "tensor x is a masked array, whose mask no tensor holds"),
        ("object", "tensor x is an array of Python objects"),
    ],
)
def test_inputs_that_are_no_plain_numbers_are_noted_or_refused(kind, text, given, capsys):
    assert cli.main([*given, "--set", f"kind={kind}"]) == (kind != "plain")
    said = capsys.readouterr()
    assert text in said.out + said.err and "Traceback" not in said.err


def test_diff_shows_the_numbers_of_both_whatever_the_parameters(tmp_path, capsys):
    files = [str(tmp_path / f"{n}.json") for n in (8, 16)]
    for n, file in zip((8, 16), files, strict=True):
        (record,) = penstock.run("swiglu", "small_fpga", {"tile_b": n})
        record.params = dict.fromkeys("abcdefgh", 1)
        penstock.save_records([record], file)
    shown_by = {
        "record": ["cycles A", "cycles B", "B/A"],
        "tensor": ["read_bytes A", "gate"],
        "unit": ["busy B", "starved A"],
    }
    for by, names in shown_by.items():
        assert cli.main(["diff", *files, "--by", by]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in names)
    assert cli.main(["diff", files[0], files[0], "--by", "unit"]) == 0
    assert "no unit differs" in capsys.readouterr().out
