"""The off-chip tensors of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ..machine.errors import ProgramError
from .symbols import Symbols
from .types import check_dtype
from .user_line import user_line


@dataclass(frozen=True)
class TensorRef:
    """An off-chip tensor of a program."""

    graph: Tensors = field(repr=False, compare=False)
    name: str
    rows: int
    cols: int
    dtype: str
    role: str  # "input" | "output" | "inout"


class Tensors(Symbols):
    """The symbols of a program, and its tensors by name."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, TensorRef] = {}

    def tensor(self, name: str, shape: Sequence[int], dtype: str, role: str = "input") -> TensorRef:
        """Declare an off-chip tensor of ``shape`` [rows, cols]; outer dimensions are rows, too: its
        values are given as [rows, cols].
        """
        where = f"tensor {name} at {user_line()}"
        try:
            check_dtype(dtype, integers=role == "input")
        except ProgramError as e:
            raise ProgramError(e.what, where) from None
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"a tensor's name must be an identifier, not {name!r}", where)
        if len(shape) < 2:
            raise ProgramError(f"shape must be [rows, cols], not {list(shape)!r}", where)
        for n in shape:
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise ProgramError(
                    f"rows and cols must be integers of at least 1, not {list(shape)!r}", where
                )
        if name in self.tensors:
            raise ProgramError(
                "is declared twice", where, remedy="use the first declaration, or another name"
            )
        self.tensors[name] = TensorRef(self, name, prod(shape[:-1]), shape[-1], dtype, role)
        return self.tensors[name]

    def input(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> TensorRef:
        """Declare an off-chip input tensor."""
        return self.tensor(name, shape, dtype, "input")

    def output(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> TensorRef:
        """Declare an off-chip output tensor."""
        return self.tensor(name, shape, dtype, "output")

    def inout(self, name: str, shape: Sequence[int], dtype: str = "fp32") -> TensorRef:
        """Declare an off-chip tensor that the run changes in place: it has values before, as an
        input has, and is compared after, as an output is.
        """
        return self.tensor(name, shape, dtype, "inout")
