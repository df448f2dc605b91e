"""The memory that a process says it took is its own."""

import subprocess
import sys

from penstock.system import memory

MANY = 300 * 2**20
SAYS = "from penstock.system import memory; print(memory.peak())"


def said():
    """Peak memory that a fresh process reports of itself."""
    return int(subprocess.check_output([sys.executable, "-c", SAYS]))


def test_a_process_says_nothing_of_the_one_that_started_it():
    held = bytearray(b"1") * MANY
    assert memory.peak() > len(held)
    assert said() < MANY / 2


def test_the_peak_stays_when_memory_is_given_back():
    before = memory.peak()
    held = bytearray(b"1") * (before + MANY)
    del held
    assert memory.peak() > before
