"""Interrupts and time limits: what a command started ends with it, in whatever way it ends."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from penstock.system import children, interrupts

HEAD = """
import collections, ctypes, itertools, sys, time
from penstock.system import children, interrupts
"""


def start(body: str, tmp_path) -> subprocess.Popen:
    """A process of its own that runs `body`, a function `work`, as a command; temporary files come
    into `tmp_path`.
    """
    code = HEAD + textwrap.dedent(body) + "\nsys.exit(interrupts.command(work))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, folder, seconds: float = 2.0) -> bool:
    """True if within so many seconds none of the processes is left, and nothing in the folder."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(map(alive, pids)) and not list(folder.iterdir()):
            return True
        time.sleep(0.02)
    return False


WORK = """
def work():
    with children.temporary() as folder:
        (folder / "file").touch()
        script = "trap '' INT; sleep 60 & echo $$ $! >&2; wait"
        children.run(["sh", "-c", script], stderr=sys.stdout)
    return 0
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_child_processes_and_folders_end_with_the_command(tmp_path, number, code):
    with start(WORK, tmp_path) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids)) and list(tmp_path.iterdir())
        time.sleep(0.3)  # until the guardian knows of them, without which a kill could not end them
        process.send_signal(number)
        assert process.wait(10) == code
        assert gone(pids, tmp_path)
        assert process.stderr.read() == (
            "" if number == signal.SIGKILL else "penstock: interrupted\n"
        )


def test_an_interrupt_that_a_callback_swallows_comes_again(tmp_path):
    body = """
    def work():
        lost = []
        def back():
            print("inside", flush=True)
            time.sleep(60)
            return 0
        ctypes.CFUNCTYPE(ctypes.c_int)(back)()   # ctypes prints the exception and goes on
        print("lost", flush=True)
        time.sleep(60)
        return 0
    """
    with start(body, tmp_path) as process:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130 and out == "lost\n" and err.endswith("penstock: interrupted\n")


def test_compiled_code_that_never_calls_back_is_ended_by_force(tmp_path):
    body = """
    def work():
        with children.temporary() as folder:
            print("inside", flush=True)
            collections.deque(itertools.repeat(0, 10**12), 0)   # one loop of C
        return 0
    """
    with start(body, tmp_path) as process:
        assert process.stdout.readline() == "inside\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGKILL
        assert gone([], tmp_path)
        assert process.stderr.read() == "penstock: interrupted\n"


def test_an_interrupt_that_is_taken_lets_the_work_end_in_its_own_way(tmp_path):
    body = """
    def work():
        try:
            # an interrupt that leaves such text would end the interpreter
            exec("print('inside', flush=True); time.sleep(60)")
        except KeyboardInterrupt:
            interrupts.taken()
        time.sleep(1.5)   # longer than an interrupt waits that nobody takes
        print("written", flush=True)
        return 0
    """
    with start(body, tmp_path) as process:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "written\n", "")


def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path):
    (tmp_path / "numpy.py").write_text(
        "import time; print('importing', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-m", "penstock", "run", "swiglu"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() == "penstock: interrupted\n"


def test_a_command_in_a_thread_that_is_interrupted_ends_too():
    """The main thread is told; the thread finds its child ended and raises as well."""
    found = []

    def thread():
        try:
            children.run(["sleep", "60"])
        except BaseException as e:
            found.append(type(e))

    def work():
        one = threading.Thread(target=thread)
        one.start()
        time.sleep(0.2)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            one.join(5)

    before = signal.getsignal(signal.SIGTERM)
    assert interrupts.command(work) == 143
    assert found == [KeyboardInterrupt]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_time_that_is_up_ends_the_work_and_its_child_and_nothing_else():
    start = time.monotonic()
    assert not interrupts.within(0.3, lambda: children.run(["sleep", "60"]))
    assert time.monotonic() - start < 5
    assert interrupts.within(5, lambda: None)
    assert interrupts.within(None, lambda: None)


def test_a_child_has_its_input_its_output_and_a_limit_of_its_own(tmp_path):
    done = children.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], input="text")
    assert (done.stdout, done.stderr, done.returncode) == ("text", "wrong\n", 3)
    with pytest.raises(subprocess.TimeoutExpired):
        children.run(["sh", "-c", "sleep 60 & echo $! > pid; wait"], cwd=tmp_path, timeout=0.3)
    pid = int((tmp_path / "pid").read_text())
    (tmp_path / "pid").unlink()
    assert gone([pid], tmp_path)
