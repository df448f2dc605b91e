"""Choosing one of several requests."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Arbiter(wiring.Component):
    """Grants one request a cycle.

    Parameters
    ----------
    clients : int
        Number of requests, at least 1.
    policy : str
        ``need``: the lowest index; ``round_robin``: the first from a pointer on, which is 0 after
        reset and moves past the client granted.

    Members
    -------
    requests : In(clients)
    clear : In(1)
        The pointer is 0 from the next cycle on (wins over a grant).
    grant : Out(clients)
        One-hot: the request granted; zero without any.
    index : Out(range(clients))
        Its number (0 without any).

    Timing
    ------
    Combinational from ``requests`` to ``grant``; a grant is always
    taken. Source: docs/timing.md sections 4 and 5.
    """

    def __init__(self, *, clients: int, policy: str):
        if not isinstance(clients, int) or clients < 1:
            raise ValueError(f"Number of clients must be at least 1, not {clients!r}")
        if policy not in ("need", "round_robin"):
            raise ValueError(f"Policy must be 'need' or 'round_robin', not {policy!r}")
        self.clients = clients
        self.policy = policy
        super().__init__(
            {
                "requests": In(clients),
                "clear": In(1),
                "grant": Out(clients),
                "index": Out(range(max(2, clients))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        n = self.clients

        def first_from(start: int) -> None:
            for k in reversed(range(n)):
                client = (start + k) % n
                with m.If(self.requests[client]):
                    m.d.comb += self.index.eq(client)

        if self.policy == "need" or n == 1:
            first_from(0)
        else:
            pointer = Signal(range(n))
            with m.Switch(pointer):
                for start in range(n):
                    with m.Case(start):
                        first_from(start)
            with m.If(self.requests.any()):
                m.d.sync += pointer.eq(Mux(self.index == n - 1, 0, self.index + 1))
            with m.If(self.clear):
                m.d.sync += pointer.eq(0)
        with m.If(self.requests.any()):
            m.d.comb += self.grant.bit_select(self.index, 1).eq(1)
        return m
