"""Base of both lowerings: units, channels, fan-out, and the order of off-chip ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from ...machine.beat import Payload
from ...machine.config import Config
from ...machine.errors import LoweringError
from ...machine.kinds import Kind
from ...machine.kinds.shape import Flatten
from ...machine.unitgraph import Channel, Unit, UnitGraph
from ..graph import Graph, Operator, Stream
from ..operators.higher_order import HigherOrder
from ..types import ElementType, inner_dims


@dataclass(frozen=True)
class Port:
    """An output of a unit that is being connected."""

    unit: int
    port: int
    payload: Payload
    depth: int = 0  # beats of the channel from here; 0: the configuration's

    def deeper(self, beats: int) -> Port:
        """Copy with room for at least so many beats in its channel."""
        return replace(self, depth=max(self.depth, beats))


class Held(TypedDict):
    """A scratchpad, and the physical tiles of a buffer of each writer; expressions as text."""

    unit: int
    tiles: list[int | str]


class Lowering:
    """Base of both lowerings: units, channels, fan-out.

    Attributes
    ----------
    timing
        The timing.
    t
        Edge of a physical tile; 0 where tiles are logical.
    depth
        Beats of a channel that asks for no room of its own.
    deep
        Whether datapaths have their deep pipelines.
    token
        Payload of a channel whose beats only tell that something has happened.
    ready
        (producer, output, reader, input) -> the port to connect.
    forks
        Streams with several readers, and the ports from which these take it.
    loops
        Each Loop with the unit that its end feeds.
    held
        Scratchpads with the physical tiles of a buffer of each writer.
    """

    timing: str
    t: int = 0
    depth: int = 0
    deep: bool = False
    token: Payload

    def __init__(self, graph: Graph, config: Config):
        self.graph = graph
        self.config = config
        self.units: list[Unit] = []
        self.channels: list[Channel] = []
        self.ready: dict[tuple[str, int, str, int], Port] = {}
        self.forks: list[tuple[Stream, list[Port]]] = []
        self.loops: list[tuple[Operator, int]] = []
        self.held: list[Held] = []

    def lowered(self, node: Operator) -> Sequence[Port | None]:
        """The units of an operator; the ports of its outputs."""
        raise NotImplementedError

    def finish(self) -> UnitGraph:
        """The unit graph of all that was lowered."""
        raise NotImplementedError

    def broadcast(
        self, node: Operator, port: Port, n: int, role: str = "", element: ElementType | None = None
    ) -> list[Port]:
        """``n`` copies of a stream of ``element``; those of references are counted."""
        raise NotImplementedError

    def lower_nodes(self) -> None:
        """Units and channels of all operators."""
        for node in self.graph.nodes:
            for i, port in enumerate(self.lowered(node)):
                if port is not None:
                    self.publish(node[i], port)
        for node, unit in self.loops:
            self.feed(node, 0, unit, 0)

    def error(
        self, node: Operator, what: str, rule: str | None = None, remedy: str | None = None
    ) -> LoweringError:
        return LoweringError(
            what, f"{node.label} at {node.line}" if node.line else node.label, rule, remedy
        )

    def apart(self, node: HigherOrder, kind: str) -> None:
        """Refuse operands that come as one stream of pairs, where a unit of ``kind`` has an input
        for each.
        """
        if len(node.inputs) < node.args.fn.arity:
            raise self.error(
                node,
                "takes its operands as one stream of pairs",
                rule=f"a unit `{kind}` has two inputs",
                remedy="pass the two streams, not their Zip",
            )

    def unsupported(self, node: Operator) -> LoweringError:
        return self.error(
            node, f"{type(node).__name__} has no lowering for the timing `{self.timing}`"
        )

    def unit(self, node: Operator, kind: Kind, role: str = "") -> int:
        """Add a unit; ``role`` tells the units of one node apart."""
        name = f"{node.name}.{role}" if role else node.name
        if self.deep and "deep" in kind.params:
            kind = kind.but(deep=True)
        self.units.append(Unit(len(self.units), name, kind, node.name))
        return len(self.units) - 1

    @staticmethod
    def port(unit: int, port: int, payload: Payload) -> Port:
        """Output ``port`` of a unit."""
        return Port(unit, port, payload)

    def connect(self, src: Port, unit: int, port: int) -> None:
        a = self.units[src.unit]
        b = self.units[unit]
        name = f"{a.name}:{src.port}->{b.name}:{port}"
        self.channels.append(
            Channel(
                len(self.channels),
                name,
                (src.unit, src.port),
                (unit, port),
                max(src.depth, self.depth),
                src.payload,
            )
        )

    def named_channels(self) -> tuple[Channel, ...]:
        """The channels, named by the ports that they join."""
        ins = [u.kind.inputs() for u in self.units]
        outs = [u.kind.outputs() for u in self.units]

        def name(c: Channel) -> str:
            (a, i), (b, k) = c.src, c.dst
            return f"{self.units[a].name}:{outs[a][i]}->{self.units[b].name}:{ins[b][k]}"

        return tuple(replace(c, name=name(c)) for c in self.channels)

    def chain(
        self, src: Port, node: Operator, kind: Kind, role: str = "", payload: Payload | None = None
    ) -> Port:
        """Add a unit of one input and one output behind ``src``."""
        unit = self.unit(node, kind, role)
        self.connect(src, unit, 0)
        return Port(unit, 0, payload or src.payload)

    def flatten(
        self, src: Port, node: Operator, lo: int, hi: int, hold: bool, role: str = ""
    ) -> Port:
        """Merge physical dimensions; ``hold``: :meth:`Graph.holds`."""
        kind = Flatten(lo=lo, hi=hi)
        return self.chain(src, node, kind.but(hold=True) if hold else kind, role)

    def read_by(self, stream: Stream) -> list[tuple[Operator, int]]:
        """Readers of a stream: operators and the numbers of their inputs."""
        return self.graph.consumers(stream)

    def publish(
        self, stream: Stream, port: Port, readers: list[tuple[Operator, int]] | None = None
    ) -> None:
        """Give a stream to its readers, through a broadcast where there are several."""
        if readers is None:
            readers = self.read_by(stream)
        role = f"broadcast{stream.port or ''}"
        ports = (
            [port]
            if len(readers) < 2
            else self.broadcast(stream.node, port, len(readers), role, stream.element)
        )
        if len(readers) > 1:
            self.forks.append((stream, ports))
        for (reader, i), p in zip(readers, ports, strict=False):
            self.ready[stream.node.name, stream.port, reader.name, i] = p

    def take(self, node: Operator, i: int) -> Port:
        """The port that feeds input ``i`` of a node."""
        s = node.inputs[i]
        return self.ready[s.node.name, s.port, node.name, i]

    def feed(self, node: Operator, i: int, unit: int, port: int) -> None:
        self.connect(self.take(node, i), unit, port)

    def feed_all(self, node: Operator, unit: int) -> None:
        """Connect all inputs of a node to a unit, in order."""
        for i in range(len(node.inputs)):
            self.feed(node, i, unit, i)

    def asserted(self) -> list[dict]:
        """Asserted shapes for the run to check: the channel that carries the stream, and the
        logical shape.
        """
        out = []
        for node in self.graph.nodes:
            for i, shape in node.asserted.items():
                first = next((self.ready[k] for k in self.ready if k[:2] == (node.name, i)), None)
                channel = next(
                    (c.id for c in self.channels if first and c.src == (first.unit, first.port)),
                    None,
                )
                inner = inner_dims(node[i].element) if self.timing == "machine" else 0
                out.append(
                    {
                        "stream": node[i].name,
                        "channel": channel,
                        "shape": [d.value if d.value is not None else str(d) for d in shape],
                        "inner": inner,
                        "line": node.line,
                    }
                )
        return out

    def port_order(self) -> list[int]:
        """Off-chip units in order of need: stores, then loads in the order in which the program
        first needs them.
        """
        loads = []
        seen = set()
        of_node = {}
        for u in self.units:
            if u.kind.offchip == "read":
                of_node.setdefault(u.node, []).append(u.id)

        def visit(node: Operator) -> None:
            if node.name in seen:
                return
            seen.add(node.name)
            for s in node.inputs:
                visit(s.node)
            loads.extend(of_node.get(node.name, []))

        stores = [u.id for u in self.units if u.kind.offchip == "write"]
        for node in self.graph.nodes:
            if node.inputs:
                visit(node)
        return stores + loads
