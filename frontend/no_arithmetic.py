"""Errors for programs that calculate with a stream as with a number."""

from collections.abc import Callable
from typing import NoReturn

from ..machine.errors import ProgramError
from .user_line import user_line

_SYMBOLS = {
    "+": ("add", "fn=add()"),
    "-": ("sub", "fn=sub()"),
    "*": ("mul", "fn=mul(), or one stream and fn=scale(factor)"),
    "/": ("truediv", "fn=div(), or one stream and fn=scale(1 / divisor)"),
    "@": ("matmul", "fn=matmul()"),
}


class NoArithmetic:
    """Mixin of streams and of operators with one stream that refuses arithmetic as with numbers."""

    __array_ufunc__ = None  # NumPy leaves the answer to this class

    def _refuse(self, symbol: str, function: str) -> NoReturn:
        name = getattr(self, "name", "")
        raise ProgramError(
            f"stream {name} takes no {symbol!r}",
            user_line(),
            "streams are calculated with by operators",
            f"Map(first, second, {function}): both are streams of tiles, a number is loaded as "
            "one or is a function's factor",
        )


def _refusing(symbol: str, function: str) -> Callable[[NoArithmetic, object], NoReturn]:
    def refuse(self: NoArithmetic, _other: object) -> NoReturn:
        self._refuse(symbol, function)

    return refuse


for _symbol, (_name, _function) in _SYMBOLS.items():
    for _way in (f"__{_name}__", f"__r{_name}__"):
        setattr(NoArithmetic, _way, _refusing(_symbol, _function))
