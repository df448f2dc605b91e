"""Units that pack and unpack the rows of logical tiles (docs/timing.md section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.beat import STOP_DONE
from .core import Beat, Plan, Unit, golden


@golden("row_pack")
class RowPack(Unit):
    def setup(self):
        # a beat without data that leaves next; stop of the beat before
        self.leaving = None
        self.last = STOP_DONE
        # tiles that drain
        self.group = []
        self.drained = 0
        self.since = 0
        self.across = (
            self.kind.along == "cols"
        )  # whether columns are packed, and "rows" below are columns
        self.reset()

    def reset(self):
        self.fill = self.at = self.bands = self.valid = (
            # rows of the open band; tiles of the open row of tiles; bands drained of the group;
            # rows of the open row of tiles
            0
        )
        self.cols = {}
        self.open = False
        # columns of the open row of tiles; those of an empty band
        self.wide = 0
        self.blank = self.kind.cols

    def drain(self, group, c):
        self.group = group
        self.drained = 0
        self.since = c + 1

    def band(self, last):
        """The open band; its last tile gets `last`."""
        n = len(self.cols)
        self.bands += 1
        rows = self.fill
        self.fill = 0
        return [Beat(last if i == n - 1 else 0, 1, (rows, self.cols[i])) for i in range(n)]

    def close(self, stop, c):
        """The group has ended: the open band, then empty ones."""
        t = self.g.t
        width = -(-self.kind.cols // t)
        more = self.kind.bands - self.bands - (self.fill > 0)
        out = self.band(1 if more > 0 else stop) if self.fill else []
        for b in range(more):
            end = stop if b == more - 1 else 1
            out += [
                Beat(end if j == width - 1 else 0, 1, (0, min(max(self.blank - j * t, 0), t)))
                for j in range(width)
            ]
        if out:
            self.drain(out, c)
        else:
            self.leaving = Beat(stop, 0)
        self.reset()

    def emit(self):
        """The next tile of the group that drains."""
        if not self.outs[0].ready():
            self.offers = True
            return
        tile = self.group[self.drained]
        self.outs[0].push(tile._replace(numbers=tile.numbers[::-1]) if self.across else tile)
        self.drained += 1
        if self.drained == len(self.group):
            self.group = []

    def add(self, rows, cols, ends):
        """A tile of the open row of tiles."""
        self.open = True
        self.valid = rows
        self.wide = cols + (self.wide if self.at else 0)
        if rows:
            self.cols[self.at] = cols
        if ends and (rows or not self.cols):
            self.blank = self.wide
        self.at = 0 if ends else self.at + 1
        self.fill += rows if ends else 0

    def step(self, c):
        if self.leaving:
            self.offers = True
            if self.outs[0].ready():
                self.outs[0].push(self.leaving)
                self.leaving = None
            return
        drained = self.drained
        draining = bool(self.group)
        if draining and c >= self.since:
            self.emit()
        b = self.ins[0].peek()
        if b is None:
            return
        s = b.stop
        level = self.kind.level
        rows, cols = b.numbers if b.data else (0, 0)
        if self.across:
            rows, cols = cols, rows
        rows = self.valid if self.at else rows  # those of its first tile
        ends = s >= 2 if self.across else s >= 1  # the last tile of a row
        if b.data and self.at == 0 and self.fill == self.g.t and rows:  # a full band makes room
            if not draining:
                self.drain(self.band(1), c)
            return
        if draining and (s >= level or (b.data and self.at >= drained)):
            return
        self.ins[0].take()
        stop = 2 + s - level
        if b.data:
            assert self.fill + rows <= self.g.t and self.at < self.kind.depth, "rows do not fit"
            self.add(rows, cols, ends)
            if s >= level:
                self.close(stop, c)
        elif b.done:
            self.leaving = b
            self.reset()
        elif s >= level:
            if not self.open and min(self.last, s) > level:
                self.leaving = Beat(stop, 0)
            else:
                self.close(stop, c)
        self.last = s


@dataclass
class Band:
    """A complete band: the columns of its tiles (None for a bare stop), its valid rows, its rows
    that leave, and the stop of its end.
    """

    cols: list[int] | None
    valid: int
    leave: int
    end: int


@golden("row_unpack")
class RowUnpack(Unit):
    def setup(self):
        self.queue: list[Band] = []  # complete bands
        # columns of the open band's tiles; its place in the logical tile
        self.open = []
        self.band = 0
        self.row = self.col = 0  # of the tile that leaves next
        self.across = (
            self.kind.along == "cols"
        )  # whether a band's columns leave, and "rows" below are columns
        self.valid = 0  # of the open band: rows of its first tile

    def step(self, c):
        queued = len(self.queue)
        tail = self.queue[-1] if self.queue else None
        b = self.ins[0].peek()
        after: list[Band] = []
        ends = None  # stop that ends the band queued last
        if b is not None and queued < 2 and not b.done:
            self.ins[0].take()
            ends = self.collect(b, after, tail)
        if queued:
            self.emit(queued)
        elif b is not None and b.done:
            if self.outs[0].ready():
                self.ins[0].take()
                self.outs[0].push(b)
            else:
                self.offers = True
        if tail is not None and ends is not None:
            tail.end = ends
        self.queue += after

    def collect(self, b: Beat, after: list[Band], tail: Band | None) -> int | None:
        s = b.stop
        if not b.data:
            if s >= 2:
                after.append(Band(None, 0, 0, s))
            return None
        rows, cols = b.numbers
        if self.across:
            rows, cols = cols if rows or not self.kind.mask else 0, rows
        self.valid = self.valid if self.open else rows
        rows = self.valid
        self.open.append(cols)
        assert len(self.open) <= self.kind.depth, "rows do not fit"
        if not s:
            return None
        leave = (
            rows if self.kind.mask else min(max(self.kind.rows - self.band * self.g.t, 0), self.g.t)
        )
        ends = None
        if leave:
            after.append(Band(self.open, rows, leave, s))
        elif s >= 2 and tail is not None and tail.end == 1:
            ends = s  # the tile's rows have ended before
        elif s >= 2:
            after.append(Band(None, 0, 0, s))
        self.open = []
        self.band = 0 if s >= 2 else self.band + 1
        return ends

    def emit(self, queued):
        band = self.queue[0]
        cols = band.cols
        valid = band.valid
        leave = band.leave
        end = band.end
        last = self.row == leave - 1
        if cols is None:
            out = Beat(end + 1, 0)
            pops = True
        else:
            if last and end == 1 and queued == 1 and self.kind.mask:
                return
            ends = self.col == len(cols) - 1
            numbers = (int(self.row < valid), cols[self.col])
            if not ends:
                stop = int(self.across)
            else:
                stop = end + 1 if last and end >= 2 else 2
            out = Beat(stop, 1, numbers[::-1] if self.across else numbers)
            pops = ends and last
        if not self.outs[0].ready():
            self.offers = True
            return
        self.outs[0].push(out)
        if pops:
            self.queue.pop(0)
            self.row = self.col = 0
        elif cols is not None and ends:
            self.row = self.row + 1
            self.col = 0
        else:
            self.col += 1


@golden("row_append")
class RowAppend(Unit):
    def setup(self):
        self.placed = False

    def plan(self) -> Plan | None:
        tile = self.ins[0].peek()
        row = self.ins[1].peek()
        if tile is None:
            return None
        if not tile.data:
            if row is None:
                return None
            assert (row.data, row.stop) == (tile.data, tile.stop), "stop mismatch"
            return Plan({0: tile}, [0, 1])
        takes = not self.placed and tile.numbers[0] < self.g.t
        if takes and row is None:
            return None
        assert takes or self.placed or tile.stop < 2, "rows do not fit"

        def update():
            self.placed = tile.stop < 2 and (self.placed or (takes and tile.stop == 1))

        if not takes or row is None:
            return Plan({0: tile}, [0], update)
        assert row.data and bool(row.stop) == bool(tile.stop), "stop mismatch"
        rows, cols = tile.numbers
        return Plan(
            {0: tile._replace(numbers=(rows + 1, max(cols, row.numbers[1])))}, [0, 1], update
        )


@golden("row_offset")
class RowOffset(Unit):
    def setup(self):
        self.band = 0

    def plan(self) -> Plan | None:
        tile = self.ins[0].peek()
        count = self.ins[1].peek()
        if tile is None or count is None:
            return None
        if tile.done or tile.stop >= 2:
            assert (tile.data, tile.stop) == (
                count.data,
                count.stop if tile.done else count.stop + 2,
            ), "stop mismatch"
        if not tile.data:
            return Plan(
                {0: tile}, [0, 1] if tile.stop >= 2 else [0], lambda: setattr(self, "band", 0)
            )
        rows = tile.numbers[0]
        if self.kind.fill is None:
            rows = min(rows, max(count.numbers[0] - self.band * self.g.t, 0))
        band = 0 if tile.stop >= 2 else self.band + (tile.stop == 1)
        return Plan(
            {0: tile._replace(numbers=(rows, tile.numbers[1]))},
            [0, 1] if tile.stop >= 2 else [0],
            lambda: setattr(self, "band", band),
        )


@golden("permute")
class Permute(Unit):
    def plan(self) -> Plan | None:
        b = self.ins[0].peek()
        if b is None:
            return None
        if self.kind.fn == "transpose":
            b = b._replace(numbers=b.numbers[::-1])
        return Plan({0: b}, [0])
