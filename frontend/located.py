"""Errors of an operator, which name it and the line of the program that made it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from ..machine.deadlock import DeadlockError
from ..machine.errors import FormError, PenstockError, ProgramError, RunError


class Located:
    """The part of an operator that its errors name."""

    name: str
    line: str

    @property
    def label(self) -> str:
        kind = type(self).__name__
        return (
            f"operator {self.name}"
            if self.name == kind or re.fullmatch(rf"{kind}_\d+", self.name)
            else f"operator {self.name} ({kind})"
        )

    @property
    def location(self) -> str:
        """The operator and the line of the program that made it."""
        return f"{self.label} at {self.line}" if self.line else self.label

    @contextlib.contextmanager
    def located(self) -> Iterator[None]:
        """Context in which an error with an element names this operator."""
        try:
            yield
        except RunError as e:
            raise RunError(e.what, self.location, e.rule, e.remedy) from None

    def error(
        self,
        what: str,
        *,
        stream: str | None = None,
        rule: str | None = None,
        remedy: str | None = None,
    ) -> ProgramError:
        where = self.location + (f", {stream}" if stream else "")
        return ProgramError(what, where, rule, remedy)

    def alone(self, what: str = "list") -> FormError:
        """The error of an empty part that is the only one in its list."""
        return FormError(
            f"gives an empty {what} that stands alone in its {'group' if what == 'tile' else what}",
            self.location,
            "such a stream has no form on the wire",
        )


def located(e: PenstockError, nodes: Sequence[Located]) -> PenstockError:
    """An error of a unit, or of a channel from it, with the line of its operator, after which units
    are named; a deadlock with its operators.
    """
    if isinstance(e, DeadlockError):
        labels = {n.name: n.location.removeprefix("operator ") for n in nodes}
        return e.of_operators(lambda name: labels.get(name, name))
    of = re.match(r"(?:unit|channel) (\w+)", e.where or "")
    line = next((n.line for n in nodes if of and n.name == of[1]), "")
    return type(e)(e.what, f"{e.where} at {line}", e.rule, e.remedy) if line else e
