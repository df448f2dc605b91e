"""The command ``penstock``, also as ``python -m penstock``."""

import os
import signal
import sys


def main() -> int:
    """Run the command line; an interrupt ends it with one line, also while modules are imported."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
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
