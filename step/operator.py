"""An operator of a script's graph: its arguments, inputs, streams and costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy

from ..frontend.user_line import user_line, user_variable
from ..machine.errors import ProgramError
from .calls import Parameters
from .datatype import Stream
from .functions import AccumFn, MapFn

STREAMS = ("waddr", "wdata", "raddr", "input", "inputs", "in1", "in2", "idx", "seq_len", "mask")
STREAMS += ("ref", "control")
"""Parameters that are streams, in the order of an operator's inputs."""
STORES = ("OffChipStore", "DynOffChipStore")
HIDDEN = {"input": "_input", "inputs": "_inputs", "tensor": "underlying"}
"""Attributes that are not called as their parameter."""


def get_stream(input: Any) -> Stream:
    """The stream of an operator, or of a pair (operator, output)."""
    if isinstance(input, StepOps):
        return input.stream
    if isinstance(input, tuple) and len(input) == 2 and isinstance(input[0], StepOps):
        made, port = input[0].stream_list, input[1]
        if port not in range(len(made)):
            raise ProgramError(
                f"reads output {port!r} of {input[0]} ({input[0].line})",
                f"it has outputs 0 to {len(made) - 1}",
                remedy="name one of them, or give it more consumers",
            )
        return made[port]
    raise TypeError(f"{input!r} is no operator and no (operator, output)")


