"""`penstock dag solve` under signals at any moment: a valid schedule, or none and one line."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from penstock.scheduler.dag import Problem, Schedule, evaluate
from penstock.scheduler.dag.generate import generate


class Solver:
    """A solver of its own process on a problem that takes long."""

    def __init__(self, folder):
        self.problem = generate("residual", 140, 1)
        self.out = folder / "out.json"
        self.problem.save(folder / "in.json")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "penstock",
                "dag",
                "solve",
                str(folder / "in.json"),
                str(self.out),
                "--time",
                "60",
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_listens(self) -> None:
        """Until signals are Penstock's; Python itself takes SIGINT before, and never SIGTERM."""
        status = Path(f"/proc/{self.process.pid}/status")
        while self.process.poll() is None:
            caught = next(line for line in status.read_text().splitlines() if "SigCgt" in line)
            if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
                return
            time.sleep(0.001)

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def finish(self) -> tuple[str, str]:
        begin = time.monotonic()
        printed, error = self.process.communicate(timeout=60)
        assert time.monotonic() - begin < 20
        assert "Traceback" not in error
        return printed, error

    def left_a_schedule(self, printed: str, error: str, *, second: int = 0) -> None:
        """All is written; a second signal may come when the process is about to be gone."""
        assert self.process.returncode in (0, -second, 128 + second), error
        assert "interrupted" in printed
        assert "proven bound 0.0" not in printed
        evaluate(Problem.load(self.out.with_name("in.json")), Schedule.load(self.out))


@pytest.fixture
def solver(tmp_path):
    solver = Solver(tmp_path)
    yield solver
    solver.process.kill()
    solver.process.communicate()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.25])
def test_an_interrupt_in_the_first_quarter_second(solver, delay, number):
    """One line and no file before there is a schedule; from then on, the schedule."""
    solver.wait_until_it_listens()
    time.sleep(delay)
    solver.send(number)
    printed, error = solver.finish()
    if solver.process.returncode == 0:
        solver.left_a_schedule(printed, error)
    else:
        assert solver.process.returncode == 128 + number
        assert error == "penstock: interrupted\n"
        assert [path.name for path in solver.out.parent.iterdir()] == ["in.json"]


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_second_interrupt(solver, delay, second):
    """While the best schedule is costed and written, another signal changes nothing."""
    solver.process.stderr.readline()
    solver.send(signal.SIGINT)
    time.sleep(delay)
    solver.send(second)
    solver.left_a_schedule(*solver.finish(), second=second)
