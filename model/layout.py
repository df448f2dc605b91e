"""Lays a unit graph out as the flat state of the compiled engine (offsets: `penstock.model.units`)."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from ..machine import beat as beats
from ..machine.beat import LINE_BYTES, Payload
from ..machine.config import Config
from ..machine.errors import RunError
from ..machine.functions import identity_bits
from ..machine.kinds import accum_levels, kind_of, queue_entries
from ..machine.trace import SourceBeats
from ..machine.unitgraph import Unit, UnitGraph, validate
from . import acts, dram, kernels
from . import units as k

WHEEL = 1024  # cycles; a power of two
LONG_AGO = -(1 << 40)
RECORD_ROOM = 1024  # beats of a recorded channel between two looks of Python


def leaves(payload: Payload) -> list[tuple[int, int, int]]:
    """The members of a payload: (LEAF_TILE, element bits, count bits), or (LEAF_OTHER, bits of the
    first number, of the second).
    """
    match payload:
        case beats.Tile():
            return [(k.LEAF_TILE, payload.element_bits, payload.count_bits)]
        case beats.BufferRef():
            return [(k.LEAF_OTHER, payload.page_bits, beats.TILES_BITS)]
        case beats.Tuple():
            return [x for m in payload.members for x in leaves(m)]
    return [(k.LEAF_OTHER, min(payload.bits, 64), max(payload.bits - 64, 0))]


def n_values(payload: Payload) -> int:
    """32-bit values of a beat: the elements of its tiles."""
    match payload:
        case beats.Tile():
            return payload.t**2
        case beats.Tuple():
            return sum(map(n_values, payload.members))
    return 0


def unpack_words(payload: Payload, words: np.ndarray) -> tuple[list[int], np.ndarray]:
    """A payload's numbers (two a member) and its values as float32 bits, from its 32-bit words."""
    bits = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), bitorder="little")
    at = 0
    meta = []
    values = []

    def number(width: int) -> int:
        nonlocal at
        x = int.from_bytes(
            np.packbits(bits[at : at + width], bitorder="little").tobytes(), "little"
        )
        at += width
        return x

    def walk(p: Payload) -> None:
        nonlocal at
        if isinstance(p, beats.Tuple):
            for m in p.members:
                walk(m)
            return
        ((kind, w0, w1),) = leaves(p)
        if kind == k.LEAF_TILE:
            n = p.t**2 * w0
            x = np.packbits(bits[at : at + n].reshape(-1, 8), axis=1, bitorder="little").reshape(-1)
            values.append(x.view("<u4") if w0 == 32 else x.view("<u2").astype(np.uint32) << 16)
            at += n
            w0 = w1
        meta.extend(x - (x >> 63 << 64) for x in (number(w0), number(w1)))  # as signed words

    walk(payload)
    return meta, np.concatenate(values) if values else np.zeros(0, np.uint32)


