"""Placement that knows time: the best of many schedules of the static overlay, by their real
lengths (docs/overlay.md section 10).

List placements at several prices of a copy begin, partitions and round robin are further starts.
Then moves improve the best (:mod:`.moves`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from . import listing
from .edges import Task, tails
from .moves import Current, Reads, improve, keep, order_of
from .schedule import Schedule, assemble, schedule
from .specialise import kinds_of_nodes, kinds_of_pes

PRICES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Prices of a copy, in cycles of delay that a placement accepts to save it."""
QUICK_NODES = 100_000
QUICK_STEPS = 256
"""Effort by default: QUICK_NODES / nodes moves, at most QUICK_STEPS."""
TELL_SECONDS = 1.0


@dataclass(frozen=True)
class Effort:
    """Effort spent on improving a placement.

    Neither: few moves, and the starts that take little time.
    """

    # moves, each a schedule; the result depends on them and the seed alone
    steps: int | None = None
    # wall clock of the whole search; what is reached then depends on the machine
    seconds: float | None = None

    @property
    def asked(self) -> bool:
        return self.steps is not None or self.seconds is not None

    def moves(self, nodes: int) -> int | None:
        """Number of moves; None: until the time is over."""
        if self.steps is not None or self.seconds is not None:
            return self.steps
        return min(QUICK_STEPS, QUICK_NODES // max(1, nodes))


class Search:
    """The best schedule so far, of the starts and moves that were asked for.

    ``floor`` is a bound below which no schedule is; ``tell`` is called with what has been reached;
    ``given``: PEs of nodes that have one (-1: none), ``there``: sources that take no issue.
    """

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        effort: Effort | None = None,
        floor: int = 0,
        tell: Callable[[str], None] | None = None,
        given: np.ndarray | None = None,
        there: np.ndarray | None = None,
    ):
        self.task = task
        self.effort = effort or Effort()
        self.seed = seed
        self.floor = floor
        self.tell = tell or (lambda text: None)
        self.told = self.begun = time.monotonic()
        self.listed = 0
        """Length of the best list, which ``kept`` holds; 0: none yet."""
        self.pushed: Schedule | None = None
        """A schedule by the other way that is shorter."""
        self.price = PRICES[0]
        o = task.overlay
        special = o.kinds == "specialised"
        self.kinds = (
            kinds_of_pes(o, task.op).astype(np.int32) if special else np.ones(o.pes, np.int32)
        )
        self.machine = listing.Machine(o.cols, o.pes)
        self.reads = Reads(task.e.start, task.e.dst)
        nodes = _nodes(task, special)
        self.given = np.full(len(nodes), -1, np.int32) if given is None else given.astype(np.int32)
        nodes["fixed"] = self.given >= 0
        nodes["there"] = False if there is None else there
        edges = len(task.e.src)
        self.bonus = np.zeros(len(nodes))
        self.order = order_of(nodes, self.bonus, self.reads)
        longest = int(nodes["tail"].max(initial=0))
        self.cycles = 4 * (len(nodes) // o.pes + longest) + 512
        self.plan = listing.plan(nodes, edges, o.pes, self.cycles)
        self.kept = listing.plan(nodes, edges, o.pes, 0)

    @property
    def length(self) -> int:
        """Length of the best schedule; 0: none yet."""
        return self.pushed.length if self.pushed else self.listed

    @property
    def over(self) -> bool:
        """True if the time is over, or nothing can be better."""
        if self.length and self.length <= self.floor:
            return True
        limit = self.effort.seconds
        return limit is not None and time.monotonic() - self.begun >= limit

    def list_from(self, pe: np.ndarray, price: float, noise: float = 0.0) -> int:
        """List what has no PE in ``pe`` (-1); keeps and returns the length if it is the best, else
        returns -1.
        """
        while True:
            limit = self.length or self.cycles
            made = listing.run(
                self.order, pe, self.machine, self.kinds, self.plan, price, noise, limit
            )
            if made >= 0 or self.length:
                break
            self.cycles *= 2
            self.plan = listing.plan(
                self.plan.nodes, len(self.task.e.src), self.task.overlay.pes, self.cycles
            )
        if made >= 0:
            self.listed = made
            self.price = price
            self.pushed = None
            keep(self.plan, self.kept)
        return made

    def ladder(self) -> None:
        """List placements: prices from the one that suits the mesh, up and down while it helps."""
        free = self.given
        noise = 0.25 if self.seed else 0.0
        listing.seed(self.seed)
        usual = 256.0 / self.task.overlay.pes
        middle = int(np.argmin([abs(np.log(p / usual)) for p in PRICES]))
        self.list_from(free, PRICES[middle], noise)
        for rungs in (PRICES[middle + 1 :], PRICES[middle - 1 :: -1] if middle else ()):
            missed = 0
            for price in rungs:
                if self.over or missed == 2:
                    break
                missed = missed + 1 if self.list_from(free, price, noise) < 0 else 0

    def start(self, pe: np.ndarray) -> None:
        """Try a placement that was made elsewhere, with both ways to schedule it."""
        self.list_from(pe.astype(np.int32), self.price)
        pushed = schedule(self.task, pe)
        if not self.length or pushed.length < self.length:
            self.pushed = pushed

    def better(self) -> None:
        """Make moves until the effort is spent."""
        moves = self.effort.moves(len(self.bonus))
        if self.over or moves == 0 or not self.listed:
            return
        nodes = self.kept.nodes
        now = Current(nodes["pe"].copy(), self.bonus, nodes["issue"].copy())
        listing.seed(self.seed)
        done = 0
        batch = max(1, min(64, 20_000 // len(self.bonus)))
        while not self.over and (moves is None or done < moves):
            count = batch if moves is None else min(batch, moves - done)
            self.listed = improve(
                count,
                self.listed,
                self.price,
                self.machine,
                self.kinds,
                self.reads,
                now,
                self.plan,
                self.kept,
            )
            done += count
            if self.pushed and self.listed <= self.pushed.length:
                self.pushed = None
            self._tell(done)

    def _tell(self, done: int) -> None:
        now = time.monotonic()
        if now - self.told >= TELL_SECONDS:
            self.told = now
            self.tell(f"{self.length} cycles, bound {self.floor}, after {done} moves")

    def best(self) -> Schedule:
        """The best schedule."""
        return self.pushed or _schedule(self.task, self.kept)


def find(
    task: Task,
    starts: Iterable[Callable[[], np.ndarray]] = (),
    seed: int = 0,
    effort: Effort | None = None,
    floor: int = 0,
    tell: Callable[[str], None] | None = None,
) -> Schedule:
    """The shortest schedule that is found; ``starts`` make placements to try.

    With fixed memories, the shortest of those that overrun them least, without moves.
    """
    search = Search(task, seed, effort, floor, tell)
    if task.overlay.memories:
        return _that_fits(search, starts)
    search.ladder()
    for make in starts:
        if search.over:
            break
        search.start(make())
    search.better()
    return search.best()


def scheduled(task: Task, pe: np.ndarray) -> Schedule:
    """The better of the two schedules of a placement."""
    search = Search(task)
    search.start(pe)
    return search.best()


def _that_fits(search: Search, starts: Iterable[Callable[[], np.ndarray]]) -> Schedule:
    task = search.task
    free = np.full(len(search.bonus), -1, np.int32)
    tried = []
    for price in PRICES:
        search.listed = 0
        search.list_from(free, price)
        tried.append(search.best())
    tried += [schedule(task, make()) for make in starts]
    return min(tried, key=lambda s: (_overrun(s), s.length))


def _overrun(s: Schedule) -> int:
    """Words by which a schedule overruns the fixed memories."""
    fixed = dict(s.overlay.memories)
    needs = {"value": int(s.values.max(initial=0)), "context": s.length, "switch": s.length}
    return sum(max(0, need - fixed.get(name, need)) for name, need in needs.items())


def _nodes(task: Task, special: bool) -> np.ndarray:
    """The nodes of :data:`.listing.NODE`."""
    e = task.e
    nodes = np.zeros(len(task.op), listing.NODE)
    right = e.slot & 1 != 0
    nodes["left"] = task.a
    nodes["right"] = task.b
    nodes["left_edge"][e.dst[~right]] = np.flatnonzero(~right)
    nodes["right_edge"][e.dst[right]] = np.flatnonzero(right)
    nodes["source"] = task.source
    nodes["latency"] = task.latency
    nodes["tail"] = tails(task.a, task.b, task.latency)
    nodes["kind"] = kinds_of_nodes(task.op) if special else 1
    return nodes


def _schedule(task: Task, plan: listing.Plan) -> Schedule:
    sends, copies = plan.counts
    nodes = plan.nodes
    pe = nodes["pe"].copy()
    alone = np.flatnonzero(pe < 0)
    # sources that nobody reads
    pe[alone] = np.arange(len(alone)) % task.overlay.pes
    sent = plan.sends[:sends]
    copy = plan.copies[:copies]
    return assemble(
        task,
        pe,
        nodes["issue"].copy(),
        (sent["node"].copy(), sent["cycle"].copy()),
        (copy["send"].copy(), copy["pe"].copy(), copy["cycle"].copy()),
        plan.edge_copy.copy(),
    )
