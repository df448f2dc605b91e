"""The reference page of operators, made from their declarations."""

from __future__ import annotations

import inspect

from .graph import FUNCTIONAL, OPERATORS, Operator


def operator_reference() -> str:
    """Markdown: every registered operator with its streams, arguments, and the timings it lowers to."""
    lines = ["# Operators", "", "Made from the declarations in `frontend/`. Dimensions count from 0, innermost first.", ""]
    functions = {call.__doc__: name for name, call in FUNCTIONAL.items()}
    for name, cls in OPERATORS.items():
        lines += [f"## {name}", "", inspect.getdoc(cls), "", f"As a function: `{functions[inspect.getdoc(cls)]}`.", ""]
        streams = [f"`{s[:-1]}` (optional, by name)" if s.endswith("?") else f"`{s[:-1]}` (one or more)" if s.endswith("*") else f"`{s}`" for s in cls.streams]
        lines += [f"Streams: {', '.join(streams) or 'none'}.", ""]
        for argument, meaning in cls.arguments.items():
            lines.append(f"- `{argument}`: {meaning}")
        timings = [t for t in ("machine", "published") if getattr(cls, f"lower_{t}") is not getattr(Operator, f"lower_{t}")]
        lines += [""] * bool(cls.arguments) + [f"Lowers to: {', '.join(timings) or 'nothing yet'}.", ""]
    return "\n".join(lines)
