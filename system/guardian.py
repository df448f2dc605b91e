"""The guardian: a small process beside a command that ends what the command started, however the
command itself ends.

It is run as a file, by :mod:`penstock.system.guard`, and imports nothing of this package. It reads
two pipes.

On the *control* pipe come lines. ``+g N`` and ``-g N``: a process group runs, or has ended. ``+d
PATH`` and ``-d PATH``: likewise a temporary folder, as JSON. ``heard``: the command has taken
notice of an interrupt. ``rest``: it is over, its process is not. On the *signal* pipe comes the
number of each signal as a byte, from the interpreter's own handler: also while the command is in
compiled code, where no Python runs.

1. When the control pipe closes, the process is gone: groups that still run are ended, folders that
   are still there are removed.
2. A signal is sent again every ``REMIND`` seconds, for an exception that is raised in a callback of
   compiled code is lost.
3. ``FORCE`` seconds after a signal (``PATIENCE`` where it was heard) the process is killed; then
   rule 1 holds.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time

REMIND = 0.3
FORCE = 1.0
PATIENCE = 10.0
GRACE = 0.3
"""Seconds a process group has between SIGTERM, at which compilers remove their files, and
SIGKILL.
"""
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Guardian:
    """State of the command: its process id, its groups and folders, and since when it is asked to
    end.
    """

    def __init__(self, parent: int):
        self.parent = parent
        self.groups: set[int] = set()
        self.folders: set[str] = set()
        self.asked: float | None = None
        self.number = signal.SIGINT
        self.reminder = 0.0
        self.heard = False

    def obey(self, line: str) -> None:
        """One line of the control pipe."""
        word, _, value = line.partition(" ")
        if word == "heard":
            self.heard = True
        elif word == "rest":
            self.asked = None
            self.heard = False
        elif word in ("+g", "-g"):
            (self.groups.add if word == "+g" else self.groups.discard)(int(value))
        elif word in ("+d", "-d"):
            (self.folders.add if word == "+d" else self.folders.discard)(json.loads(value))

    def signalled(self, numbers: bytes) -> None:
        """Bytes of the signal pipe."""
        asking = [n for n in numbers if n in ASKING]
        if self.asked is None and asking:
            self.asked = time.monotonic()
            self.number = asking[0]
            self.reminder = self.asked + REMIND

    def wait(self) -> float:
        """Seconds to the next thing that is due."""
        if self.asked is None:
            return 1.0
        due = self.asked + PATIENCE if self.heard else min(self.reminder, self.asked + FORCE)
        return max(0.0, due - time.monotonic())

    def remind(self) -> bool:
        """Send the signal again, if it is time; whether the command has to be killed instead."""
        if self.asked is None:
            return False
        now = time.monotonic()
        if now >= self.asked + (PATIENCE if self.heard else FORCE):
            return True
        if not self.heard and now >= self.reminder:
            self.reminder = now + REMIND
            os.kill(self.parent, self.number)
        return False

    def end(self) -> None:
        """End the groups and remove the folders that are left."""
        for group in self.groups:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGTERM)
        over = time.monotonic() + GRACE
        while any(map(alive, self.groups)) and time.monotonic() < over:
            time.sleep(0.02)
        for group in self.groups:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        for folder in self.folders:
            for _ in range(3):  # a process that is just dying may still have made a file
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.exists(folder):
                    break
                time.sleep(0.02)


def alive(group: int) -> bool:
    """True if a process group has members."""
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def watch(guardian: Guardian, control: int, signals: int) -> None:
    """Follow both pipes until the command is over, or has been killed."""
    text = b""
    pipes = [control, signals]
    while True:
        ready, _, _ = select.select(pipes, [], [], guardian.wait())
        if (
            not ready and os.getppid() != guardian.parent
        ):  # gone, but something that it forked holds the pipes
            return
        if signals in ready:
            if not (numbers := os.read(signals, 4096)):
                pipes.remove(signals)
            guardian.signalled(numbers)
        if control in ready:
            if not (more := os.read(control, 65536)):
                return
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                guardian.obey(line.decode())
        if guardian.remind():
            with contextlib.suppress(OSError):
                os.write(2, b"penstock: interrupted\n")
            os.kill(guardian.parent, signal.SIGKILL)
            return


if __name__ == "__main__":
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)
    beside = Guardian(int(sys.argv[1]))
    try:
        watch(beside, int(sys.argv[2]), int(sys.argv[3]))
    finally:
        beside.end()
