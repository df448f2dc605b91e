"""Base of the operators that change shapes only."""

from ..graph import Operator


def dimension_index(op: Operator, name: str, least: int, most: int) -> int:
    v = op.args[name]
    if isinstance(v, bool) or not isinstance(v, int) or not least <= v <= most:
        raise op.stream_error(
            0,
            f"{name} must be an integer from {least} to {most}, not {v!r}",
            rule="dimensions count from 0, innermost first",
        )
    return v


class Shape(Operator):
    """A shape operator: the published on-chip rule counts nothing, traffic and FLOPs are zero."""
