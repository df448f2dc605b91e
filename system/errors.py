"""The error of bad input: what is wrong, where, which rule, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, known: Iterable[object], what: str = "known:") -> str:
    """The remedy for an unknown name: the nearest known one, and all of them after ``what``."""
    names = [str(k) for k in known]
    lower = {k.lower(): k for k in reversed(names)}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    guess = f"did you mean {lower[close[0]]!r}? " if close else ""
    return f"{guess}{what} {', '.join(names) or 'none'}"


class PenstockError(Exception):
    """Bad input, reported in one message.

    Parameters
    ----------
    what
        What is wrong, as a full clause with the offending value.
    where
        The operator, stream, file, line or field, if known.
    rule
        The rule that is broken, if it is not plain from ``what``.
    remedy
        What the user can do about it.
    """

    def __init__(
        self,
        what: str,
        where: str | None = None,
        rule: str | None = None,
        remedy: str | None = None,
    ):
        self.what = what
        self.where = where
        self.rule = rule
        self.remedy = remedy
        text = f"{where}: {what}" if where else what
        if rule:
            text += f" (rule: {rule})"
        if remedy:
            text += f"; {remedy}"
        super().__init__(text)

    def __reduce__(self):
        """Pickle the error as it is, whatever arguments a class of its own takes."""
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(kind: type[PenstockError], args: tuple, state: dict) -> PenstockError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
