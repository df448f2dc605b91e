"""Parameters of the public names, written as in a call."""

from __future__ import annotations

import ast
import inspect
from typing import Any


class Parameters:
    """Parameters from a text such as "graph, input, filter_mask=False"."""

    def __init__(self, text: str):
        self.signature = inspect.Signature(
            [
                inspect.Parameter(
                    name.strip(),
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=ast.literal_eval(value) if given else inspect.Parameter.empty,
                )
                for name, given, value in (part.partition("=") for part in text.split(", ") if part)
            ]
        )

    def bound(self, name: str, args: tuple, named: dict) -> dict[str, Any]:
        """The arguments of a call by name, defaults included; TypeError as Python raises it."""
        try:
            call = self.signature.bind(*args, **named)
        except TypeError as e:
            raise TypeError(f"{name}() {e}") from None
        call.apply_defaults()
        return call.arguments
