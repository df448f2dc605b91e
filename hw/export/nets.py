"""Large modules in Amaranth, whose netlist has an object for each bit.

Amaranth numbers a module's inputs, and an instance's outputs, with 16 bits: an interconnect of many
lanes or ports has more, and here they have 24. Three of its steps take most of an export's time,
and are done here in less: what they write is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from .internals import (
    LOGIC,
    LOOPS,
    PORTS,
    WHOLE,
    ModuleEmitter,
    Net,
    NetFlipFlop,
    Netlist,
    NetMemory,
    NetModule,
    NetOperator,
    NetValue,
    replace,
)

LARGE = 1 << 20
"""Bits of a memory from which on Verilog clears it in a loop, not in a line a word."""
ZERO = "starts_at_zero"
"""Attribute of such a memory."""
BITS = 24
MASK = (1 << BITS) - 1
BITWISE = ("~", "&", "|", "^", "m")
"""Operators each of whose outputs follows its own bits of the inputs, unlike all others."""


def enlarge() -> None:
    """Let Amaranth convert large modules, and sooner, from now on."""
    numbering = {
        "from_cell": classmethod(_from_cell),
        "cell": property(_cell),
        "bit": property(_bit),
    }
    replace(numbering, _value, _check_loops, _emit_memory, _named_ports)


def _from_cell(cls, cell: int, bit: int) -> Net:
    assert bit in range(1 << BITS)
    assert cell >= 0
    assert cell > 0 or bit >= 2
    return cls((cell << BITS) | bit)


def _cell(net: Net) -> int:
    assert net >= 2
    return net >> BITS


def _bit(net: Net) -> int:
    assert net >= 2
    return net & MASK


def _value(cls, nets: Net | Iterable[Net] = ()) -> NetValue:
    """A value of its nets, which are taken at their word."""
    return tuple.__new__(cls, (nets,) if isinstance(nets, Net) else nets)


def _emit_memory(emitter: ModuleEmitter, number: int, cell: NetMemory) -> None:
    """A memory's first contents, a row at a time; of a large one without any, an attribute says
    that it is `ZERO`.
    """
    if cell.width * cell.depth >= LARGE and not any(cell.init):
        memory = emitter.builder.contents[emitter.memories[number].memid]
        memory.attributes = {**memory.attributes, ZERO: 1}
        return
    rows = (row & ((1 << cell.width) - 1) for row in reversed(cell.init))
    bits = "".join(f"{row:0{cell.width}b}" for row in rows)
    emitter.builder.cell(
        "$meminit_v2",
        ports={
            "ADDR": emitter.sigspec(),
            "DATA": f"{len(bits)}'{bits}",
            "EN": emitter.sigspec(NetValue.ones(cell.width)),
        },
        parameters={
            "MEMID": emitter.memories[number].memid,
            "ABITS": 0,
            "WIDTH": cell.width,
            "WORDS": cell.depth,
            "PRIORITY": 0,
        },
        src_loc=cell.src_loc,
    )


def _named_ports(netlist: Netlist) -> None:
    """Ports of all modules; one of some bits of a signal is named after these, as ``place_6_31``,
    one of bits that a module only hands on as its submodule or parent calls them.
    """
    PORTS(netlist)
    unnamed = [m for m in netlist.modules if any(name.startswith("port$") for name in m.ports)]
    for module in reversed(unnamed):  # submodules first
        others = [netlist.modules[k] for k in module.submodules]
        others += [] if module.parent is None else [netlist.modules[module.parent]]
        places = [_places(netlist, m) for m in (module, *others)]
        taken = {*module.signal_names.values(), *module.ports}
        ports = {}
        for old, (value, flow) in module.ports.items():
            name = _port_name(value, places) if old.startswith("port$") else old
            while name != old and name in taken:
                name += "_"
            taken.add(name)
            ports[name] = (value, flow)
        module.ports = ports


Places = Mapping[int, tuple[str, int, int]]
"""Net -> the signal that has it, its place in there, and the signal's bits."""


