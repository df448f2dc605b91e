"""The interconnect's reordering and the reference counts proved: lines leave their port in the
order of their requests, buffers are freed once.
"""

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from penstock.hw import ram
from penstock.hw.memory import counts as counts_module
from penstock.hw.memory.arbiter import Arbiter
from penstock.hw.memory.counts import ReferenceCounts
from penstock.hw.memory.interconnect import Interconnect
from penstock.hw.memory.ring import Ring
from penstock.machine.config import Dram, Machine
from penstock.machine.limits import ADDRESS_BITS, SIZE_BITS
from penstock.machine.widths import Widths
from penstock.testing import prover

GROUPS = 4
LANES = 2
RESPONSES = 2
LINE = 2


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Lines of two bits and counts of three: what is proved does not depend on the width."""
    monkeypatch.setattr(Machine, "widths", Widths(LINE, ADDRESS_BITS, SIZE_BITS))
    monkeypatch.setattr(counts_module, "COUNT_BITS", 3)


class _Plain:
    """The plain meaning of a ring: how many groups there are, and which lines each waits for."""

    def __init__(self):
        self.level = Signal(range(GROUPS + 1))
        self.head = Signal(range(GROUPS))
        self.due = [Signal(LANES, name=f"due{g}") for g in range(GROUPS)]


class _Watch:
    """The request that is watched: the groups ahead of it, and its lines."""

    def __init__(self):
        self.watched = Signal()
        self.ahead = Signal(range(GROUPS + 1))
        self.want = Signal(LANES)
        self.got = Signal(LANES)
        self.lines = [Signal(2, name=f"line{lane}") for lane in range(LANES)]
        self.place = Signal(range(GROUPS))


class Reordered(Ring):
    """A ring with one request watched, any that the solver marks; lines come in any order, each
    once.

    Invariant: the lines of the watched group that have come lie each in the bank that the table
    says, and it is behind as many groups as were reserved before it, less those that have left; so
    groups leave in order, complete and unchanged. ``broken`` plants a bug: ``early``, a group
    leaves before its last line; ``bank``, a bank takes its line to the other one's group.
    """

    def __init__(self, broken: str = ""):
        self.broken = broken
        super().__init__(groups=GROUPS, lanes=LANES, responses=RESPONSES, line=LINE)
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.mark = Signal()
        self.chosen = [
            self.reserve,
            self.mask,
            *self.arrivals,
            self.arrived,
            self.group.ready,
            self.mark,
        ]

    def elaborate(self, platform):
        banks = self._store._banks
        looks = [bank.read_port(domain="comb") for bank in banks]
        fronts = [bank.read_port(domain="comb") for bank in banks]
        m = super().elaborate(platform)
        take = Signal()
        m.d.comb += take.eq(self.group.valid & self.group.ready)
        plain = self._follow(m, take)
        watch = self._watch(m, plain, take)
        m.d.comb += [look.addr.eq(watch.place) for look in looks]
        m.d.comb += [front.addr.eq(plain.head) for front in fronts]
        held = self._plain_holds(plain, fronts) & (
            ~watch.watched | self._watched_holds(plain, watch, looks)
        )
        m.d.comb += self.ok.eq(held)
        self._break(m, plain)
        return m

    def _follow(self, m: Module, take: Signal) -> "_Plain":
        """The plain meaning of a cycle, and which arrivals are legal."""
        plain = _Plain()
        tail = (plain.head + plain.level)[: plain.head.shape().width]
        m.d.sync += [
            plain.level.eq(plain.level + self.reserve - take),
            plain.head.eq(plain.head + take),
        ]
        for g, due in enumerate(plain.due):
            come = [
                Cat((x.valid & (x.group == g) & (x.lane == lane)) for x in self.arrivals).any()
                for lane in range(LANES)
            ]
            m.d.sync += due.eq(Mux(self.reserve & (tail == g), self.mask, due & ~Cat(come)))
        wanted = [Array(plain.due)[x.group].bit_select(x.lane, 1) for x in self.arrivals]
        a, b = self.arrivals
        same = a.valid & b.valid & (a.group == b.group) & (a.lane == b.lane)
        m.d.comb += self.fair.eq(
            (~self.reserve | ((plain.level != GROUPS) & self.mask.any()))
            & Cat(~x.valid | w for x, w in zip(self.arrivals, wanted, strict=True)).all()
            & ~same
        )
        return plain

    def _watch(self, m: Module, plain: "_Plain", take: Signal) -> "_Watch":
        """One request, from its reservation until its group leaves."""
        w = _Watch()
        with m.If(self.reserve & self.mark & ~w.watched):
            m.d.sync += [
                w.watched.eq(1),
                w.ahead.eq(plain.level - take),
                w.want.eq(self.mask),
                w.got.eq(0),
            ]
        with m.Elif(w.watched & take):
            m.d.sync += [w.ahead.eq(w.ahead - 1), w.watched.eq(w.ahead != 0)]
        m.d.comb += w.place.eq(plain.head + w.ahead)
        for x, line in zip(self.arrivals, self.arrived, strict=True):
            with m.If(w.watched & x.valid & (x.group == w.place)):
                for lane in range(LANES):
                    with m.If(x.lane == lane):
                        m.d.sync += [w.lines[lane].eq(line), w.got[lane].eq(1)]
        return w

    def _plain_holds(self, plain: "_Plain", fronts: list) -> Value:
        """The ring is the plain queue; its head group is what is offered."""
        due = Array(plain.due)
        front = Cat(
            self.group.payload[lane] == self._held(fronts, plain.head, lane)
            for lane in range(LANES)
        ).all()
        missing = Cat(
            flags[g] == plain.due[g][lane]
            for lane, flags in enumerate(self._missing)
            for g in range(GROUPS)
        ).all()
        window = [((plain.head + k)[: plain.head.shape().width], k) for k in range(GROUPS)]
        return (
            (self._level == plain.level)
            & (self._head == plain.head)
            & (self.tail == (plain.head + plain.level)[: plain.head.shape().width])
            & (plain.level <= GROUPS)
            & missing
            & (self.free == (plain.level != GROUPS))
            & (~self.fair | ~self.stray)
            & Cat((k < plain.level) | (due[g] == 0) for g, k in window).all()
            & ((plain.level == 0) | front)
            & (self.group.valid == ((plain.level != 0) & (due[plain.head] == 0)))
        )

    def _watched_holds(self, plain: "_Plain", w: "_Watch", looks: list) -> Value:
        """The data of the watched group lies in its banks, and leaves unchanged."""
        due = Array(plain.due)[w.place]
        stored = Cat(
            ~w.got[lane] | (self._held(looks, w.place, lane) == w.lines[lane])
            for lane in range(LANES)
        ).all()
        out = Cat(
            ~w.want[lane] | (self.group.payload[lane] == w.lines[lane]) for lane in range(LANES)
        ).all()
        return (
            (w.ahead < plain.level)
            & stored
            & (w.want == (w.got | due))
            & ((w.got & due) == 0)
            & (~(self.group.valid & (w.ahead == 0)) | out)
        )

    def _break(self, m: Module, plain: "_Plain") -> None:
        if self.broken == "early":
            with m.If((self._level != 0) & (Array(plain.due)[plain.head] == 1)):
                m.d.comb += self.group.valid.eq(1)
        if self.broken == "bank":
            m.d.comb += self._store.arrivals[1].group.eq(self.arrivals[0].group)

    def _held(self, ports, group, lane):
        """The line of a place, by the table, in the banks' words of its group."""
        bits = [bit.bit_select(group, 1) for bit in self._store._bank_of[lane]]
        return Array(port.data[lane] for port in ports)[Cat(bits)]


