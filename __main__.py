"""The command ``penstock``, also as ``python -m penstock``."""

import gc
import os
import signal
import sys

RARELY = (100_000, 20, 20)
"""New objects after which garbage is searched for cycles, and how often
older ones are: by default after 700, which takes a third of an export.
"""


def main() -> int:
    """Run the command line; an interrupt ends it with one line, also while modules are imported."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
    """Before a command begins, and after it, there is nothing to bring to an end."""
    os.write(2, b"penstock: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
