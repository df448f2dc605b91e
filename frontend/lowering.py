"""Lowering: a program graph becomes a unit graph, for the timing `machine` (physical tiles) or `published` (logical tiles).

Hierarchical tiling (the paper's appendix B.2): a logical tile [r, c] travels as two extra inner dimensions of physical
tiles, [ceil(r/t), ceil(c/t)] row-major, also where that is 1 x 1. So dimension d of a tile stream is dimension d + 2 on the
wire, and stop s is stop s + 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.machine import published_kinds
from penstock.machine.beat import LINE_BYTES, MAX_STOP, BufferRef, Payload, Tile, Tuple
from penstock.machine.config import Config
from penstock.machine.errors import ConfigError, LoweringError
from penstock.machine.functions import FUNCTIONS, lookup
from penstock.machine.kinds import KINDS, Kind
from penstock.machine.unitgraph import Channel, Tensor, Unit, UnitGraph, validate

from .functions import Elementwise, Matmul
from .graph import Graph, Operator, Stream, TensorRef
from .types import BufferType, TileType, TupleType, ceil_div, element_bytes


@dataclass(frozen=True)
class Port:
    """An output of a unit that is being connected."""

    unit: int
    port: int
    payload: Payload


def lower(graph: Graph, config: Config, timing: str = "machine") -> UnitGraph:
    """Lower a program for a configuration.

    Raises
    ------
    ProgramError
        If a stream is not read or nothing is stored.
    LoweringError
        If the machine cannot hold or run it; the message has the figures.
    """
    graph.check()
    if timing == "machine":
        if unknown := [n for n in config.machine.lanes if n not in ("default", "accum", *FUNCTIONS)]:
            raise ConfigError(f"no function {unknown[0]!r}", f"config {config.name}: machine.lanes", remedy=f"names: default, accum, {', '.join(FUNCTIONS)}")
        return MachineLowering(graph, config).run()
    if timing == "published":
        return PublishedLowering(graph, config).run()
    raise LoweringError(f"no timing {timing!r}", remedy="one of machine, published")


class Lowering:
    """What both lowerings share: units, channels, fan-out."""

    timing: str
    kinds: Mapping[str, Kind]

    def __init__(self, graph: Graph, config: Config):
        self.graph, self.config = graph, config
        self.units: list[Unit] = []
        self.channels: list[Channel] = []
        self.ready: dict[tuple[str, int, str, int], Port] = {}  # (producer, output, reader, input) -> port to connect
        self.meta: dict = {}

    def run(self) -> UnitGraph:
        for node in self.graph.nodes:
            outs = (node.lower_machine if self.timing == "machine" else node.lower_published)(self)
            for i, port in enumerate(outs):
                if port is not None:
                    self.publish(node[i], port)
        return self.finish()

    def error(self, node: Operator, what: str, rule: str | None = None, remedy: str | None = None) -> LoweringError:
        return LoweringError(what, f"{node.label} at {node.line}" if node.line else node.label, rule, remedy)

    def unsupported(self, node: Operator) -> LoweringError:
        return self.error(node, f"{type(node).__name__} has no lowering for the timing `{self.timing}`")

    def unit(self, kind: str, node: Operator, params: dict, role: str = "") -> int:
        """Add a unit; ``role`` tells the units of one node apart."""
        name = f"{node.name}.{role}" if role else node.name
        self.units.append(Unit(len(self.units), name, kind, params, node.name))
        return len(self.units) - 1

    @staticmethod
    def port(unit: int, port: int, payload: Payload) -> Port:
        """Output ``port`` of a unit."""
        return Port(unit, port, payload)

    def connect(self, src: Port, unit: int, port: int) -> None:
        a, b = self.units[src.unit], self.units[unit]
        name = f"{a.name}:{src.port}->{b.name}:{port}"
        self.channels.append(Channel(len(self.channels), name, (src.unit, src.port), (unit, port), self.depth, src.payload))

    def chain(self, src: Port, kind: str, node: Operator, params: dict, role: str = "", payload: Payload | None = None) -> Port:
        """Add a unit of one input and one output behind ``src``."""
        unit = self.unit(kind, node, params, role)
        self.connect(src, unit, 0)
        return Port(unit, 0, payload or src.payload)

    def publish(self, stream: Stream, port: Port) -> None:
        """Give a stream to its readers, through a broadcast where there are several."""
        readers = self.graph.consumers(stream)
        ports = [port] if len(readers) < 2 else self.broadcast(stream.node, port, len(readers), "broadcast")
        for (reader, i), p in zip(readers, ports):
            self.ready[stream.node.name, stream.port, reader.name, i] = p

    def take(self, node: Operator, i: int) -> Port:
        """The port that feeds input ``i`` of a node."""
        s = node.inputs[i]
        return self.ready[s.node.name, s.port, node.name, i]

    def feed(self, node: Operator, i: int, unit: int, port: int) -> None:
        self.connect(self.take(node, i), unit, port)

    def asserted(self) -> list[dict]:
        """Asserted shapes for the run to check: the channel that carries the stream, and the logical shape."""
        out = []
        for node in self.graph.nodes:
            for i, shape in node.asserted.items():
                first = next((self.ready[k] for k in self.ready if k[:2] == (node.name, i)), None)
                channel = next((c.id for c in self.channels if first and c.src == (first.unit, first.port)), None)
                inner = inner_dims(node[i].element) if self.timing == "machine" else 0
                out.append({"stream": node[i].name, "channel": channel, "shape": [d.value if d.value is not None else str(d) for d in shape],
                            "inner": inner, "line": node.line})
        return out

    def port_order(self) -> list[int]:
        """Off-chip units in order of need: stores, then loads in the order in which the program first needs them."""
        loads, seen, of_node = [], set(), {}
        for u in self.units:
            if self.kinds[u.kind].offchip == "read":
                of_node.setdefault(u.node, []).append(u.id)

        def visit(node: Operator) -> None:
            if node.name in seen:
                return
            seen.add(node.name)
            for s in node.inputs:
                visit(s.node)
            loads.extend(of_node.get(node.name, []))

        stores = [u.id for u in self.units if self.kinds[u.kind].offchip == "write"]
        for node in self.graph.nodes:
            if node.inputs:
                visit(node)
        return stores + loads


def inner_dims(element) -> int:
    """Inner dimensions that tiling adds to a stream of such elements."""
    if isinstance(element, TupleType):
        return inner_dims(element.members[0])
    return 2 if isinstance(element, TileType) else 0


class MachineLowering(Lowering):
    """Lowering to physical tiles and the unit kinds of machine/kinds.py. Operators call its methods."""

    timing = "machine"
    kinds = KINDS

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.m = config.machine
        self.t = self.m.t
        self.depth = self.m.channel_depth
        self.tensors: dict[str, Tensor] = {}
        self.used = 0
        self.buffers: dict[str, int] = {}  # Bufferize name -> scratchpad unit

    def finish(self) -> UnitGraph:
        self.meta = {"timing": "machine", "config": self.config.name, "asserted": self.asserted()}
        out = UnitGraph(self.graph.name, self.t, tuple(self.units), tuple(self.channels), tuple(self.tensors.values()),
                        tuple(self.port_order()), self.used, self.meta)
        validate(out)
        return out

    def publish(self, stream: Stream, port: Port) -> None:
        top = stream.rank + inner_dims(stream.element) + 1  # a repeat inside a unit adds a dimension on the way
        if top > MAX_STOP:
            raise self.error(stream.node, f"stream {stream.name} {stream.type} needs stops up to {top}, a beat has {MAX_STOP}", remedy="flatten dimensions")
        super().publish(stream, port)

    # -- tiles -------------------------------------------------------------------------------------------------

    def inner(self, node: Operator, i: int) -> int:
        return inner_dims(node.inputs[i].element)

    def static_tile(self, node: Operator, i: int) -> TileType:
        return self.check_static(node.inputs[i].element, node, node.inputs[i].name)

    def check_static(self, tile, node: Operator, stream: str) -> TileType:
        if not isinstance(tile, TileType):
            raise self.error(node, f"stream {stream} carries {tile}, not tiles")
        if not tile.static:
            raise self.error(node, f"stream {stream} carries {tile} of run-time size", remedy="give the tile a static size")
        return tile

    def grid(self, tile: TileType) -> tuple[int, int]:
        """Rows and columns of physical tiles of a logical tile."""
        return ceil_div(tile.rows.value, self.t), ceil_div(tile.cols.value, self.t)

    def payload(self, element, node: Operator) -> Payload:
        if isinstance(element, TileType):
            return Tile(self.t, element.dtype)
        if isinstance(element, BufferType):
            return BufferRef(self.m.pages)
        if isinstance(element, TupleType):
            return Tuple(tuple(self.payload(x, node) for x in element.members))
        raise self.error(node, f"a stream of {element} has no payload on this machine")

    def tensor(self, ref: TensorRef, node: Operator) -> dict:
        """Allocate a tensor and return the address parameters of the unit that moves it."""
        if ref.dtype != self.m.dtype:
            raise self.error(node, f"tensor {ref.name} holds {ref.dtype}, machine {self.config.name} moves {self.m.dtype}",
                             remedy=f"declare the tensor as {self.m.dtype}, or choose a configuration with dtype {ref.dtype}")
        if ref.name not in self.tensors:
            pitch = ceil_div(ref.cols * element_bytes(ref.dtype), LINE_BYTES) * LINE_BYTES
            self.tensors[ref.name] = Tensor(ref.name, ref.rows, ref.cols, ref.dtype, self.used, pitch, ref.role)
            self.used += ref.rows * pitch
            if self.used >= 1 << 32:
                raise self.error(node, f"tensors take {self.used} B with tensor {ref.name}", rule="addresses have 32 bits", remedy="use smaller tensors")
        x = self.tensors[ref.name]
        return {"tensor": x.name, "base": x.base, "pitch": x.pitch, "tensor_rows": x.rows, "tensor_cols": x.cols}

    # -- units -------------------------------------------------------------------------------------------------

    def broadcast(self, node: Operator, port: Port, n: int, role: str = "") -> list[Port]:
        pad = self.scratchpad_of(node[0]) if isinstance(port.payload, BufferRef) else None
        unit = self.unit("broadcast", node, {"n": n, "scratchpad": pad}, role)
        self.connect(port, unit, 0)
        return [Port(unit, i, port.payload) for i in range(n)]

    def scratchpad(self, node: Operator, src: Port, rank: int, repeat: int, tiles: int, role: str, what: str) -> Port:
        """A scratchpad of one writer and one reader: each buffer of ``rank`` dimensions is read ``repeat`` times."""
        self.check_fits(node, tiles, what)
        unit = self.unit("scratchpad", node, {"pages": self.m.pages, "frames": self.m.frames, "writers": [{"rank": rank}],
                                              "readers": [{"rank": rank, "repeat_dim": True}], "repeat": [repeat]}, role)
        self.connect(src, unit, 0)
        self.connect(Port(unit, 0, BufferRef(self.m.pages)), unit, 1)
        return Port(unit, 1, src.payload)

    def check_fits(self, node: Operator, tiles: int, what: str) -> None:
        room = self.m.pages * self.m.frames
        if tiles > room:
            raise self.error(node, f"{what} takes {tiles} tiles of {self.t} x {self.t}, a scratchpad holds {self.m.pages} pages x {self.m.frames} frames = {room}",
                             rule="a buffer fits in one scratchpad", remedy="use smaller tiles, or raise machine.pages")

    def accum(self, node: Operator, src: Port, reduce: Iterable[int], tiles: int, out: TileType, role: str = "") -> Port:
        """Accumulate over the physical dimensions ``reduce``, with ``tiles`` partial sums at a time."""
        if tiles > self.m.accum_tiles:
            raise self.error(node, f"its result takes {tiles} tiles of {self.t} x {self.t} of partial sums, an accumulator holds {self.m.accum_tiles}",
                             remedy="use smaller tiles, or raise machine.accum_tiles")
        mask = sum(1 << d for d in reduce)
        return self.chain(src, "accum", node, {"fn": "add", "reduce": mask, "depth": self.m.accum_tiles, "lanes": self.m.lanes_for("accum"),
                                                "init_rows": out.rows.value or 0, "init_cols": out.cols.value or 0}, role, Tile(self.t, "fp32"))

    def spread(self, node: Operator, kind: str, params: dict, inputs: list[Port], out: Payload, role: str = "") -> Port:
        """``kind`` units behind ``inputs``: as many as the node asks for, fed and collected round robin."""
        n = node.args["units"] or self.m.units_for(kind)
        if n == 1:
            unit = self.unit(kind, node, params, role)
            for i, p in enumerate(inputs):
                self.connect(p, unit, i)
            return Port(unit, 0, out)
        prefix = f"{role}_" if role else ""
        splits = []
        for i, p in enumerate(inputs):
            splits.append(self.unit("split", node, {"n": n}, f"{prefix}split{i}"))
            self.connect(p, splits[-1], 0)
        workers = [self.unit(kind, node, dict(params), f"{role or kind}{i}") for i in range(n)]
        merge = self.unit("merge", node, {"n": n}, f"{prefix}merge")
        for i, w in enumerate(workers):
            for j, s in enumerate(splits):
                self.connect(Port(s, i, inputs[j].payload), w, j)
        for i, w in enumerate(workers):
            self.connect(Port(w, 0, out), merge, i)
        return Port(merge, 0, out)

    def paced(self, node: Operator, src: Port) -> Port:
        """``src``, slowed down to the interval that a node asks for."""
        interval = node.args["interval"]
        return src if interval is None else self.chain(src, "pace", node, {"interval": interval}, "pace")

    def elementwise(self, node: Operator, fn: Elementwise) -> Port:
        inputs = [self.take(node, i) for i in range(len(node.inputs))]
        inputs[0] = self.paced(node, inputs[0])
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        params = {"fn": fn.name, "arity": fn.arity, "lanes": self.m.lanes_for(fn.name), "tuple_in": tuple_in}
        return self.spread(node, "map", params, inputs, self.payload(node.outputs[0].element, node))

    def matmul(self, node: Operator, fused: int) -> Port:
        """A product of logical tiles, summed over ``fused`` logical dimensions.

        Plain, the stream runs m, k, n (n innermost): tile (m, k) of A is repeated for all n, B is kept in a scratchpad and read once
        per m. Transposed it runs m, n, k: a row of A's tiles is kept and read once per n. The accumulator sums over k in
        between, and over the logical dimensions further out.
        """
        fn: Matmul = node.args["fn"]
        a, b = self.static_tile(node, 0), self.static_tile(node, 1)
        for i, x in enumerate((a, b)):
            if x.dtype != self.m.dtype:
                raise self.error(node, f"stream {node.inputs[i].name} carries {x.dtype}, matmul units of machine {self.config.name} take {self.m.dtype}",
                                 remedy=f"put cast(stream, {self.m.dtype!r}) in front")
        m, k = self.grid(a)
        n = self.grid(b)[0 if fn.transposed else 1]
        port_a, port_b = self.take(node, 0), self.take(node, 1)
        if fn.transposed:
            port_a = self.scratchpad(node, port_a, 1, n, k, "a_buffer", f"a row of operand A {{{a.rows}, {a.cols}}}")
        else:
            port_a = self.chain(port_a, "repeat", node, {"count": n}, "a_repeat")
        port_a = self.paced(node, port_a)
        port_b = self.scratchpad(node, port_b, 2, m, n * k, "b_buffer", f"operand B {{{b.rows}, {b.cols}}}")
        out = Tile(self.t, "fp32")
        product = self.spread(node, "matmul", {"rows_per_cycle": self.m.rows_per_cycle, "transposed": fn.transposed}, [port_a, port_b], out, "matmul")
        reduce = [0 if fn.transposed else 1, *range(3, 3 + fused)]
        tiles = m * n if fused else 1 if fn.transposed else n
        return self.accum(node, product, reduce, tiles, node.outputs[0].element, "accum")

    def expand(self, node: Operator) -> Port:
        """Copies of each element: a bare repeat for a tile of one physical tile, a scratchpad for larger ones."""
        src, count = self.take(node, 0), node.args["count"]
        if not inner_dims(node.inputs[0].element):
            raise self.error(node, f"a stream of {node.inputs[0].element} cannot be expanded on this machine",
                             remedy="expand the tiles, or use Streamify with repeat")
        if isinstance(node.inputs[0].element, TupleType):
            raise self.error(node, "a stream of tuples cannot be expanded on this machine", remedy="expand in front of Zip")
        rows, cols = self.grid(self.static_tile(node, 0))
        if rows * cols > 1:
            return self.scratchpad(node, src, 2, count, rows * cols, "", f"tile {node.inputs[0].element}")
        port = self.chain(src, "flatten", node, {"lo": 0, "hi": 2}, "unwrap")  # the tile's own two dimensions are 1 x 1
        port = self.chain(port, "repeat", node, {"count": count}, "repeat")
        for i in range(2):
            port = self.chain(port, "promote", node, {"level": 0, "outermost": False}, f"wrap{i}")
        return port

    def zip(self, node: Operator) -> Port:
        ports = [self.take(node, i) for i in range(2)]
        a, b = node.inputs[0].element, node.inputs[1].element
        if inner_dims(a) != inner_dims(b) or inner_dims(a) and self.grid(self.static_tile(node, 0)) != self.grid(self.static_tile(node, 1)):
            raise self.error(node, f"cannot pair {a} with {b}", rule="both elements take as many physical tiles")
        unit = self.unit("zip", node, {})
        for i, p in enumerate(ports):
            self.connect(p, unit, i)
        return Port(unit, 0, Tuple(tuple(p.payload for p in ports)))

    # -- the program's own buffers -----------------------------------------------------------------------------

    def origin(self, stream: Stream) -> Operator:
        """The Bufferize whose references a stream carries."""
        from .memory_operators import Bufferize

        node = stream.node
        while not isinstance(node, Bufferize):
            node = node.inputs[0].node
        return node

    def scratchpad_of(self, stream: Stream) -> int:
        return self.buffers[self.origin(stream).name]

    def bufferize(self, node: Operator) -> Port:
        """The scratchpad of a Bufferize and all Streamifys that read its buffers."""
        from .memory_operators import Streamify

        readers = [n for n in self.graph.nodes if isinstance(n, Streamify) and self.origin(n.inputs[0]) is node]
        rank = node.args["rank"] + 2
        tile = self.static_tile(node, 0)
        sizes = [d.value for d in node.outputs[0].element.shape]
        if None not in sizes:
            tiles = self.grid(tile)[0] * self.grid(tile)[1]
            for s in sizes:
                tiles *= s
            self.check_fits(node, tiles, f"a {node.outputs[0].element}")
        unit = self.unit("scratchpad", node, {
            "pages": self.m.pages, "frames": self.m.frames, "writers": [{"rank": rank}],
            "readers": [{"rank": rank, "repeat_dim": r.args["repeat"] is not None} | ({"turns": list(r.args["repeat"])} if r.listed else {}) for r in readers],
            "repeat": [1 if r.listed else r.args["repeat"] or 0 for r in readers]})
        self.buffers[node.name] = unit
        self.connect(self.take(node, 0), unit, 0)
        self.readers = getattr(self, "readers", {}) | {r.name: i for i, r in enumerate(readers)}
        return Port(unit, 0, BufferRef(self.m.pages))

    def streamify(self, node: Operator) -> Port:
        unit, i = self.scratchpad_of(node.inputs[0]), self.readers[node.name]
        self.connect(self.take(node, 0), unit, 1 + i)
        port = Port(unit, 1 + i, self.payload(node.outputs[0].element, node))
        if node.listed:  # the repeats are a dimension on the wire
            rank = self.units[unit].params["readers"][i]["rank"]
            port = self.chain(port, "flatten", node, {"lo": rank, "hi": rank + 1}, "repeats")
        return port


class PublishedLowering(Lowering):
    """Lowering to the published simulator's operators on logical tiles (machine/published_kinds.py)."""

    timing = "published"
    kinds = published_kinds.PUBLISHED_KINDS
    depth = 0  # the configuration's FIFO depth

    def __init__(self, graph: Graph, config: Config):
        super().__init__(graph, config)
        self.token = published_kinds.TOKEN

    def finish(self) -> UnitGraph:
        loads = [u.id for u in self.units if self.kinds[u.kind].offchip == "read"]
        order = self.port_order()
        ports = [u for u in order if u in loads] + [u.id for u in self.units if self.kinds[u.kind].offchip == "write"]
        self.meta = {"timing": "published", "config": self.config.name, "asserted": self.asserted()}
        out = UnitGraph(self.graph.name, 0, tuple(self.units), tuple(self.channels), (), tuple(ports), 0, self.meta)
        published_kinds.validate(out)
        return out

    def broadcast(self, node: Operator, port: Port, n: int, role: str = "") -> list[Port]:
        unit = self.unit("broadcast", node, {"n": n}, role)
        self.connect(port, unit, 0)
        return [Port(unit, i, self.token) for i in range(n)]

    def one(self, node: Operator, kind: str, params: dict) -> list[Port]:
        """A unit with one output that reads all inputs of a node."""
        unit = self.unit(kind, node, params)
        for i in range(len(node.inputs)):
            self.feed(node, i, unit, i)
        return [Port(unit, 0, self.token)]

    def edge(self, d, node: Operator) -> int:
        if d.value is None:
            raise self.error(node, f"tile size {d} is known only at run time", remedy="give the tile a static size")
        return d.value

    def load(self, node: Operator, tile: TileType) -> list[Port]:
        if node.inputs:
            raise self.unsupported(node)
        return self.one(node, "load", {"rows": self.edge(tile.rows, node), "cols": self.edge(tile.cols, node), "shape": list(node.args["shape"]), "par_dispatch": 0})

    def store(self, node: Operator) -> list[Port]:
        self.one(node, "store", {"par_dispatch": 0})
        return []

    def function(self, node: Operator) -> dict:
        fn = node.args["fn"]
        if isinstance(fn, Matmul):
            rule, flops = ("matmul_t" if fn.transposed else "matmul"), 2
        else:
            rule, flops = "elementwise", lookup(fn.name).flops_per_element
        return {"fn": fn.name, "rule": rule, "flops": flops, "compute_bw": node.args["compute_bw"] or 0, "write_back_mu": bool(node.args["write_back"])}

    def map(self, node: Operator) -> list[Port]:
        tuple_in = isinstance(node.inputs[0].element, TupleType)
        return self.one(node, "map", self.function(node) | {"arity": node.args["fn"].arity, "tuple_in": tuple_in})

    def accum(self, node: Operator) -> list[Port]:
        out = node.outputs[0].element
        params = self.function(node) | {"rank": node.args["rank"], "init_rows": self.edge(out.rows, node), "init_cols": self.edge(out.cols, node)}
        return self.one(node, "map_accum" if len(node.inputs) == 2 else "accum", params)


__all__ = ["lower", "Lowering", "MachineLowering", "PublishedLowering", "Port"]
