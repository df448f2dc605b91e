"""Files that commands write: standard output, devices, pipes, links, modes, clashes, full disks."""

import io
import json
import os
import stat
import subprocess
import sys
import threading

import pytest
from penstock import cli
from penstock.machine.errors import PenstockError
from penstock.system import output

SMALL = ["--config", "small_fpga", "--no-values", "--quiet"]
RUN = ["run", "swiglu", *SMALL]


@pytest.fixture(autouse=True)
def in_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_a_hyphen_is_standard_output(capsys, tmp_path):
    assert cli.main([*RUN, "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["workload"] == "swiglu"
    assert "cycles" in printed.err
    assert list(tmp_path.iterdir()) == []


def test_a_device_stays_one():
    for _ in range(2):
        assert cli.main([*RUN, "--json", os.devnull, "--timeline", os.devnull]) == 0
    assert (
        cli.main(["run", "swiglu", "--config", "small_fpga", "--quiet", "--outputs", os.devnull])
        == 0
    )
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    assert cli.main([*RUN, "--json", "pipe"]) == 0
    reader.join(30)
    assert json.loads(read[0])[0]["workload"] == "swiglu"
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_links_are_followed_and_modes_stay(tmp_path):
    (tmp_path / "kept.json").write_text("old")
    (tmp_path / "kept.json").chmod(0o600)
    (tmp_path / "link.json").symlink_to("kept.json")
    assert cli.main([*RUN, "--json", "link.json"]) == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "kept.json").read_text())
    assert stat.S_IMODE((tmp_path / "kept.json").stat().st_mode) == 0o600


def test_a_new_file_has_the_mode_of_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        output.write_text("new", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_to_nothing_and_one_to_itself(tmp_path):
    (tmp_path / "link").symlink_to("later")
    output.write_text("link", "text")
    assert (tmp_path / "later").read_text() == "text" and (tmp_path / "link").is_symlink()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(PenstockError, match="cannot write round: Too many levels"):
        output.writable("round")


def test_an_unfinished_file_is_not_there(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), output.writing("a") as f:
        f.write("new")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_is_reported_with_the_path():
    with pytest.raises(
        PenstockError, match="cannot write /dev/full: No space left on device; free"
    ):
        output.write_text("/dev/full", "text")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([*RUN, "--json", "x", "--timeline", "./x"], "--json and --timeline name one file, ./x"),
        ([*RUN, "--json", "-", "--timeline", "-"], "--json and --timeline name one file, -"),
        (["run", "mine.py", *SMALL, "--json", "mine.py"], "--json would replace mine.py, which"),
        (["run", "swiglu", "--config", "m.toml", "--json", "m.toml"], "would replace m.toml"),
        (
            ["overlay", "compare", "lu:a.mtx", "--json", "a.mtx"],
            "--json would replace a.mtx, which",
        ),
        (["dag", "solve", "p.json", "p.json"], "OUT.json would replace p.json, which the command"),
        (["dag", "show", "p.json", "--out", "absent/x.png"], "no such folder absent"),
        (["run", "swiglu", "--on", "rtl", "--waves", "."], "cannot write ./: it is a folder"),
        (
            ["run", "swiglu", "--on", "rtl", "--waves", "w", "--json", "w.fst"],
            "name one file, w.fst",
        ),
        (["verilog", "swiglu", "--out", "-"], "several files cannot go to standard output"),
        ([*RUN, "--json", "x" * 300], "File name too long"),
        ([*RUN, "--json", "x/"], "it is a folder"),
    ],
)
def test_outputs_that_clash_or_cannot_be_are_refused_before_the_work(
    capsys, tmp_path, argv, message
):
    for name in ("mine.py", "m.toml", "a.mtx", "f.json", "p.json"):
        (tmp_path / name).write_text("as it was")
    (tmp_path / "link.py").symlink_to("mine.py")
    there = sorted(tmp_path.iterdir())
    assert cli.main(argv) == 1
    err = capsys.readouterr().err
    assert message in err and err.startswith("penstock: ") and err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == there
    assert all(p.read_text() == "as it was" for p in there)


def test_a_terminal_that_knows_ascii_only(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from penstock.frontend import *\n\ndef program():\n    g = Graph('größe')\n"
        "    x, y = g.input('x', (8, 8), 'bf16'), g.output('y', (8, 8), 'bf16')\n"
        "    LinearOffChipStore(LinearOffChipLoad(x, tile=(4, 8), shape=(2,), stride=(1,)), "
        "y)\n    return g\n",
        "utf-8",
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "mine.py", *SMALL, "--json", "a.json"],
        env=os.environ | ascii_only,
        capture_output=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii() and rb"gr\xf6\xdfe" in done.stdout and b"-----" in done.stdout
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))[0]["workload"] == "größe"


def test_a_closed_pipe_ends_the_command_in_silence(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        monkeypatch.setattr("sys.stdout", broken)
        assert cli.main(["run", "swiglu", *SMALL]) == 1
        monkeypatch.setattr("sys.stdout", io.StringIO())
