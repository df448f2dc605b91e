"""The off-chip side of docs/timing.md section 5, written out plainly: what each load and store does
in each cycle.
"""

from dataclasses import dataclass, field
from random import Random

LINE = 64


@dataclass
class Place:
    """A tensor in memory and the logical tiles of a load or store."""

    base: int
    pitch: int
    tensor: list  # rows of element values
    element_bytes: int
    rows: int
    cols: int
    shape: tuple = ()
    row_step: tuple = ()
    col_step: tuple = ()

    @property
    def tensor_rows(self):
        return len(self.tensor)

    @property
    def tensor_cols(self):
        return len(self.tensor[0])

    def cfg(self, *, load):
        out = {
            n: getattr(self, n)
            for n in ("base", "pitch", "tensor_rows", "tensor_cols", "rows", "cols")
        }
        if load:
            for name in ("shape", "row_step", "col_step"):
                out |= {f"{name}_{d}": x for d, x in enumerate(getattr(self, name))}
        return out

    def origins(self):
        """Origins of the logical tiles of the loop nest with the stop level at the end of each."""

        def nest(d, row, col, above):
            if d == len(self.shape):
                yield row, col, above
                return
            for i in range(self.shape[d]):
                # Stops count from the inside: the innermost run of dimensions at their last trip.
                end = (*above, i == self.shape[d] - 1)
                yield from nest(d + 1, row + i * self.row_step[d], col + i * self.col_step[d], end)

        for row, col, ends in nest(0, 0, 0, ()):
            stop = 2
            for last in reversed(ends):
                if not last:
                    break
                stop += 1
            yield row, col, stop


def clamp(x, high):
    return max(0, min(x, high))


def beat_bits(t, element_bytes, elements, rows, cols, stop, data=1):
    """The bits of a tile beat; ``elements`` is a t x t list."""
    word = 0
    at = 0
    for row in elements:
        for x in row:
            word |= x << at
            at += 8 * element_bytes
    count = t.bit_length()
    for value, width in ((rows, count), (cols, count), (stop, 4), (data, 1)):
        word |= value << at
        at += width
    return word


def done_bits(t, element_bytes):
    return beat_bits(t, element_bytes, [[0] * t] * t, 0, 0, 15, 0)


def tile_row(place, t, row0, col0, rows, cols, v, valid, stop):
    """Beats of one row of physical tiles: v valid rows, ``valid`` valid columns of the logical
    tile, ``stop`` on the last.
    """
    beats = []
    for c in range(0, cols, t):
        w = clamp(valid - c, t)
        elements = [
            [place.tensor[row0 + r][col0 + c + i] if r < v and i < w else 0 for i in range(t)]
            for r in range(t)
        ]
        beats.append(
            beat_bits(t, place.element_bytes, elements, v, w, stop if c + t >= cols else 0)
        )
    return beats


class Dram:
    """Delivers each line after its own delay, at most ``lanes`` a cycle, in any order."""

    def __init__(self, lanes, seed, *, delays=(1, 12)):
        self.lanes = lanes
        self.random = Random(seed)
        self.delays = delays
        self.flying = []

    def step(self, cycle, lines):
        """Lines (any object) that arrive in ``cycle``; returns those delivered in it."""
        out = sorted(x for x in self.flying if x[0] <= cycle)[: self.lanes]
        self.flying = [x for x in self.flying if x not in out]
        for line in lines:
            self.flying.append(
                (cycle + self.random.randint(*self.delays), self.random.random(), line)
            )
        return [x[2] for x in out]


