"""The cocotb suite covers every kind of unit, what carries beats and tokens between units, and what
is made of them.
"""

import re
import subprocess
import sys

from penstock.machine.kinds import KINDS
from penstock.system.sources import PACKAGE

ENDS = {"source", "sink"}
"""Kinds that are in every test."""
NETWORKS = {"hoplite", "xy2", "multiplexed", "sequencer", "switch"}
OVERLAYS = {"static1", "token1", "hoplite2", "static4", "token4"}
OTHERS = (
    "test_fifo.py::test_beats_equal_the_models",
    "test_array.py::test_beats_equal_the_models",
    "test_board.py::test_a_program_is_loaded_run_and_read_back_as_on_the_model",
    "test_axi_host.py::test_a_host_loads_runs_and_reads",
    "test_hosts.py::test_registers_over_axi_lite",
    "test_hosts.py::test_lines_over_axi_are_those_of_memory_in_order",
    "test_hosts.py::test_each_wishbone_transfer_has_one_answer",
    "test_hosts.py::test_words_are_written_and_read_over_a_line",
)
"""FIFO, array, board, AXI host, the parts of hosts and boards."""


def test_every_component_has_a_cocotb_test():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tb", "--collect-only", "-q"],
        cwd=PACKAGE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(re.findall(r"^tb/test_\w+\.py::test_\w+\[(\w+)-", done.stdout, re.M))
    known = {k for k, kind in KINDS.items() if kind.__module__.startswith("penstock.machine.")}
    assert known - ENDS | NETWORKS | OVERLAYS <= found, done.stdout + done.stderr
    assert [test for test in OTHERS if f"tb/{test}" not in done.stdout] == []
