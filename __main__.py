"""The command ``penstock``, also as ``python -m penstock``."""

import atexit
import gc
import os
import signal
import sys

from .system.collector import RARELY
from .system.guardian import ASKING


def main() -> int:
    """Run the command line; an interrupt ends it with one line, also while modules are imported."""
    atexit.register(_rest)  # the first to register is called last
    for number in ASKING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    gc.set_threshold(*RARELY)
    from .cli import main as command

    code = command()
    if code > 128:  # interrupted: threads that still work are not waited for
        sys.stdout.flush()
        os._exit(code)
    return code


def _leave(number: int, _frame: object) -> None:
    """Leave at once: no command is at work that has anything to end."""
    os.write(2, b"penstock: interrupted\n")
    os._exit(128 + number)


def _rest() -> None:
    """Hear no signal any more: Python gives its handlers back while it takes its modules down, and
    a command whose work has ended would be killed.
    """
    for number in ASKING:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
