"""An operator of a program at work: its generator, and what its outputs have given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...machine.errors import ProgramError, RunError
from ..graph import Operator
from ..types import TileType, empty_tile
from .elements import START


class Feed:
    """Elements that one output of an operator has given so far; iteration evaluates more."""

    def __init__(self, process: Process, port: int):
        self.process = process
        self.items = []
        self.last = START
        process.feeds.append(self)
        element = process.node.outputs[port].element
        self.tile = element if isinstance(element, TileType) and not element.static else None

    def put(self, value, stop: int) -> None:
        """Add an element; an empty tile that would stand alone in its group has no form."""
        if (
            self.tile
            and value is not None
            and empty_tile(value.shape, self.tile)
            and stop
            and self.last
        ):
            raise self.process.node.alone("tile")
        self.items.append((value, stop))
        self.last = stop

    def __iter__(self):
        i = 0
        while True:
            while i == len(self.items):
                if self.process.done:
                    return
                self.process.step()
            yield self.items[i]
            i += 1


class Process:
    """An operator at work.

    Parameters
    ----------
    node
        The operator.
    evaluate
        Its outputs, as a generator of ``(value, stop)`` or ``(output, value, stop)``, for iterators
        of its inputs.
    history
        Takes, for each element given, its output and the elements taken of each input by then.
    """

    def __init__(
        self,
        node: Operator,
        evaluate: Callable[..., Iterator[tuple]],
        history: list[tuple[int, tuple[int, ...]]] | None = None,
    ):
        self.node = node
        self.evaluate = evaluate
        self.history = history
        self.feeds: list[Feed] = []
        self.done = self.running = False

    def start(self, inputs: list) -> None:
        if self.history is not None:
            inputs = self.inputs = [_Counted(x) for x in inputs]
        self.generator = self.evaluate(*inputs)
        if not isinstance(self.generator, Iterator):
            raise ProgramError(
                f"evaluate returns {type(self.generator).__name__}",
                self.node.label,
                remedy="write it as a generator of (value, stop)",
            )

    def step(self) -> None:
        """One more element."""
        if self.running:
            raise RunError(
                "waits for its own output",
                self.node.label,
                "a loop gives an element before it needs it back",
            )
        self.running = True
        item = next(self.generator, None)
        self.running = False
        if item is None:
            self.done = True
            return
        if self.history is not None:
            port = 0 if len(item) == 2 else item[0]
            self.history.append((port, tuple(x.taken for x in self.inputs)))
        if len(item) == 2:
            self.feeds[0].put(*item)
        else:
            self.feeds[item[0]].put(*item[1:])


class _Counted:
    """An iterator that counts what is taken of it."""

    def __init__(self, items: Iterator):
        self.items = items
        self.taken = 0

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self.items)
        self.taken += 1
        return item