class StepOps:
    """An operator of a script's graph.

    Attributes
    ----------
    instance_id
        Number in order of creation.
    stream, stream_list, input, input_list
        Types of the outputs; inputs as operators or (operator, output).
    line, variable
        Line of the script that made it, and the name that it has there.
    """

    _counter = 0
    row: Row
    num_consumers = 2  # of an EagerMerge, which takes no such argument

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, *args, **named):
        self.instance_id = StepOps._counter
        StepOps._counter += 1
        self.line = user_line()
        self.variable = user_variable() or f"{type(self).__name__}_{self.instance_id}"
        for name, value in self.row.parameters.bound(type(self).__name__, args, named).items():
            setattr(self, HIDDEN.get(name, name), value)
        try:
            self.prepare()
            self._streams = [Stream(*s) for s in self.row.types(self)]
        except ProgramError as e:
            raise self.error(e.what, e.rule, e.remedy) from None
        self._stream = self._streams[0] if len(self._streams) == 1 else self._streams
        for source in self.input_list if self.row.inputs else ():
            self.graph.add_edge(source if isinstance(source, StepOps) else source[0], self)

    def prepare(self) -> None:
        """Set the attributes that follow from arguments."""
        if (tensor := getattr(self, "underlying", None)) is not None and hasattr(self, "tile_row"):
            shape = tuple(map(int, tensor.shape))
            if len(shape) < 2:
                raise ProgramError(
                    f"loads tiles of a tensor {shape}",
                    remedy="give it two dimensions, for example with unsqueeze(0)",
                )
            if shape[-2] % self.tile_row or shape[-1] % self.tile_col:
                raise ProgramError(
                    f"has tiles of {self.tile_row} x {self.tile_col} of a tensor {shape}",
                    remedy="choose a tile that divides it, or pad the tensor",
                )
            rows, cols = shape[-2] // self.tile_row, shape[-1] // self.tile_col
            self.tensor_shape_tiled = (*shape[:-2], rows, cols)
        if hasattr(self, "tile_row"):
            self.n_byte = 2 if self.mock_bf16 else 4
        if type(self).__name__ in STORES:
            of = get_stream(self._input)
            if len(of.shape) < 2 or of.shape[0] != 1:
                raise ProgramError(
                    f"stores a stream {list(of.shape)} without its leading dimension of 1",
                    rule="the tensor's tiles are what follows the leading dimension",
                    remedy="flatten up to the dimension below the outermost, or put PromoteOuter "
                    "in front",
                )
            self.tensor_shape_tiled = tuple(of.shape[1:])
            self.tile_row, self.tile_col = of.stream_dtype.shape
        if not isinstance(fn := vars(self).get("fn", MapFn()), MapFn | AccumFn) or (
            (type(self).__name__ == "Accum") != isinstance(fn, AccumFn) and "fn" in vars(self)
        ):
            raise ProgramError(
                f"fn is {fn}",
                remedy="give it a function such as accum_fn.Add()"
                if type(self).__name__ == "Accum"
                else "give it a function such as map_fn.Exp() or map_accum_fn.Matmul()",
            )
        if "switch_cycles" in vars(self) and self.switch_cycles is None:
            n = vars(self).get("num_consumers", len(self.sources()))
            self.switch_cycles = [1] * n

    def error(self, what: str, rule: str | None = None, remedy: str | None = None) -> ProgramError:
        """An error of this operator, at its line."""
        named = f"{self.variable} ({self})" if self.variable != str(self) else str(self)
        return ProgramError(what, f"operator {named} at {self.line}", rule, remedy)

    def sources(self) -> list:
        """All inputs, as operators or (operator, output)."""
        found = []
        for name in self.row.inputs:
            value = getattr(self, HIDDEN.get(name, name))
            found += value if name == "inputs" else [value]
        return found

    @property
    def stream(self) -> Stream:
        if len(self._streams) != 1 and getattr(self, "have_pad_stream", True):
            raise NotImplementedError(f"{self} has {len(self._streams)} outputs: use stream_idx")
        return self._streams[0]

    @property
    def stream_list(self) -> list[Stream]:
        return self._streams

    def stream_idx(self, idx: int) -> Stream:
        return self._streams[idx]

    @property
    def input(self) -> Any:
        if len(self.sources()) != 1:
            raise NotImplementedError(f"{self} has {len(self.sources())} inputs: use input_list")
        return self.sources()[0]

    @property
    def input_list(self) -> list:
        if not self.row.inputs:
            raise NotImplementedError(f"{self} has no inputs")
        return self.sources()

    def replace_input(self, org_input: Any, new_input: Any) -> None:
        """Read another stream in the place of an input."""
        for name in self.row.inputs:
            key = HIDDEN.get(name, name)
            value = getattr(self, key)
            if name == "inputs" and org_input in value:
                value[value.index(org_input)] = new_input
                return
            if value == org_input:
                setattr(self, key, new_input)
                return
        raise ValueError(f"{org_input} is no input of {self}")

    def replace_full_input(self, graph: Any, new_input_list: list) -> None:
        """Read other streams, of what stood for them until now."""
        for old in self._inputs:
            graph.remove_node(old if isinstance(old, StepOps) else old[0])
        self._inputs = new_input_list
        for new in new_input_list:
            graph.add_edge(new if isinstance(new, StepOps) else new[0], self)

    def data_tuple(self) -> tuple[StepOps, int]:
        return self, 0

    def select_tuple(self) -> tuple[StepOps, int]:
        return self, 1

    pad_tuple = select_tuple

    def data_stream(self) -> Stream:
        return self._streams[0]

    def select_stream(self) -> Stream:
        return self._streams[1]

    pad_stream = select_stream

    def get_untiled_shape(self) -> tuple:
        """Shape of what a store stores."""
        *outer, cols = self.tensor_shape_tiled
        if not outer:
            return cols * self.tile_row, self.tile_col
        return (*outer[:-1], outer[-1] * self.tile_row, cols * self.tile_col)

    def off_chip_traffic(self) -> sympy.Expr:
        """Bytes that it moves off chip, as the published figures count them."""
        if type(self).__name__ in STORES:
            of = get_stream(self._input)
            return of.total_elements() * of.stream_dtype.size_in_bytes()
        if hasattr(self, "n_byte"):
            of = self._streams[0]
            return of.total_elements() * self.tile_row * self.tile_col * self.n_byte
        return sympy.Integer(0)

    def on_chip_requirement(self, count_fifos: bool = False, mode: int = 1) -> sympy.Expr:
        """Bytes that it needs on chip, as the published figures count them; ``mode`` 2: two of each
        buffer off chip.
        """
        return sympy.Integer(0) + self.row.onchip(self, count_fifos, mode)

    def __str__(self) -> str:
        return f"{type(self).__name__}_{self.instance_id}"


@dataclass(frozen=True)
class Row:
    """An operator of the table.

    Attributes
    ----------
    parameters
        As in a call.
    types
        Element type and shape of each output.
    make
        The front end's streams of each output: of the operator, the translation and the inputs;
        None where this machine has no such operator.
    onchip
        Bytes on chip: of the operator, ``count_fifos`` and ``mode``.
    """

    parameters: Parameters
    types: Callable
    make: Callable | None
    onchip: Callable

    @property
    def inputs(self) -> list[str]:
        names = self.parameters.signature.parameters
        return [n for n in STREAMS if n in names]