class Counted(wiring.Component):
    """Reference counts beside plain ones, under any legal use: a buffer is opened at a page without
    one, references that exist are copied or dropped, two units and a reader at a time. With two
    ``releases`` one reader of two lets a reference go.

    Invariant: counts are the plain ones; a buffer is freed once, after its last reference, and
    every buffer without one is on its way to be.
    """

    PAGES = 3

    def __init__(self, broken: bool = False, releases: int = 1):
        self.broken = broken
        self.counts = ReferenceCounts(
            pages=self.PAGES, page_bits=2, posts=2, drops=True, releases=releases
        )
        super().__init__({})
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.inputs = [
            Signal(len(Value.cast(x)), name=f"in{k}") for k, x in enumerate(self._driven())
        ]
        self.chosen = self.inputs

    def _driven(self) -> list:
        """Ports that anything may drive: what opens, the posts, and what lets references go."""
        c = self.counts
        return [c.open, c.post0, c.post1, *(getattr(c, f"release{r}") for r in range(c.releases))]

    def elaborate(self, platform):
        m = Module()
        m.submodules.counts = c = self.counts
        kept = self._kept(m)
        opens, *changes = (
            data.View(x.shape(), given)
            for x, given in zip(self._driven(), self.inputs, strict=True)
        )
        post0, post1, *gone = changes
        lost = (
            self.broken & post0.valid & post1.valid & (post0.page == post1.page)
        )  # the second of two posts on one page
        m.d.comb += [
            c.open.eq(opens),
            c.post0.eq(post0),
            Value.cast(c.post1).eq(Mux(lost, 0, post1.as_value())),
        ]
        m.d.comb += [getattr(c, f"release{r}").eq(change) for r, change in enumerate(gone)]
        live = Signal(self.PAGES)
        exists = [Signal(4, name=f"exists{p}") for p in range(self.PAGES)]
        held = []
        fair = [
            ~change.valid | ((change.page < self.PAGES) & (Array(exists)[change.page] != 0))
            for change in changes
        ]
        fair += [~post.valid | (post.delta >= -1) & (post.delta <= 1) for post in (post0, post1)]
        fair.append(sum(change.valid for change in gone) <= 1)
        fair.append(~opens.valid | ((opens.page < self.PAGES) & ~live.bit_select(opens.page, 1)))
        for p in range(self.PAGES):
            after = (
                exists[p]
                + sum(Mux(post.valid & (post.page == p), post.delta, 0) for post in (post0, post1))
                - Cat(change.valid & (change.page == p) for change in gone).any()
            )
            fair.append((after >= 0) & (after < 8))
            opened = opens.valid & (opens.page == p)
            freed = c.freed.valid & (c.freed.page == p)
            m.d.sync += exists[p].eq(Mux(opened, 1, after))
            m.d.sync += live[p].eq((live[p] | opened) & ~freed)
            held += [~freed | (live[p] & (after == 0)), live[p] | (exists[p] == 0), exists[p] < 8]
            held += [
                ~live[p] | (kept[p] == exists[p]),
                c._waiting[p] == (live[p] & (exists[p] == 0)),
            ]
        idle = Cat(
            live[p] & (exists[p] == 0) for p in range(self.PAGES)
        )  # its last reference went in an earlier cycle
        held.append(~idle.any() | c.freed.valid)
        held.append(~c.overflow)
        m.d.comb += [self.fair.eq(Cat(fair).all()), self.ok.eq(Cat(held).all())]
        return m

    def _kept(self, m):
        """The counts: sums over the banks."""
        kept = []
        for p in range(self.PAGES):
            ports = [bank.read_port(domain="comb") for bank in self.counts._banks]
            m.d.comb += [port.addr.eq(p) for port in ports]
            kept.append(Signal(counts_module.COUNT_BITS, name=f"kept{p}"))
            m.d.comb += kept[p].eq(sum(port.data for port in ports))
        return kept