def _places(netlist: Netlist, module: NetModule) -> Places:
    """Name that a module has for each net: its port, or the first of its signals."""
    values = [(name, value) for name, (value, _) in module.ports.items()]
    values += [(name, netlist.signals[signal]) for signal, name in module.signal_names.items()]
    return {
        net: (name.replace("$", "_"), at, len(value))
        for name, value in reversed(values)
        if not name.startswith(("port$", "$"))
        for at, net in reversed(list(enumerate(value)))
    }


def _port_name(value: NetValue, places: Iterable[Places]) -> str:
    """The name of a port by the signal that its first bit is of."""
    for found in places:
        if value[0] in found:
            name, low, bits = found[value[0]]
            if len(value) == bits:
                return name
            return f"{name}_{low}" if len(value) == 1 else f"{name}_{low}_{low + len(value) - 1}"
    return f"net_{value[0].cell}_{value[0].bit}"


def _check_loops(netlist: Netlist) -> None:
    """Raise CombinationalCycle, in Amaranth's words, if there is a loop."""
    if _has_loop(netlist):
        LOOPS(netlist)


def _has_loop(netlist: Netlist) -> bool:
    """True if a net follows itself within a cycle.

    The nets of a cell that all follow the same inputs are one, where Amaranth goes through these
    inputs for each.
    """
    drivers = _drivers(netlist.connections)
    if drivers is None:
        return True
    tangled = _tangled(netlist, drivers)
    if not tangled:
        return False
    whole = [_is_whole(cell) for cell in netlist.cells]
    done: set[int] = set()
    entered: set[int] = set()
    for number in tangled:
        nets = {number << BITS} if whole[number] else netlist.cells[number].output_nets(number)
        for net in nets - done:
            path = [(net, iter(_before(netlist, drivers, whole, net)))]
            entered.add(net)
            while path:
                now, before = path[-1]
                other = next((x for x in before if x not in done), None)
                if other is None:
                    done.add(now)
                    path.pop()
                elif other in entered:
                    return True
                else:
                    entered.add(other)
                    path.append((other, iter(_before(netlist, drivers, whole, other))))
    return False


def _tangled(netlist: Netlist, drivers: Mapping[int, int]) -> list[int]:
    """Cells that a loop may go through; none, for nearly all netlists: cell by cell, all follow
    others that follow none of them.
    """
    order = TopologicalSorter()
    for number, cell in enumerate(netlist.cells):
        if isinstance(cell, LOGIC):
            nets = cell.input_nets()
        else:
            nets = (cell.clk, cell.arst) if isinstance(cell, NetFlipFlop) else ()
        order.add(number, *{drivers.get(net, net) >> BITS for net in nets})
    try:
        order.prepare()
    except CycleError:
        pass  # the cells before it are still in order
    else:
        return []
    left = set(range(len(netlist.cells)))
    while ready := order.get_ready():
        left.difference_update(ready)
        order.done(*ready)
    return sorted(left)


def _drivers(connections: Mapping[int, int]) -> dict[int, int] | None:
    """Driver of each bit of a signal, through other signals; None if they go round."""
    drivers: dict[int, int] = {}
    for net in connections:
        path = []
        while net < 0 and net not in drivers:
            if len(path) > len(connections):
                return None
            path.append(net)
            net = connections[net]
        drivers |= dict.fromkeys(path, drivers.get(net, net))
    return drivers


def _before(
    netlist: Netlist, drivers: Mapping[int, int], whole: Sequence[bool], net: int
) -> set[int]:
    """The nets that a net follows within a cycle; of a whole cell, its first one."""
    edges = netlist.cells[net >> BITS].comb_edges_to(net & MASK)
    nets = (drivers[before] if before < 0 else before for before, _ in edges)
    return {before & ~MASK if whole[before >> BITS] else before for before in nets if before >= 2}


def _is_whole(cell) -> bool:
    """True if all outputs of a cell follow the same inputs."""
    return isinstance(cell, WHOLE) or (
        isinstance(cell, NetOperator) and cell.operator not in BITWISE
    )