class Layout:
    """The state of one run.

    Attributes
    ----------
    S, V, M, D
        Integer state, values (one element if values are not computed), memory image as 16-bit
        words, DRAM state.

    """

    def __init__(
        self,
        graph: UnitGraph,
        config: Config,
        image: np.ndarray | None,
        trace: bool,
        sources: dict[int, SourceBeats],
        sinks: dict[int, np.ndarray],
        record: Collection[int] = (),
    ):
        validate(graph)
        self.graph = graph
        self.machine = config.machine
        self.values = image is not None
        self.sources = sources
        self.sinks = sinks
        self.size = self.n_values = 0
        self.preset: list[tuple[int, np.ndarray]] = []
        self.preset_values: list[tuple[int, np.ndarray]] = []
        self.written: dict[int, int] = {}
        if any(c.id != i for i, c in enumerate(graph.channels)):
            raise RunError("channel ids do not count from 0", graph.name)
        self.alloc(k.GLOBALS)
        self.acts = self.alloc(k.K_COUNT)
        self.set(k.G_ACTS, self.acts)
        self.channels = self.alloc(len(graph.channels) * k.CHANNEL_WORDS)
        self.units = self.alloc(len(graph.units) * k.UNIT_WORDS)
        self.pad_refs: dict[int, int] = {}
        for u in graph.memories():
            self.pad_refs[u] = self.put(
                [self.unit_at(u), 0, 0] + [0, -1] * graph.units[u].params["pages"]
            )
        for c in graph.channels:
            self.put_channel(c)
        for c in sorted(record):
            words = beats.beat_words(graph.channels[c].payload)
            self.set(self.channel_at(c) + k.C_RECORD, self.alloc(RECORD_ROOM * words))
            self.set(self.channel_at(c) + k.C_WORDS, words)
        for u in graph.units:
            self.put_unit(u)
        n_units = len(graph.units)
        words = (len(graph.units) + 64) // 64
        lanes = self.machine.port_lanes
        port_units = [self.unit_at(u) for u in graph.ports]
        for p, u in enumerate(graph.ports):
            self.set(self.unit_at(u) + k.U_PORT, p)
        n_channels = len(graph.channels)
        self.dram = dram.Dram(self.machine.dram, dram.lines_bound(graph, self.machine.load_lines))
        channels = self.machine.dram.channels
        per_cycle = 2 * n_channels + lanes + channels + 256
        for at, value in (
            (k.G_OPEN, len(graph.ends())),
            (k.G_MASK, WHEEL - 1),
            (k.G_WORDS, words),
            (k.G_WHEEL, self.alloc(WHEEL * words)),
            (k.G_VALUES, self.values),
            (k.G_TRACE, trace),
            (k.G_PORTS, self.put(port_units)),
            (k.G_NPORTS, len(graph.ports)),
            (k.G_ROUND_ROBIN, self.machine.arbitration == "round_robin"),
            (k.G_DRAM_UNIT, n_units),
            (k.G_UNITS, self.units),
            (k.G_NUNITS, n_units),
            (k.G_FIRST_REQUEST, -1),
            (k.G_T, graph.t),
            (k.G_W, lanes),
            (k.G_MAX_CYCLE_LOG, per_cycle),
            (k.G_RECORD_ROOM, RECORD_ROOM),
            (k.G_OUT, self.alloc(channels + 256)),
        ):
            self.set(at, int(value))
        self.set(k.G_HAD_OPEN, self.written[k.G_OPEN])
        self.S = S = np.zeros(self.size, np.int64)
        if self.written:
            S[np.fromiter(self.written, np.int64, len(self.written))] = np.fromiter(
                self.written.values(), np.int64, len(self.written)
            )
        for at, block in self.preset:
            S[at : at + len(block)] = block
        wheel = S[k.G_WHEEL]
        everyone = np.zeros(64 * words, np.uint8)  # looks around in cycle 0
        everyone[:n_units] = 1
        S[wheel : wheel + words] = np.packbits(everyone, bitorder="little").view(np.int64)
        self.V = np.zeros(max(self.n_values, 1) if self.values else 1, np.uint32)
        for at, block in self.preset_values if self.values else ():
            self.V[at : at + len(block)] = block
        S[k.G_VPTR] = self.V.ctypes.data
        self.M = image.view(np.uint16) if self.values and len(image) else np.zeros(2, np.uint16)
        self.D = self.dram.state

    # ---- building blocks

    def alloc(self, n: int) -> int:
        self.size += n
        return self.size - n

    def alloc_values(self, n: int) -> int:
        self.n_values += n
        return self.n_values - n

    def set(self, at: int, value: int) -> None:
        self.written[at] = int(value)

    def put(self, numbers) -> int:
        at = self.alloc(len(numbers))
        self.preset.append((at, np.asarray(numbers, np.int64)))
        return at

    def channel_at(self, c: int) -> int:
        return self.channels + c * k.CHANNEL_WORDS

    def unit_at(self, u: int) -> int:
        return self.units + u * k.UNIT_WORDS

    def slots(self, payload: Payload, count: int, values: bool = True) -> int:
        """`count` slot-like records for beats of a payload, each knowing where its values lie."""
        meta = 2 * len(leaves(payload))
        n = n_values(payload)
        block = np.zeros((count, k.X_META + meta), np.int64)
        block[:, k.X_VALUE] = self.alloc_values(n * count if values else 0) + n * np.arange(count)
        return self.put(block.reshape(-1))

    def put_channel(self, c) -> None:
        at, ls = self.channel_at(c.id), leaves(c.payload)
        for offset, value in (
            (k.C_ID, c.id),
            (k.C_DEPTH, c.depth),
            (k.C_LAST_TAKE, -1),
            (k.C_MISSED, -1),
            (k.C_REFUSED, -1),
            (k.C_SLOTS, self.slots(c.payload, c.depth)),
            (k.C_SLOT_WORDS, k.X_META + 2 * len(ls)),
            (k.C_SRC, c.src[0]),
            (k.C_DST, c.dst[0]),
            (k.C_META, 2 * len(ls)),
            (k.C_VALUES, n_values(c.payload)),
            (k.C_LEAVES, self.put([x for leaf in ls for x in leaf])),
        ):
            self.set(at + offset, value)

    # ---- units

    def put_unit(self, u: Unit) -> None:
        at, ins, outs = self.unit_at(u.id), self.graph.inputs(u.id), self.graph.outputs(u.id)
        handler = getattr(
            self, f"put_{u.kind}", self.put_pipelined if kind_of(u.kind).values else None
        )
        if handler is None:
            raise RunError(f"the model has no unit of kind {u.kind!r}", u.name)
        for offset, value in (
            (k.U_ID, u.id),
            (k.U_IN, self.put([self.channel_at(c.id) for c in ins])),
            (k.U_NIN, len(ins)),
            (k.U_OUT, self.put([self.channel_at(c.id) for c in outs])),
            (k.U_NOUT, len(outs)),
            (k.U_BUSY_AT, -1),
            (k.U_EVAL, -1),
            (k.U_PORT, -1),
        ):
            self.set(at + offset, value)
        kind, own = handler(u, u.params, ins, outs)
        self.set(at + k.U_KIND, kind)
        if kind in acts.ACTS:
            self.set(self.acts + kind, acts.address(acts.ACTS[kind]))
        for offset, value in own.items():
            self.set(at + offset, value)

    def put_broadcast(self, u, p, ins, outs):
        return k.K_BROADCAST, {k.B_PAD: self.counts_of(u)}

    def put_flatten(self, u, p, ins, outs):
        return k.K_FLATTEN, {k.F_LO: p["lo"], k.F_HI: p["hi"], k.F_LAST: beats.STOP_DONE}

    def put_promote(self, u, p, ins, outs):
        hold = self.slots(ins[0].payload, 1)
        return (k.K_PROMOTE_OUTER if p["outermost"] else k.K_PROMOTE), {
            k.P_LEVEL: p["level"],
            k.P_HOLD: hold,
        }

    def put_reshape(self, u, p, ins, outs):
        return k.K_RESHAPE, {
            k.H_DIM: p["dim"],
            k.H_CHUNK: p["chunk"],
            k.H_PAD: bool(p["pad"]),
            k.H_ROWS: max(1, p["pad_rows"] or 1),
            k.H_COLS: max(1, p["pad_cols"] or 1),
            k.H_FLAGS: p.get("flags", -1),
            k.H_LAST: beats.STOP_DONE,
        }

    def put_repeat(self, u, p, ins, outs):
        return k.K_REPEAT, {k.R_COUNT: p["count"]}

    def put_pace(self, u, p, ins, outs):
        if p["interval"] < 16:
            raise RunError(
                f"has an interval of {p['interval']} sixteenths of a cycle",
                u.name,
                "a unit passes at most one beat a cycle: 16 or more",
            )
        return k.K_PACE, {k.E_INTERVAL: p["interval"], k.E_LAST: LONG_AGO}

    def put_zip(self, u, p, ins, outs):
        return k.K_ZIP, {}

    def put_split(self, u, p, ins, outs):
        return k.K_SPLIT, {}

    def put_merge(self, u, p, ins, outs):
        return k.K_MERGE, {}

    def counts_of(self, u) -> int:
        """Offset of the reference counts that a unit changes, or -1."""
        memory = kind_of(u.kind).posts_to(u.params)
        return -1 if memory is None else self.pad_refs[memory]

    def put_partition(self, u, p, ins, outs):
        return k.K_PARTITION, {k.I_RANK: p["rank"], k.I_PAD: self.counts_of(u)}

    def put_expand(self, u, p, ins, outs):
        return k.K_EXPAND, {k.I_RANK: p["level"], k.I_PAD: self.counts_of(u)}

    def arrivals(self, p) -> dict:
        return {
            k.N_RANK: p["rank"],
            **{table: self.alloc(p["n"]) for table in (k.N_FREE, k.N_GIVEN, k.N_DRAIN)},
        }

    def put_reassemble(self, u, p, ins, outs):
        return k.K_REASSEMBLE, self.arrivals(p)

    def put_eager_merge(self, u, p, ins, outs):
        return k.K_EAGER_MERGE, self.arrivals(p)

    def put_signal(self, u, p, ins, outs):
        return k.K_SIGNAL, {k.G_LEVEL: p["level"], k.G_LAST: beats.STOP_DONE}

    def put_generate(self, u, p, ins, outs):
        fn = {"address": k.GENERATE_ADDRESS, "expert": k.GENERATE_EXPERT, "last": k.GENERATE_LAST}[
            p["fn"]
        ]
        return k.K_GENERATE, {k.J_FN: fn, k.J_STRIDE: p["stride"], k.J_COUNT: p["count"]}

    def put_address(self, u, p, ins, outs):
        return k.K_ADDRESS, {k.J_STRIDE: p["stride"]}

    def pipe(self, u, tuple_in: bool, kernel: int) -> dict:
        kind = kind_of(u.kind).of(u.params)
        t = self.graph.t
        latency = kind.latency(t)
        interval = kind.interval(t)
        entries = queue_entries(latency, interval)
        return {
            k.Q_LATENCY: latency,
            k.Q_INTERVAL: interval,
            k.Q_ENTRIES: entries,
            k.Q_LAST: LONG_AGO,
            k.Q_QUEUE: self.slots(beats.Tile(t, "fp32"), entries),
            k.Q_TUPLE: tuple_in,
            k.Q_KERNEL: kernel,
        }

    def put_map(self, u, p, ins, outs):
        own = self.pipe(u, p["tuple_in"], kernels.address(p["fn"]) if self.values else 0)
        if "constant" in p:
            own |= {k.Q_SPREAD: k.CONSTANT, k.Q_BITS: p["constant"]}
        elif "spread" in p:
            own |= {
                k.Q_SPREAD: {"cols": k.SPREAD_COLS, "rows": k.SPREAD_ROWS, "both": k.SPREAD_BOTH}[
                    p["spread"]
                ]
            }
        return k.K_PIPE, own | {k.Q_SPARE: self.alloc_values(self.graph.t**2)}

    def put_row_reduce(self, u, p, ins, outs):
        own = self.pipe(u, False, kernels.address(p["fn"]) if self.values else 0)
        return k.K_PIPE, own | {
            k.Q_REDUCE: 1,
            k.Q_BITS: identity_bits(p["fn"]),
            k.Q_SPARE: self.alloc_values(3 * self.graph.t**2),
        }

    def put_pipelined(self, u, p, ins, outs):
        """A user's own unit (machine/kinds/, ``values``)."""
        return k.K_PIPE, self.pipe(
            u, False, kernels.address(kind_of(u.kind).values) if self.values else 0
        )

    def put_matmul(self, u, p, ins, outs):
        own = self.pipe(u, False, kernels.matmul_address(p["transposed"]) if self.values else 0)
        return k.K_PIPE, own | {k.Q_MATMUL: 1, k.Q_TRANSPOSED: bool(p["transposed"])}

    def put_accum(self, u, p, ins, outs):
        t = self.graph.t
        reduce = p["reduce"]
        dims, lowest, outer = max(16, reduce.bit_length()), *accum_levels(reduce)
        return k.K_ACCUM, {
            k.A_INTERVAL: kind_of("accum").of(p).interval(t),
            k.A_DEPTH: p["depth"],
            k.A_REDUCE: reduce,
            k.A_TOP: reduce.bit_length() - 1,
            k.A_LOWEST: lowest,
            k.A_OUTER: outer,
            k.A_LAST: LONG_AGO,
            k.A_STARTS: self.alloc(dims),
            k.A_FIRSTS: self.put([1] * dims),
            k.A_MEMORY: self.alloc(3 * p["depth"]),
            k.A_VALUE: self.alloc_values(p["depth"] * t * t),
            k.A_KERNEL: kernels.address(p["fn"]) if self.values else 0,
            k.A_STOP: beats.STOP_DONE,
            k.A_ROWS: p["init_rows"],
            k.A_COLS: p["init_cols"],
            k.A_IDENTITY: identity_bits(p["fn"]),
            k.A_SPARE: self.alloc_values(t * t),
            k.A_SCAN: bool(p.get("scan")),
        }

    def put_row_pack(self, u, p, ins, outs):
        return k.K_ROW_PACK, {
            k.RP_DEPTH: p["depth"],
            k.RP_LEVEL: p["level"],
            k.RP_BANDS: p["bands"],
            k.RP_COLS: p["cols"],
            k.RP_LAST: beats.STOP_DONE,
            k.RP_EXTENT: self.alloc(p["depth"]),
            k.RP_VALUE: self.alloc_values((p["depth"] + 2) * self.graph.t**2),
            k.RP_ACROSS: p.get("along") == "cols",
        }

    def put_row_unpack(self, u, p, ins, outs):
        return k.K_ROW_UNPACK, {
            k.RU_DEPTH: p["depth"],
            k.RU_MASK: bool(p["mask"]),
            k.RU_ROWS: p["rows"],
            k.RU_ACROSS: p.get("along") == "cols",
            k.RU_BANDS: self.alloc(2 * k.BAND_WORDS),
            k.RU_EXTENT: self.alloc(2 * p["depth"]),
            k.RU_VALUE: self.alloc_values(2 * p["depth"] * self.graph.t**2),
        }

    def put_row_append(self, u, p, ins, outs):
        return k.K_ROW_APPEND, {}

    def put_row_offset(self, u, p, ins, outs):
        return k.K_ROW_OFFSET, {}

    def put_scratchpad(self, u, p, ins, outs):
        t = self.graph.t
        pages = p["pages"]
        frames = p["frames"]
        writers = p["writers"]
        readers = p["readers"]
        w_at = self.alloc(len(writers) * k.WRITER_WORDS)
        z_at = self.alloc(len(readers) * k.READER_WORDS)
        for i, w in enumerate(writers):
            self.set(w_at + i * k.WRITER_WORDS + k.W_RANK, w["rank"])
            self.set(w_at + i * k.WRITER_WORDS + k.W_LIMIT, p["limit"][i])
            self.set(w_at + i * k.WRITER_WORDS + k.W_FIRST, -1)
            self.set(w_at + i * k.WRITER_WORDS + k.W_LAST, beats.STOP_DONE)
        tokens = iter(ins[len(writers) + len(readers) :])
        shapes = iter(p.get("shape", ()))
        strides = iter(p.get("stride", ()))
        for i, r in enumerate(readers):
            z = z_at + i * k.READER_WORDS
            self.set(z + k.Z_RANK, r["rank"])
            self.set(z + k.Z_REPEAT, p["repeat"][i] if r["repeat_dim"] else 0)
            self.set(z + k.Z_DIMENSION, bool(r["repeat_dim"]))
            self.set(z + k.Z_REF, r.get("ref", -1))
            if "ref" in r:
                self.set(z + k.Z_TOKENS, self.channel_at(next(tokens).id))
            if n := r.get("affine"):
                loops = [(next(shapes), next(strides), 0) for _ in range(n)]
                for offset, value in (
                    (k.Z_AFFINE, n),
                    (k.Z_LOOPS, self.put([x for loop in loops for x in loop])),
                    (k.Z_TABLE, self.alloc(pages)),
                    (k.Z_SPAN, math.prod(trips for trips, _, _ in loops)),
                ):
                    self.set(z + offset, value)
            if turns := r.get("turns"):
                self.set(z + k.Z_TURNS, self.put(turns))
                self.set(z + k.Z_TURNS_COUNT, len(turns))
            for e in range(k.TILE_QUEUE):
                self.set(z + k.Z_QUEUE + e * k.ENTRY + k.X_VALUE, self.alloc_values(t * t))
        return k.K_SCRATCHPAD, {
            k.M_FRAMES: frames,
            k.M_NW: len(writers),
            k.M_NR: len(readers),
            k.M_FREE: 0,
            k.M_FREE_COUNT: pages,
            k.M_NEXT: self.put([*range(1, pages), 0]),
            k.M_REFS: self.pad_refs[u.id],
            k.M_LAST_PAGE: self.alloc(pages),
            k.M_TILE: self.alloc(k.FRAME * pages * frames),
            k.M_VALUE: self.alloc_values(pages * frames * t * t),
            k.M_PAGES: pages,
            k.M_WRITERS: w_at,
            k.M_READERS: z_at,
            k.M_OWNER: self.alloc(pages),
        }

    def off_chip(self, p, payload) -> dict:
        element = payload.element_bits // 8
        e = LINE_BYTES // element
        t = self.graph.t
        own = {
            k.L_BASE: p["base"],
            k.L_PITCH: p["pitch"],
            k.L_TROWS: p["tensor_rows"],
            k.L_TCOLS: p["tensor_cols"],
            k.L_ROWS: p["rows"],
            k.L_COLS: p["cols"],
            k.L_E: e,
            k.L_LIMIT_LOW: p["base"],
            k.L_LIMIT_HIGH: p["base"] + p["tensor_rows"] * p["pitch"],
            k.L_BLOCKS: self.alloc(2 * k.BLOCK_WORDS),
        }
        for i in range(2):
            self.set(
                own[k.L_BLOCKS] + i * k.BLOCK_WORDS + k.X_BLOCK_VALUE, self.alloc_values(t * e)
            )
        return own

    def order(self, p) -> dict:
        """A listed order of logical tiles: where the list is, and its length."""
        listed = p.get("order") or []
        return (
            {
                k.L_ORDER: self.put([x for place in listed for x in place]),
                k.L_ORDER_COUNT: len(listed),
            }
            if listed
            else {}
        )

    def put_load(self, u, p, ins, outs):
        if p["rank"] > k.MAX_LOOPS or p["rank"] != len(p["shape"]):
            raise RunError(
                f"has {len(p['shape'])} loop dimensions, rank {p['rank']}",
                u.name,
                f"rank is their number, at most {k.MAX_LOOPS}",
            )
        if p.get("order") and len(p["order"]) != math.prod(p["shape"]):
            raise RunError(
                f"lists {len(p['order'])} places for {math.prod(p['shape'])} logical tiles",
                u.name,
                "an order has one place per tile of the walk",
            )
        own = self.off_chip(p, outs[0].payload)
        e = own[k.L_E]
        t = self.graph.t
        lanes = self.machine.port_lanes
        groups = self.machine.load_lines // lanes
        loops = [
            x for loop in zip(p["shape"], p["row_step"], p["col_step"], strict=False) for x in loop
        ]
        own |= self.order(p) | {
            k.L_RANK: p["rank"],
            k.L_LOOPS: self.put(loops),
            k.L_GROUPS: groups,
            k.L_RING: self.alloc(groups * k.RING_WORDS),
            k.L_RING_VALUE: self.alloc_values(groups * lanes * e),
            k.L_LINES_VALUE: self.alloc_values(2 * t * e),
        }
        empty = 0 in p["shape"] or p["rows"] <= 0 or p["cols"] <= 0
        if trigger := p.get("trigger"):
            own |= {
                k.L_TRIGGER: k.BY_ADDRESS if trigger == "address" else k.BY_REF,
                k.L_SHIFT: p.get("shift", 0),
                k.L_HOLLOW: empty,
                k.L_DONE: 1,
                k.L_TRIGGERS: self.alloc(k.TRIGGER_WORDS * k.TRIGGER_RING),
            }
        for which in (k.L_GENERATOR, k.L_ASSEMBLER):
            own[which] = y = self.alloc(k.WALK_WORDS)
            self.set(y + k.Y_DONE, empty or bool(trigger))
            row, col = p["order"][0] if p.get("order") else (0, 0)
            rows = max(0, min(p["tensor_rows"] - row, p["rows"]))
            cols = max(0, min(p["tensor_cols"] - col, p["cols"]))
            v = min(rows, t)
            misaligned = col % e
            stop = 1 if p["rows"] > t else 2
            if stop == 2:
                for n in reversed(p["shape"]):
                    if n != 1:
                        break
                    stop += 1
            for offset, value in (
                (k.Y_ROW, row),
                (k.Y_COL, col),
                (k.Y_V, v),
                (k.Y_CP, cols),
                (k.Y_K, misaligned),
                (k.Y_N, -(-(misaligned + cols) // e) if v and cols else 0),
                (k.Y_STEPS, -(-p["cols"] // e) + (misaligned > 0)),
                (k.Y_CHUNKS, -(-v // lanes)),
                (k.Y_STOP, stop),
            ):
                self.set(y + offset, value)
        return k.K_LOAD, own

    def put_store(self, u, p, ins, outs):
        own = self.off_chip(p, ins[0].payload)
        own |= self.order(p)
        if p.get("order"):
            own |= {k.T_ROW: p["order"][0][0], k.T_COL: p["order"][0][1]}
        return k.K_STORE, own | {k.T_CARRY_VALUE: self.alloc_values(self.graph.t * own[k.L_E])}

    def put_random_store(self, u, p, ins, outs):
        own = self.off_chip(p, ins[1].payload)
        return k.K_RANDOM_STORE, own | {
            k.T_CARRY_VALUE: self.alloc_values(self.graph.t * own[k.L_E]),
            k.T_RANDOM: 1,
            k.L_SHIFT: p["shift"],
            k.T_ADDRESSES: self.alloc(k.ADDRESSES * k.ADDRESS_WORDS),
            k.T_DUE: self.alloc(k.DUE * k.DUE_WORDS),
        }

    def put_source(self, u, p, ins, outs):
        given = self.sources.get(u.id)
        if given is None:
            raise RunError(
                "no beats given",
                f"source {u.name}",
                remedy=f"pass sources={{{u.id}: SourceBeats(...)}}",
            )
        payload = outs[0].payload
        n = len(given.release)
        at = self.slots(payload, n)
        words = k.X_META + 2 * len(leaves(payload))
        block = self.preset[-1][1].reshape(n, words)
        block[:, k.X_STOP] = given.stop
        block[:, k.X_DATA] = given.data
        if given.payload is not None:
            for i in np.flatnonzero(np.asarray(given.data)):
                meta, values = unpack_words(payload, given.payload[i])
                block[i, k.X_META :] = meta
                self.preset_values.append((int(block[i, k.X_VALUE]), values))
        return k.K_SOURCE, {k.O_BEATS: n, k.O_RELEASE: self.put(given.release), k.O_BEAT: at}

    def put_sink(self, u, p, ins, outs):
        release = np.asarray(self.sinks.get(u.id, ()), np.int64)
        return k.K_SINK, {
            k.N_RELEASES: len(release),
            k.N_RELEASE: self.put(release),
            k.N_PAD: self.counts_of(u),
        }