@pytest.mark.parametrize("words", [pytest.param(1, marks=pytest.mark.deep), ram.BLOCK_WORDS])
def test_lines_leave_in_the_order_of_their_requests(words, tmp_path, monkeypatch):
    """Banks are read in the cycle before, and in the same cycle."""
    monkeypatch.setattr(ram, "BLOCK_WORDS", words)
    monkeypatch.setattr(ram, "BLOCK_BITS", words)
    assert prover.prove(Reordered(), tmp_path, steps=2) == "proved"


@pytest.mark.parametrize("releases", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_buffers_are_freed_once_after_their_last_reference(releases, tmp_path):
    assert prover.prove(Counted(releases=releases), tmp_path, steps=2) == "proved"


@pytest.mark.deep
@pytest.mark.parametrize("top, bug", [(Reordered, "early"), (Reordered, "bank"), (Counted, True)])
def test_a_planted_bug_is_found(top, bug, tmp_path):
    assert prover.prove(top(broken=bug), tmp_path, steps=8) == "refuted"


class Fair(Arbiter):
    """A round-robin arbiter of three clients, one of them watched while it asks.

    ``broken`` takes the grant of the last client away while all ask.
    """

    def __init__(self, broken: bool = False):
        self.broken = broken
        super().__init__(clients=3, policy="round_robin")
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.who = Signal(range(3))
        self.chosen = [self.requests, self.clear, self.who]

    def elaborate(self, platform):
        m = super().elaborate(platform)
        grant = (
            self.grant & ~(self.broken & (self.who == 2) & self.requests.all())
            if self.broken
            else self.grant
        )
        passed = Signal(3)
        before = Signal.like(self.who)
        ever = Signal()
        asks = self.requests.bit_select(self.who, 1)
        gets = grant.bit_select(self.who, 1)
        m.d.sync += [
            passed.eq(Mux(asks & ~gets & ~self.clear, passed + 1, 0)),
            before.eq(self.who),
            ever.eq(1),
        ]
        m.d.comb += [
            self.fair.eq((self.who < 3) & (~ever | (self.who == before))),
            self.ok.eq(
                (grant & ~self.requests == 0)
                & (grant & (grant - 1) == 0)
                & (grant.any() == self.requests.any())
                & (passed < 3)
            ),
        ]
        return m


def test_a_request_is_granted_within_a_round(tmp_path):
    assert prover.prove(Fair(), tmp_path, steps=6) == "proved"


@pytest.mark.deep
def test_an_arbiter_that_starves_a_client_is_found(tmp_path):
    assert prover.prove(Fair(broken=True), tmp_path, steps=6) == "refuted"


class Routed(Interconnect):
    """An interconnect of two reading ports with one request watched, any of either port, before a
    memory that takes requests when it likes, and answers in any order.

    What is watched leaves at its own port, behind the requests made there before it, with the line
    that answered it. ``broken`` plants a bug.
    """

    def __init__(self, broken: bool = False):
        self.broken = broken
        super().__init__(
            ports=["read", "read"],
            config=Machine(
                t=2, port_lanes=1, load_lines=2, arbitration="round_robin", dram=Dram(kind="ideal")
            ),
        )
        self.ok = Signal(name="ok")
        self.fair = Signal(name="fair")
        self.mark = Signal()
        self.who = Signal()
        self.chosen = [
            self.mark,
            self.who,
            self.mem_req_ready,
            self.mem_rsp_valid,
            self.mem_rsp_port,
            self.mem_rsp_tag,
            self.mem_rsp_data,
        ]
        for port in (self.port0, self.port1):
            self.chosen += [port.request.valid, port.request.payload, port.group.ready]

    def elaborate(self, platform):
        m = super().elaborate(platform)
        ports = [self.port0, self.port1]
        grants = [p.request.valid & p.request.ready for p in ports]
        takes = [p.group.valid & p.group.ready for p in ports]
        response = self.mem_rsp_port[0]
        tag = self.mem_rsp_tag[0]
        answers = self.mem_rsp_valid[0]
        flight = Signal(4)
        held = [Signal(2, name=f"held{p}") for p in range(2)]
        asked = self.mem_req_valid & ~self.mem_req_write & self.mem_req_ready
        m.d.sync += flight.eq(
            (flight | Mux(asked, 1 << (self.mem_req_port[:1] * 2 + self.mem_req_group[:1]), 0))
            & ~Mux(answers, 1 << (response[:1] * 2 + tag[:1]), 0)
        )
        for p in range(2):
            m.d.sync += held[p].eq(held[p] + grants[p] - takes[p])
        before = Signal()
        ever = Signal()
        m.d.sync += [before.eq(self.who), ever.eq(1)]
        m.d.comb += self.fair.eq(
            Cat(~p.request.valid | (p.free & (p.request.payload.mask == 1)) for p in ports).all()
            & (~ever | (self.who == before))
            & (
                ~answers
                | ((response < 2) & (tag < 2) & flight.bit_select(response[:1] * 2 + tag[:1], 1))
            )
        )

        watched = Signal()
        asks = Signal()
        ahead = Signal(2)
        name = Signal()
        got = Signal()
        line = Signal(2)
        granted = Array(grants)[self.who]
        taken = Array(takes)[self.who]
        outstanding = Array(held)[self.who]
        shown = Array([p.group.payload.as_value() for p in ports])[self.who]
        with m.If(granted & self.mark & ~watched):
            m.d.sync += [watched.eq(1), asks.eq(1), ahead.eq(outstanding - taken), got.eq(0)]
        with m.Elif(watched):
            m.d.sync += [asks.eq(0), ahead.eq(ahead - taken), watched.eq(~(taken & (ahead == 0)))]
            with m.If(asks):
                m.d.sync += name.eq(self.mem_req_group)
            with m.If(answers & ~asks & (response == self.who) & (tag == name)):
                m.d.sync += [got.eq(1), line.eq(self.mem_rsp_data)]
        m.d.comb += self.ok.eq(
            (self.error == 0)
            & (~asks | (self.mem_req_valid & (self.mem_req_port == self.who)))
            & (~(watched & taken & (ahead == 0)) | (got & (shown == line)))
        )
        if self.broken:  # the second port's lines are taken for one another
            with m.If(answers & (response == 1)):
                m.d.comb += m.submodules.ring1.arrivals[0].group.eq(~tag[:1])
        return m


def test_lines_come_to_the_port_that_asked(tmp_path):
    assert prover.prove(Routed(), tmp_path, steps=9) != "refuted"


@pytest.mark.deep
def test_a_line_that_goes_astray_is_found(tmp_path):
    assert prover.prove(Routed(broken=True), tmp_path, steps=9) == "refuted"
