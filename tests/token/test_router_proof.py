"""The routers proved, for every state and input: what comes in goes out, once."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from penstock.hw.noc.hoplite_router import HopliteRouter
from penstock.hw.noc.token import link_layout, struct
from penstock.hw.noc.xy_router import XYRouter
from penstock.hw.yosys import yosys
from penstock.overlay.core.config import PORTS, Layout

TOKEN = Layout((("x", 1), ("y", 1), ("value", 2)))


class Census(wiring.Component):
    """A router whose tokens equal to ``which`` are counted: those that come in at c, and those that
    are out at c + 1 or delivered at c.

    ``broken`` takes a wire away, to see the proof fail.
    """

    def __init__(self, broken: bool):
        link = link_layout(struct(TOKEN))
        token = struct(TOKEN)
        self.broken = broken
        super().__init__(
            {
                "x": In(1),
                "y": In(1),
                "w": In(link),
                "n": In(link),
                "p": In(token),
                "p_valid": In(1),
                "takes": In(1),
                "which": In(token),
                "ok": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.router = router = HopliteRouter(token=struct(TOKEN))
        m.d.comb += [
            router.x.eq(self.x),
            router.y.eq(self.y),
            router.w_i.eq(self.w),
            router.n_i.eq(self.n),
            router.p_i.payload.eq(self.p),
            router.p_i.valid.eq(self.p_valid),
            router.p_o.ready.eq(self.takes),
        ]
        which = Signal(struct(TOKEN))
        owed = Signal(2)
        ever = Signal()

        def same(valid, token, what):
            return valid & (token.as_value() == what.as_value())

        came = same(self.w.valid, self.w.token, self.which) + same(
            self.n.valid, self.n.token, self.which
        )
        came = came + same(router.p_i.valid & router.p_i.ready, self.p, self.which)
        delivered = same(router.p_o.valid & router.p_o.ready, router.p_o.payload, self.which)
        right_place = ~router.p_o.valid | (
            (router.p_o.payload.x == self.x) & (router.p_o.payload.y == self.y)
        )
        out = same(router.e_o.valid, router.e_o.token, which) + (
            0 if self.broken else same(router.s_o.valid, router.s_o.token, which)
        )
        m.d.sync += [which.eq(self.which), owed.eq(came - delivered), ever.eq(1)]
        m.d.comb += self.ok.eq((~ever | (out == owed)) & right_place)
        return m


class Crossbar(XYRouter):
    """A buffered router that counts the tokens equal to ``which`` that leave its FIFOs, and those
    that its outputs deliver, in one cycle.

    ``broken`` takes an output away, to see the proof fail.
    """

    def __init__(self, broken: bool):
        self.broken = broken
        super().__init__(token=struct(TOKEN), fifo_depth=2)
        self.which = Signal(struct(TOKEN))
        self.ok = Signal()
        self.ports = [
            self.which.as_value(),
            self.ok,
            *(Value.cast(value) for _, _, value in self.signature.flatten(self)),
        ]

    def elaborate(self, platform):
        m = super().elaborate(platform)

        def moves(s):
            token = getattr(s.payload, "token", s.payload)
            return s.valid & s.ready & (token.as_value() == self.which.as_value())

        heads = {port: getattr(m.submodules, f"fifo_{port.lower()}").o for port in PORTS}
        left = sum(moves(head) for head in heads.values())
        delivered = sum(
            moves(getattr(self, f"{port.lower()}_o"))
            for port in PORTS
            if not (self.broken and port == "N")
        )
        arrived = ~(self.p_o.valid & self.p_o.ready) | (
            (self.p_o.payload.x == self.x) & (self.p_o.payload.y == self.y)
        )
        # A head has the route that it was given, and in a column its token stays there.
        kept = Cat(
            (head.payload.route == self._route(m, port, head.payload.token))
            & ((port not in "NS") | (head.payload.token.x == self.x))
            for port, head in heads.items()
        ).all()
        m.d.comb += self.ok.eq(~kept | ((left == delivered) & arrived))
        return m


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("census", [Census, Crossbar])
def test_router_keeps_every_token(census, broken, tmp_path):
    (tmp_path / "in.il").write_text(
        rtlil.convert(
            top := census(broken), name="census", emit_src=False, ports=getattr(top, "ports", None)
        )
    )
    script = (
        "read_rtlil in.il; prep -flatten -top census; memory_map; opt_clean; async2sync; "
        "sat -tempinduct -prove ok 1 -maxsteps 4 -verify census"
    )
    done = yosys(script, tmp_path)
    assert ("proof did fail" in done.stdout + done.stderr) == broken, done.stdout + done.stderr
    assert (done.returncode != 0) == broken, done.stdout + done.stderr
