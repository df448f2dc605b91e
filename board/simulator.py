"""A board in simulation: a process that serves a pseudo-terminal."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from ..machine.errors import RunError
from ..machine.limits import DIVISORS
from ..machine.sdram import RULES
from ..system import children
from ..tb.program import program
from ..tb.toolchain import require_tools
from .design import TOP, Design

DIVISOR = DIVISORS[0]
"""Clock cycles of a bit on the simulated serial line: the fastest that the hardware allows."""
ANSWER_SECONDS = 10.0
"""For an answer: nothing is lost here, but the machine may have much else to do."""
BROKEN = 64
"""Exit status minus the number of the rule that was broken, as in simulator.cpp."""
END_SECONDS = 1.0
"""For its end, once its line is closed."""
MAIN = Path(__file__).with_name("simulator.cpp")


class Simulation:
    """A board that is simulated.

    Attributes
    ----------
    path
        Of the pseudo-terminal that is its serial line.
    process
        Of the simulator.
    """

    def __init__(self, path: str, process: subprocess.Popen):
        self.path = path
        self.process = process

    def reset(self) -> None:
        """Pull the board's reset."""
        assert self.process.stdin is not None
        self.process.stdin.write("reset\n")
        self.process.stdin.flush()


def build(design: Design, stage: Callable[[str], None] | None = None) -> Path:
    """The simulator of a board, from the cache if it is there; raises what
    :func:`~penstock.tb.program.program` raises.
    """
    require_tools()
    if stage:
        stage("build the simulator of the board")
    return program(design.verilog, TOP, MAIN)[0]


@contextlib.contextmanager
def simulation(executable: Path, divisor: int = DIVISOR) -> Iterator[Simulation]:
    """A running simulator, which ends with the block.

    Raises
    ------
    RunError
        It does not start, or a rule of its SDRAM is broken.
    """
    with children.started(
        [executable, str(divisor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = process.stdout.readline().strip()
        if not path:
            raise RunError(
                "the simulator of the board does not start",
                str(executable),
                remedy="see whether this machine has pseudo-terminals (/dev/ptmx)",
            )
        try:
            yield Simulation(path, process)
        except RunError:
            _check(process, END_SECONDS)
            raise
        _check(process, 0.0)


def _check(process: subprocess.Popen, seconds: float) -> None:
    """Raise RunError where a simulator has ended, or does so in this time, by a broken rule."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if process.returncode is not None and process.returncode > BROKEN:
        raise RunError(
            f"a command of its controller breaks a rule: {RULES[process.returncode - BROKEN]}",
            "SDRAM of the simulated board",
            remedy="report this: the controller keeps all rules by contract",
        )
