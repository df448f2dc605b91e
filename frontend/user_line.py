"""Where a user's program calls the front end."""

import sys
from pathlib import Path

FRONT_END = str(Path(__file__).parent)


def user_line() -> str:
    """File and line of the nearest caller outside the front end."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(FRONT_END):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
