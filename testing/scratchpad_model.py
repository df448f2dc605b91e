"""docs/timing.md section 4, written out plainly, with the channels around a scratchpad as in
section 1.
"""

from collections import deque
from dataclasses import dataclass, field

DONE = 15


@dataclass
class Channel:
    """Accepted in c, visible from c + 1; a slot taken in c is free from c + 1."""

    depth: int
    beats: deque = field(default_factory=deque)

    def start(self):
        self.level = len(self.beats)
        return self

    @property
    def room(self):
        return self.level < self.depth

    @property
    def head(self):
        return self.beats[0] if self.level else None


class ScratchpadModel:
    """``writers``: ranks; ``limit``: buffers that each writer may hold; ``readers``: (rank, repeat
    or None). A tile is (value, stop), a reference (page, tiles, stop); Done is None, and a stream
    that shows nothing is ``()``. ``copies[w]``: the reader's references come from writer w,
    ``copies[w]`` of each.
    """

    def __init__(self, *, pages, frames, writers, limit, readers):
        self.frames = frames
        self.ranks = writers
        self.readers = readers
        self.free = list(range(pages))
        self.memory = {}  # (page, frame) -> (value, stop)
        self.chain = {}
        self.count = {}
        self.pages = pages
        self.peak = 0
        self.limit = limit
        self.owner = {}  # first page of a buffer that is not free -> its writer
        self.opened = [None] * len(writers)  # [first page, tiles, page]
        self.references = [Channel(2) for _ in writers]
        self.held = [None] * len(readers)  # [reference, index, pass]
        self.tiles = [Channel(99) for _ in readers]
        self.credit = [0] * len(readers)
        self.pipe = [deque() for _ in readers]  # (cycle offered, tile)
        self.turn = [0, 0]

    def _serve(self, kind, wanting):
        if not wanting:
            return None
        n = len((self.ranks, self.readers)[kind])
        served = min(wanting, key=lambda x: (x - self.turn[kind]) % n)
        self.turn[kind] = (served + 1) % n
        return served

    def buffer_pages(self, reference):
        pages = [reference[0]]
        while len(pages) * self.frames < reference[1]:
            pages.append(self.chain[pages[-1]])
        return pages

    def step(self, cycle, inputs, ready, posts):
        """``inputs``: the visible beat of each input or (); ``ready``: of each output.

        Returns (inputs taken, output beats).
        """
        nw = len(self.ranks)
        free_at_start = len(self.free)
        taken = set()
        out = {}
        changes = list(posts)

        for w, queue in enumerate(self.references):
            queue.start()
            if queue.level and ready[w]:
                out[w] = queue.beats.popleft()
        for r in range(len(self.readers)):
            if self.pipe[r] and self.pipe[r][0][0] <= cycle and ready[nw + r]:
                out[nw + r] = self.pipe[r].popleft()[1]

        wanting = []
        for w, beat in enumerate(inputs[:nw]):
            if beat == ():
                continue
            if beat is None:
                if self.references[w].level == 0:
                    taken.add(w)
                    self.references[w].beats.append(None)
                continue
            o = self.opened[w]
            frame = o is not None and o[1] % self.frames != 0
            ends = beat[1] >= self.ranks[w]
            mine = list(self.owner.values()).count(w)
            if (frame or (free_at_start > 0 and (o is not None or mine < self.limit[w]))) and (
                not ends or self.references[w].room
            ):
                wanting.append(w)
        w = self._serve(0, wanting)
        if any(inputs[x] is None for x in taken):
            self.turn[0] = 0
        if w is not None:
            value, stop = inputs[w]
            taken.add(w)
            if self.opened[w] is None or self.opened[w][1] % self.frames == 0:
                page = self.free.pop(0)
                self.peak = max(self.peak, self.pages - len(self.free))
                if self.opened[w] is None:
                    self.opened[w] = [page, 0, page]
                    self.owner[page] = w
                else:
                    self.chain[self.opened[w][2]] = page
                    self.opened[w][2] = page
            o = self.opened[w]
            self.memory[o[2], o[1] % self.frames] = (value, stop)
            o[1] += 1
            if stop >= self.ranks[w]:
                self.references[w].beats.append((o[0], o[1], stop - self.ranks[w]))
                self.count[o[0]] = 1
                self.opened[w] = None

        credits = list(self.credit)
        r = self._serve(1, [r for r, held in enumerate(self.held) if held and credits[r] < 4])
        released = None
        for i in out:
            if i >= nw:
                self.credit[i - nw] -= 1
        last = False
        if r is not None:
            rank, repeat = self.readers[r]
            reference, index, passes = self.held[r]
            page = self.buffer_pages(reference)[index // self.frames]
            value, stop = self.memory[page, index % self.frames]
            end = index + 1 == reference[1]
            final = repeat is None or passes + 1 == repeat
            if end:
                stop = rank if not final else rank + reference[2] + (repeat is not None)
            last = end and final
            self.held[r] = [reference, 0, passes + 1] if end else [reference, index + 1, passes]
            self.pipe[r].append((cycle + 2, (value, stop)))
            self.credit[r] += 1
            if last:
                changes.append((reference[0], -1))
                released = reference
                self.held[r] = None
        for q, held in enumerate(self.held):
            beat = inputs[nw + q]
            if beat == () or held:
                continue
            if beat is None:
                if credits[q] == 0 and not (q == r and last):
                    taken.add(nw + q)
                    self.pipe[q].append((cycle + 1, None))
                    self.credit[q] += 1
                continue
            taken.add(nw + q)
            self.held[q] = [beat, 0, 0]

        if any(inputs[x] is None for x in taken if x >= nw):
            self.turn[1] = 0
        for page, delta in changes:
            self.count[page] += delta
        if released and self.count[released[0]] == 0:
            self.free = self.buffer_pages(released) + self.free
            del self.owner[released[0]]
        return taken, out