@dataclass
class LoadModel:
    place: Place
    t: int
    lanes: int
    groups: int
    requests: list = field(
        default_factory=list
    )  # a chunk's line addresses, or None for a band without
    steps: list = field(
        default_factory=list
    )  # (has a group, beats of the block it completes or None)

    def __post_init__(self):
        p = self.place
        t = self.t
        e = LINE // p.element_bytes
        for row0, col0, end in p.origins():
            high = clamp(p.tensor_rows - row0, p.rows)
            wide = clamp(p.tensor_cols - col0, p.cols)
            bands = -(-p.rows // t)
            for b in range(bands):
                v = clamp(high - b * t, t)
                k = col0 % e
                n = 0 if v == 0 or wide == 0 else -(-(k + wide) // e)
                beats = tile_row(
                    p, t, row0 + b * t, col0, p.rows, p.cols, v, wide, end if b == bands - 1 else 1
                )
                g = e // t
                blocks = [beats[i : i + g] for i in range(0, len(beats), g)]
                if n == 0:
                    self.requests.append(None)
                for i in range(-(-p.cols // e) + (k > 0)):
                    chunks = []
                    if i < n:
                        chunks = [
                            [
                                p.base + (row0 + b * t + r) * p.pitch + ((col0 // e) + i) * LINE
                                for r in range(w, min(w + self.lanes, v))
                            ]
                            for w in range(0, v, self.lanes)
                        ]
                    self.requests += chunks
                    block = (blocks[i - 1] if i else None) if k else blocks[i]
                    for j in range(max(1, len(chunks))):
                        self.steps.append(
                            (bool(chunks), block if j == max(1, len(chunks)) - 1 else None)
                        )
        self.ring = []
        self.queue = []
        self.through = False
        self.sent = 0

    def present(self):
        return self.requests and self.requests[0] is not None and len(self.ring) < self.groups

    def offer(self):
        if self.queue:
            return self.queue[0][0]
        return None if self.steps or self.through else done_bits(self.t, self.place.element_bytes)

    def step(self, granted, ready):
        """One cycle; what is granted and what comes back is visible from the next.

        Returns the beat accepted.
        """
        go = False
        if self.steps:
            group, block = self.steps[0]
            go = (not group or bool(self.ring and not self.ring[0])) and (
                block is None or len(self.queue) < 2
            )
        offer = self.offer() if ready else None
        if offer is not None:
            if not self.queue:
                self.through = True
            else:
                self.queue[0] = self.queue[0][1:]
                if not self.queue[0]:
                    self.queue.pop(0)
        if go:
            self.steps.pop(0)
            if group:
                self.ring.pop(0)
            if block is not None:
                self.queue.append(list(block))
        if granted:
            lines = [(self.sent, address) for address in self.requests.pop(0)]
            self.ring.append(set(lines))
            self.sent += 1
            return offer, lines
        if self.requests and self.requests[0] is None:
            self.requests.pop(0)
        return offer, None

    def deliver(self, line):
        next(group for group in self.ring if line in group).discard(line)


@dataclass
class StoreModel:
    place: Place
    t: int
    lanes: int
    valid: list | None = None  # (rows, cols) of each logical tile's own valid counts
    runs: int = 1
    beats: list = field(default_factory=list)  # (bits, ends a block; None: Done)
    steps: list = field(default_factory=list)  # (needs a block, chunks)

    def __post_init__(self):
        p = self.place
        t = self.t
        e = LINE // p.element_bytes
        across = -(-p.tensor_cols // p.cols)
        tiles = across * -(-p.tensor_rows // p.rows)
        for j in range(tiles):
            row0 = j // across * p.rows
            col0 = j % across * p.cols
            high = clamp(p.tensor_rows - row0, p.rows)
            wide = clamp(p.tensor_cols - col0, p.cols)
            if self.valid:
                high = min(high, self.valid[j][0])
                wide = min(wide, self.valid[j][1])
            bands = -(-p.rows // t)
            for b in range(bands):
                v = clamp(high - b * t, t)
                k = col0 % e
                beats = tile_row(
                    p,
                    t,
                    row0 + b * t,
                    col0,
                    p.rows,
                    p.cols,
                    v,
                    wide,
                    1 if b < bands - 1 else 2 if j < tiles - 1 else 3,
                )
                self.beats += [
                    (x, (i + 1) % (e // t) == 0 or i == len(beats) - 1) for i, x in enumerate(beats)
                ]
                blocks = -(-p.cols // e)
                for i in range(blocks + (k > 0)):
                    # columns of line i, from the line of col0 on
                    low = i * e
                    end = min((i + 1) * e, k + wide)
                    chunks = []
                    if v and wide and max(low, k) < end:
                        chunks = [
                            [
                                p.base + (row0 + b * t + r) * p.pitch + (col0 // e + i) * LINE
                                for r in range(w, min(w + self.lanes, v))
                            ]
                            for w in range(0, v, self.lanes)
                        ]
                    self.steps.append((i < blocks, chunks))
        self.beats.append((done_bits(t, p.element_bytes), None))
        self.beats *= self.runs
        self.steps = [
            (needs, list(chunks)) for _ in range(self.runs) for needs, chunks in self.steps
        ]
        self.level = 0
        self.flight = 0
        self.done = False
        self.through = False

    def open(self):
        return bool(self.steps) and (not self.steps[0][0] or self.level > 0)

    def present(self):
        return self.open() and bool(self.steps[0][1])

    def wants(self):
        """Whether the next beat, if visible, is taken in this cycle."""
        if self.beats[0][1] is None:
            return self.level == 0 and not self.open()
        return self.level < 2

    def step(self, granted, visible):
        lines = taken = None
        pushed = popped = 0
        take = bool(self.beats) and visible and self.wants()
        if self.open() and (granted or not self.steps[0][1]):
            needs, chunks = self.steps[0]
            if granted:
                lines = [(0, address) for address in chunks.pop(0)]
                self.flight += len(lines)
            if not chunks:
                self.steps.pop(0)
                popped = needs
        if take:
            taken, pushed = self.beats.pop(0)
            self.done = not self.beats
        self.level += bool(pushed) - popped
        return taken, lines

    def deliver(self, line):
        self.flight -= 1


def run(models, *, policy, dram, moves, limit=5000):
    """All cycles until everything is through: the list of (cycle, what, port, detail).

    ``moves(port, cycle)``: whether the load's consumer takes, or the store's producer shows, a
    beat.
    """
    log = []
    pointer = 0
    reaching = []
    for cycle in range(limit):
        delivered = dram.step(cycle, reaching)
        ports = [p for p, m in enumerate(models) if m.present()]
        grant = None
        if ports:
            grant = (
                ports[0]
                if policy == "need"
                else min(ports, key=lambda p: (p - pointer) % len(models))
            )
            pointer = (grant + 1) % len(models)
        reaching = []
        for p, m in enumerate(models):
            if isinstance(m, StoreModel) and not m.through and m.done and m.flight == 0:
                m.through = True
                log.append((cycle, "done", p, 0))
            moved, lines = m.step(p == grant, moves(p, cycle))
            if moved:
                log.append((cycle, "beat", p, moved))
            if lines:
                reaching = [(p, line) for line in lines]
                log.append((cycle, "grant", p, tuple(address for _, address in lines)))
        for p, line in delivered:
            models[p].deliver(line)
        if all(m.through for m in models):
            return log
    raise AssertionError(f"the model is not through after {limit} cycles")
